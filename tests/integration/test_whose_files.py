"""G18, G23, case 88: whose the files of the state directory are, and what if they are none."""

import json
import os
import random
import shutil
import socket
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from acpbridge.daemon.wire import WIRE_VERSION
from tests.integration.daemon_home import Home, daemon_home, until
from tests.integration.faultsweep import loose, nursery
from tests.integration.traffic import client, ended

FILES = ("state.db", "audit.jsonl", "processes.json", "killed.jsonl", "daemon.log")
NOBODY = 65534


def plant_directory(path: Path) -> None:
    path.mkdir()
    (path / "precious").touch(0o600)


def plant_link(path: Path) -> None:
    path.with_name("precious").write_text("precious", encoding="utf-8")
    path.symlink_to(path.with_name("precious"))


def plant_fifo(path: Path) -> None:
    os.mkfifo(path, 0o600)


def plant_noise(path: Path) -> None:
    path.write_bytes(random.Random(path.name).randbytes(20_000))


def plant_half(path: Path) -> None:
    whole = b'{"key": "agent:fake:acp:x", "reason": "killed"}' * 400
    path.write_bytes(whole[:16_333])


def plant_foreign(path: Path) -> None:
    path.touch(0o600)
    os.chown(path, NOBODY, NOBODY)


def serves(home: Home) -> None:
    """Check that a turn is run and that what is asked in it is still denied by default."""
    done = home.path / "done"
    with client(home) as caller:
        run = ended(caller, f"ask execute x do {done}", agent="fake", onPermission="deny")
        assert run["outcome"] == "completed", run
        assert caller.call("questions")["permissions"] == []
    assert not done.exists()


@pytest.mark.parametrize(
    "plant",
    [plant_directory, plant_link, plant_fifo, plant_noise, plant_half, plant_foreign],
    ids=lambda plant: plant.__name__,
)
def test_g18_whatever_stands_in_a_files_place_the_daemon_starts_and_allows_nothing(
    tmp_path: Path, plant: Callable[[Path], None]
) -> None:
    """Without `put_aside` a directory in place of the ledger kept the daemon from starting."""
    if plant is plant_foreign and os.getuid() != 0:
        pytest.skip("only root can give a file away")
    with daemon_home(tmp_path) as home, nursery(home) as daemons:
        for name in FILES:
            path = home.path / name
            for part in home.path.glob(f"{name}*"):
                part.unlink()
            plant(path)
        assert daemons.start() is None
        serves(home)
        with client(home) as caller:
            warnings = caller.call("status", key="")["warnings"]
        if plant in (plant_directory, plant_link, plant_fifo, plant_foreign):
            assert [name for name in FILES if f"/{name} was " not in str(warnings)] == []
            assert len(list(home.path.glob("*.aside-*"))) == len(FILES)
        if plant is plant_link:
            assert (home.path / "precious").read_text(encoding="utf-8") == "precious"
            (home.path / "precious").unlink()
        assert [line for line in loose(home) if "aside" not in line] == []
        assert home.run("daemon", "stop").code == 0
        assert daemons.ended() == 0


def test_what_stands_in_the_sockets_place_is_put_aside_at_the_start_and_later(
    tmp_path: Path,
) -> None:
    """Without `socket_put_aside` the start fails with a raw IsADirectoryError."""
    with daemon_home(tmp_path) as home, nursery(home) as daemons:
        path = home.path / "daemon.sock"
        path.mkdir()
        assert daemons.start() is None
        serves(home)
        (warning,) = [w for w in home.status()["warnings"] if "daemon.sock" in w]
        assert f"{path} was a directory; it was moved to daemon.sock.aside-1" in warning
        path.unlink()
        path.mkdir()
        (path / "kept").touch()
        until(path.is_socket)
        serves(home)
        assert (home.path / "daemon.sock.aside-2" / "kept").exists()
        assert home.run("daemon", "stop").code == 0
        assert daemons.ended() == 0


