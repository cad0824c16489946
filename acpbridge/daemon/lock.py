"""One daemon per state directory: a lock that the kernel releases, whatever kills its holder."""

import fcntl
import os
import time
from pathlib import Path
from typing import Final

from acpbridge.errors import BridgeError


# Whoever asks whether it is held holds it for a moment: tries, and seconds between them.
TRIES: Final = 5
TRY_PAUSE: Final = 0.02


class DaemonLock:
    """The exclusive lock on a state directory, with the holder's pid in it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._fd = -1

    def acquire(self) -> None:
        """Take the lock; the file itself is never removed.

        Raises:
            BridgeError: `daemon_running`, naming the pid that holds it.
        """
        fd = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _lock(fd):
            os.close(fd)
            pid = holder(self._path)
            message = f"A daemon runs already (pid {pid or 'unknown'}) in {self._path.parent}."
            raise BridgeError("daemon_running", message, data={"pid": pid})
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        self._fd = fd

    def release(self) -> None:
        """Give the lock back."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _lock(fd: int) -> bool:
    for attempt in range(TRIES):
        if attempt:
            time.sleep(TRY_PAUSE)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            continue
        return True
    return False


def holder(path: Path) -> int:
    """Return the pid that the lock's file names, 0 if none; only a held lock makes it true."""
    try:
        return int(path.read_text(encoding="ascii").strip() or 0)
    except (OSError, ValueError):
        return 0


def held(path: Path) -> bool:
    """Tell whether a daemon holds the lock now."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False
