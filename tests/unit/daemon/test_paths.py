"""Where a daemon keeps its things, and that nobody else can get at them."""

import os
import socket
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from acpbridge.daemon.paths import SOCKET_PATH_LIMIT, Paths, check_private, find, make_private
from acpbridge.errors import BridgeError

NOBODY = 65534


def refused(work: Callable[[], object]) -> BridgeError:
    with pytest.raises(BridgeError) as caught:
        work()
    return caught.value


def test_the_option_wins_over_the_environment_and_that_over_xdg(tmp_path: Path) -> None:
    env = {
        "HOME": str(tmp_path / "ann"),
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "XDG_CONFIG_HOME": str(tmp_path / "config"),
    }
    paths = find(None, env)
    assert paths.home == tmp_path / "state" / "acpbridge"
    assert paths.config == tmp_path / "config" / "acpbridge" / "config.yaml"
    paths = find(None, env | {"ACPBRIDGE_HOME": str(tmp_path / "here")})
    assert (paths.home, paths.config) == (tmp_path / "here", tmp_path / "here" / "config.yaml")
    assert find(str(tmp_path / "x"), env | {"ACPBRIDGE_HOME": "/y"}).home == tmp_path / "x"
    assert find("", env).home == tmp_path / "state" / "acpbridge"


def test_without_xdg_the_usual_places_below_home_are_used(tmp_path: Path) -> None:
    for extra in ({}, {"XDG_STATE_HOME": "", "XDG_CONFIG_HOME": "relative/is/invalid"}):
        paths = find(None, {"HOME": str(tmp_path)} | extra)
        assert paths.home == tmp_path / ".local" / "state" / "acpbridge"
        assert paths.config == tmp_path / ".config" / "acpbridge" / "config.yaml"


def test_without_any_home_it_says_what_to_give() -> None:
    error = refused(lambda: find(None, {}))
    assert error.code == "usage"
    assert "--home" in error.hint


def test_one_directory_has_one_spelling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    for chosen in ("h", "./h", "x/../h", f"{tmp_path}//h/", "link/h"):
        assert find(chosen, {}).home == tmp_path / "h"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert find("~/h", {}).home == tmp_path / "h"


def test_a_directory_that_cannot_be_one_is_a_usage_error() -> None:
    for chosen in ("~nobody-of-this-name/x", "a\0b"):
        assert refused(lambda chosen=chosen: find(chosen, {})).code == "usage"  # type: ignore[misc]


def test_everything_lies_in_the_state_directory(tmp_path: Path) -> None:
    paths = Paths(tmp_path, tmp_path / "config.yaml")
    for path in (paths.lock, paths.journal, paths.audit, paths.log):
        assert path.parent == tmp_path
    assert len({paths.lock, paths.journal, paths.audit, paths.log, paths.socket}) == 5


def test_a_path_too_long_for_a_socket_has_a_short_place_of_its_own(tmp_path: Path) -> None:
    room = SOCKET_PATH_LIMIT - len("/daemon.sock")
    fits = Paths(Path("/" + "x" * (room - 1)), tmp_path)
    assert fits.socket == fits.home / "daemon.sock"
    homes = [Path("/" + "x" * room), Path("/" + "y" * room), Path("/" + "é" * (room // 2 + 1))]
    sockets = [Paths(home, tmp_path).socket for home in homes]
    assert len(set(sockets)) == 3
    for path in sockets:
        assert path.parent == Path(f"/tmp/acpbridge-{os.getuid()}")
        assert path.suffix == ".sock"
        assert len(os.fsencode(path)) <= SOCKET_PATH_LIMIT
    assert Paths(homes[0], tmp_path).socket == sockets[0]


def test_the_longest_path_can_be_bound_and_a_longer_one_cannot(tmp_path: Path) -> None:
    name = "s" * (SOCKET_PATH_LIMIT - len(os.fsencode(tmp_path)) - 1)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(str(tmp_path / name))
    with socket.socket(socket.AF_UNIX) as sock, pytest.raises(OSError, match="too long"):
        sock.bind(str(tmp_path / (name + "ss")))


def test_a_directory_is_made_private_whatever_the_umask_g23(tmp_path: Path) -> None:
    for umask in (0, 0o022, 0o077):
        before = os.umask(umask)
        try:
            make_private(tmp_path / str(umask) / "home")
        finally:
            os.umask(before)
        assert (tmp_path / str(umask) / "home").stat().st_mode & 0o777 == 0o700
    make_private(tmp_path / "0" / "home")


def test_a_directory_that_is_open_to_others_is_refused_g23(tmp_path: Path) -> None:
    for mode in (0o755, 0o770, 0o701, 0o710, 0o777):
        tmp_path.chmod(mode)
        error = refused(lambda: make_private(tmp_path))
        assert error.code == "not_our_socket"
        assert f"chmod 700 {tmp_path}" in error.hint
        assert tmp_path.stat().st_mode & 0o777 == mode
    tmp_path.chmod(0o700)
    check_private(tmp_path)


def test_a_link_and_a_file_are_refused_g23(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "target")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    (tmp_path / "file").touch()
    for name in ("link", "dangling", "file"):
        assert refused(lambda name=name: make_private(tmp_path / name)).code == "not_our_socket"  # type: ignore[misc]
    assert not (tmp_path / "nowhere").exists()
    cannot = refused(lambda: make_private(tmp_path / "file" / "x"))
    assert (cannot.code, "--home" in cannot.hint) == ("state_directory", True)
    with pytest.raises(FileNotFoundError):
        check_private(tmp_path / "nothing")


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_another_users_directory_is_refused_g23(tmp_path: Path) -> None:
    directory = tmp_path / "theirs"
    directory.mkdir(mode=0o700)
    os.chown(directory, NOBODY, NOBODY)
    error = refused(lambda: make_private(directory))
    assert error.code == "not_our_socket"
    assert "another user" in error.message


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_a_user_who_is_not_root_is_refused_roots_directory_g23() -> None:
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o711)  # to be passed through, which those of pytest are not
        directory = Path(folder, "roots")
        directory.mkdir(mode=0o700)
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                os.setuid(NOBODY)
                refused(lambda: check_private(directory))
                refused(lambda: make_private(Path(folder, "new")))
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
