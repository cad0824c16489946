"""One daemon per state directory: who holds the lock, who takes it over, what is in its way."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from acpbridge.daemon.lock import DaemonLock, held, holder, of_program
from acpbridge.errors import BridgeError

HOLDER = """
import sys
from pathlib import Path
from acpbridge.daemon.lock import DaemonLock
DaemonLock(Path(sys.argv[1])).acquire()
print(flush=True)
sys.stdin.read()
"""


def refused(path: Path) -> BridgeError:
    with pytest.raises(BridgeError) as caught:
        DaemonLock(path).acquire()
    return caught.value


def test_the_holder_is_named_to_whoever_comes_second_g9(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    first = DaemonLock(path)
    first.acquire()
    error = refused(path)
    assert error.code == "daemon_running"
    assert error.data == {"pid": os.getpid()}
    assert str(os.getpid()) in error.message
    assert held(path)
    first.release()
    first.release()
    assert not held(path)
    DaemonLock(path).acquire()


def test_a_lock_whose_holder_was_killed_is_taken_over_g9(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    argv = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        assert held(path)
        assert holder(path) == process.pid
        assert refused(path).data == {"pid": process.pid}
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert not held(path)
        assert holder(path) == process.pid
        mine = DaemonLock(path)
        mine.acquire()
        assert holder(path) == os.getpid()
        mine.release()


@pytest.mark.parametrize("text", ["", "garbage", "1\n", "-5\n", "99999999999\n", "12", "\xff"])
def test_what_stands_in_the_file_decides_nothing_case_65(tmp_path: Path, text: str) -> None:
    path = tmp_path / "daemon.lock"
    path.write_text(text, encoding="latin-1")
    path.chmod(0o644)
    assert not held(path)
    assert holder(path) >= 0
    mine = DaemonLock(path)
    mine.acquire()
    assert path.read_text(encoding="ascii") == f"{os.getpid()}\n"
    assert path.stat().st_mode & 0o777 == 0o600
    mine.release()
    assert path.exists()


def test_the_number_of_a_stranger_is_never_more_than_a_number_case_65(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    with subprocess.Popen(["sleep", "60"]) as stranger:
        path.write_text(f"{stranger.pid}\n", encoding="ascii")
        mine = DaemonLock(path)
        mine.acquire()
        mine.release()
        assert stranger.poll() is None
        stranger.kill()


def test_the_file_that_is_in_the_way_is_named_case_65(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    path.mkdir()
    for _ in range(2):
        error = refused(path)
        assert error.code == "state_directory"
        assert str(path) in error.message
        assert str(path) in error.hint
    path.rmdir()
    path.symlink_to(tmp_path / "elsewhere")
    assert refused(path).code == "state_directory"
    assert not (tmp_path / "elsewhere").exists()
    path.unlink()
    os.mkfifo(path)
    assert refused(path).code == "state_directory"
    assert refused(tmp_path / "nowhere" / "daemon.lock").code == "state_directory"


def test_a_look_at_the_lock_does_not_turn_a_starting_daemon_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "daemon.lock"
    path.touch()
    looking = os.open(path, os.O_RDWR)
    fcntl.flock(looking, fcntl.LOCK_SH)
    # The look is over at the moment of the second try.
    monkeypatch.setattr("acpbridge.daemon.lock.time.sleep", lambda _: os.close(looking))
    mine = DaemonLock(path)
    mine.acquire()
    try:
        assert path.read_text(encoding="ascii").split() == [str(os.getpid())]
    finally:
        mine.release()


def test_without_a_file_nobody_holds_it(tmp_path: Path) -> None:
    assert not held(tmp_path / "daemon.lock")
    assert holder(tmp_path / "daemon.lock") == 0
    assert not (tmp_path / "daemon.lock").exists()


def test_an_exec_does_not_inherit_the_lock(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    mine = DaemonLock(path)
    mine.acquire()
    with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
        mine.release()
        assert not held(path)
        child.kill()


def test_a_program_that_holds_it_is_no_daemon(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    assert not of_program(path)
    lock = DaemonLock(path, program=True)
    lock.acquire()
    assert (holder(path), of_program(path)) == (os.getpid(), True)
    assert "A program has opened its bridge already" in refused(path).message
    lock.release()
    DaemonLock(path).acquire()
    assert (holder(path), of_program(path)) == (os.getpid(), False)


@pytest.mark.parametrize("how", ["removed", "replaced", "its directory moved"])
def test_a_lock_whose_file_is_another_one_is_out_of_place_and_can_be_taken_g9(
    tmp_path: Path, how: str
) -> None:
    """Without the comparison in `DaemonLock.in_place` both are said to be in place."""
    path = tmp_path / "home" / "daemon.lock"
    path.parent.mkdir()
    first = DaemonLock(path)
    assert not first.in_place()
    first.acquire()
    assert first.in_place()
    if how == "its directory moved":
        path.parent.rename(tmp_path / "moved")
        assert not first.in_place()
        path.parent.mkdir()
    else:
        path.unlink()
        if how == "replaced":
            path.write_text("7", encoding="ascii")
    assert not first.in_place()
    second = DaemonLock(path)
    second.acquire()
    assert (second.in_place(), first.in_place()) == (True, False)
    for lock in (first, second):
        lock.release()


def test_a_lock_that_is_replaced_while_it_is_taken_is_taken_again_g9(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the second look in `DaemonLock._locked` the lock of a removed file is held."""
    path = tmp_path / "daemon.lock"
    flock, calls = fcntl.flock, []

    def replace_first(fd: int, how: int) -> None:
        calls.append(fd)
        if len(calls) == 1:
            path.unlink()
        flock(fd, how)

    monkeypatch.setattr(fcntl, "flock", replace_first)
    lock = DaemonLock(path)
    lock.acquire()
    assert lock.in_place()
    assert len(calls) == 2
    lock.release()


def test_a_holder_that_was_stopped_is_called_frozen_g9(tmp_path: Path) -> None:
    path = tmp_path / "daemon.lock"
    argv = [sys.executable, "-c", HOLDER, str(path)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout
        process.stdout.readline()
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED)
        error = refused(path)
        assert (error.code, error.data) == ("daemon_frozen", {"pid": process.pid})
        process.send_signal(signal.SIGKILL)


@pytest.mark.parametrize(
    ("code", "said"), [(errno.ENOSPC, "store_full"), (errno.EIO, "state_directory")]
)
def test_g28_a_lock_that_cannot_be_written_is_an_error_and_can_be_taken_afterwards(
    tmp_path: Path, code: int, said: str
) -> None:
    path = tmp_path / "daemon.lock"

    def faults(point: str) -> None:
        if point == "lock.write":
            raise OSError(code, os.strerror(code))

    with pytest.raises(BridgeError) as caught:
        DaemonLock(path, faults=faults).acquire()
    assert caught.value.code == said
    assert not held(path)
    lock = DaemonLock(path)
    lock.acquire()
    assert held(path)
    lock.release()
