"""One daemon per state directory: a lock that the kernel releases, whatever kills its holder."""

import errno
import fcntl
import os
import stat
import time
from pathlib import Path
from typing import Final

from acpbridge.errors import BridgeError
from acpbridge.model.faults import Faults, no_faults

# The second line in the lock of a program that opened a bridge of its own: no daemon to be killed.
PROGRAM: Final = "program"

# Whoever asks whether it is held holds it for a moment: tries, and seconds between them.
TRIES: Final = 5
TRY_PAUSE: Final = 0.02


class DaemonLock:
    """The exclusive lock on a state directory, with the holder's pid in it.

    Args:
        path: of its file.
        program: whether the holder is somebody's program, and not the daemon.
        faults: points at which a test may fail.
    """

    def __init__(self, path: Path, *, program: bool = False, faults: Faults = no_faults) -> None:
        self._path = path
        self._faults = faults
        self._program = program
        self._fd = -1

    def acquire(self) -> None:
        """Take the lock; the file itself is never removed.

        Raises:
            BridgeError: `daemon_running`, naming the pid that holds it; `daemon_frozen`, when that
                one was stopped; `state_directory`, when its file cannot be used.
        """
        fd = self._locked()
        try:
            # The new pid before the cut: whoever reads in between finds at least a number.
            text = f"{os.getpid()}\n{PROGRAM if self._program else ''}".encode()
            os.fchmod(fd, 0o600)
            os.pwrite(fd, text[: self._faults("lock.write")], 0)
            os.ftruncate(fd, len(text))
            self._faults("lock.written")
        except OSError as error:
            os.close(fd)
            raise _unusable(self._path, error) from None
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd

    def _locked(self) -> int:
        """Return the file, locked; one that was replaced meanwhile locks nobody out."""
        while True:
            fd = self._open()
            try:
                self._lock(fd)
                if _same(fd, self._path):
                    return fd
            except BaseException:
                os.close(fd)
                raise
            os.close(fd)

    def in_place(self) -> bool:
        """Tell whether the file that is held is still the one that others will find."""
        return self._fd >= 0 and _same(self._fd, self._path)

    def _open(self) -> int:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        try:
            fd = os.open(self._path, flags, 0o600)
        except OSError as error:
            raise _unusable(self._path, error) from None
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise _in_the_way(self._path, "it is not a regular file")
        return fd

    def _lock(self, fd: int) -> None:
        for attempt in range(TRIES):
            if attempt:
                time.sleep(TRY_PAUSE)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            except OSError as error:
                raise _unusable(self._path, error) from None
            return
        pid = holder(self._path)
        if _stopped(pid):
            message = f"The daemon (pid {pid}) is stopped, and holds {self._path}."
            raise BridgeError("daemon_frozen", message, data={"pid": pid})
        what = "A program has opened its bridge" if of_program(self._path) else "A daemon runs"
        message = f"{what} already (pid {pid or 'unknown'}) in {self._path.parent}."
        raise BridgeError("daemon_running", message, data={"pid": pid})

    def release(self) -> None:
        """Give the lock back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _stopped(pid: int) -> bool:
    """Tell whether a process was stopped by a signal or a debugger."""
    from acpbridge.transport.helpers import kernel  # seldom needed by the quick commands

    row = kernel.read_process(pid) if pid > 0 else None
    return row is not None and row.state in "Tt"


def _same(fd: int, path: Path) -> bool:
    try:
        found = path.stat(follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True  # nobody else can find it either
    return os.path.samestat(os.fstat(fd), found)


def holder(path: Path) -> int:
    """Return the pid that the lock's file names, 0 if none; only a held lock makes it true."""
    try:
        return max(0, int(path.read_text(encoding="ascii").splitlines()[0]))
    except (OSError, ValueError, IndexError):
        return 0


def of_program(path: Path) -> bool:
    """Tell whether the lock's file names a program; only a held lock makes it true."""
    try:
        return path.read_text(encoding="ascii").splitlines()[1:] == [PROGRAM]
    except (OSError, ValueError):
        return False


def held(path: Path) -> bool:
    """Tell whether a daemon holds the lock now."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(fd)
    return False


# What stands where the lock should be, and can be taken away.
_IN_THE_WAY: Final = (errno.ELOOP, errno.EISDIR, errno.ENXIO)


def _unusable(path: Path, error: OSError) -> BridgeError:
    if error.errno in _IN_THE_WAY:
        return _in_the_way(path, str(error.strerror))
    if error.errno == errno.ENOSPC:
        return BridgeError("store_full", f"There is no room for the lock {path}.")
    return BridgeError("state_directory", f"The lock {path} cannot be used: {error.strerror}.")


def _in_the_way(path: Path, reason: str) -> BridgeError:
    message = f"The lock {path} cannot be used: {reason}."
    return BridgeError("state_directory", message, hint=f"Remove it, then run again: {path}")