def test_case_88_what_was_open_to_others_is_closed_by_the_next_start(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home, nursery(home) as daemons:
        assert daemons.start() is None
        serves(home)
        assert loose(home) == []
        assert home.run("daemon", "stop").code == 0
        assert daemons.ended() == 0
        for name in ("daemon.log.1", "audit.jsonl.aside-1", "state.db-wal", "processes.json.part"):
            (home.path / name).touch()
        (home.path / "killed.jsonl").touch()
        (home.path / "audit.000001.jsonl").touch()
        for path in home.path.rglob("*"):
            path.chmod(0o777 if path.is_dir() else 0o666)
        assert daemons.start() is None
        assert loose(home) == []
        serves(home)
        assert loose(home) == []
        assert home.run("daemon", "stop").code == 0
        assert daemons.ended() == 0


@pytest.fixture
def open_place() -> Iterator[Path]:
    """Give a directory that every user may enter, so that what is refused is refused by us."""
    path = Path(tempfile.mkdtemp(prefix="acpbridge-open-"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else")
def test_g23_another_user_gets_nothing(open_place: Path) -> None:
    """Even where somebody has opened the directory and the socket, the peer's uid is looked at.

    Without the comparison of uids in `Server.serve`: the stranger gets an answer to its hello.
    """
    with daemon_home(open_place) as home, nursery(home) as daemons:
        assert daemons.start() is None
        serves(home)
        # One that is being written gets its name at the end.
        files = [path for path in home.files() if path.suffix != ".part"]
        assert len(files) > 5
        assert as_nobody(lambda: reads(home.path)) == "refused"
        assert as_nobody(lambda: hello(home)) == "refused"
        home.path.chmod(0o711)
        for path in files:
            if path.name != "config.yaml":
                assert as_nobody(lambda path=path: reads(path)) == "refused"  # type: ignore[misc]
        (home.path / "daemon.sock").chmod(0o666)
        assert as_nobody(lambda: hello(home)) in ("b''", "refused")
        home.path.chmod(0o700)
        assert home.run("daemon", "stop").code == 0
        assert daemons.ended() == 0
        audit = (home.path / "audit.jsonl").read_text(encoding="utf-8")
        denied = [r for r in map(json.loads, audit.splitlines()) if r["kind"] == "denied_connect"]
        assert [record["uid"] for record in denied] == [NOBODY]


def reads(path: Path) -> None:
    """Read a file or a directory; PermissionError where that is not allowed."""
    if stat.S_ISDIR(path.lstat().st_mode):
        list(path.iterdir())
    else:
        path.read_bytes()


def hello(home: Home) -> bytes:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(20)
        sock.connect(str(home.path / "daemon.sock"))
        call = {"jsonrpc": "2.0", "id": 1, "method": "hello", "params": {"wire": WIRE_VERSION}}
        sock.sendall(json.dumps(call).encode() + b"\n")
        return sock.recv(4096)


def as_nobody(work: Callable[[], object]) -> str:
    """Do something as another user; return what came of it, `refused` where it was not allowed."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setgid(NOBODY)
            os.setuid(NOBODY)
            os.write(write, repr(work()).encode())
        except (PermissionError, ConnectionResetError, BrokenPipeError):
            os.write(write, b"refused")
        except BaseException as error:  # noqa: BLE001 - to be shown by the parent
            os.write(write, repr(error).encode())
        finally:
            os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as said:
        out = said.read().decode()
    os.waitpid(pid, 0)
    return out


@pytest.mark.parametrize("how", ["link", "another user's", "open"])
def test_g23_a_state_directory_that_is_not_ours_alone_is_refused(tmp_path: Path, how: str) -> None:
    place = tmp_path / "home"
    place.mkdir(mode=0o700)
    if how == "link":
        place.rename(tmp_path / "elsewhere")
        place.symlink_to(tmp_path / "elsewhere")
    elif how == "open":
        place.chmod(0o755)
    elif os.getuid() == 0:
        os.chown(place, NOBODY, NOBODY)
    else:
        pytest.skip("only root can give a directory away")
    (tmp_path / "other").mkdir()
    with daemon_home(tmp_path / "other") as home:
        refused = home.run("--home", str(place), "daemon", "start")
        assert refused.code == 8, refused
        assert "not_our_socket" in refused.err
    assert list(place.iterdir()) == []
