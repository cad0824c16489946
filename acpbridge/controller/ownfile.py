"""Reads a small file of the state directory, whatever stands in its place. Standard library only.

What is damaged, foreign or no file at all must keep nobody from starting (case 65): it reads as
nothing. Above are the journal and the note of who was killed.
"""

import os
import stat
from pathlib import Path

# A FIFO in its place must hold nobody up, and a link must lead nowhere.
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def read_own(path: Path, limit: int) -> bytes | None:
    """Return what a file holds that is ours alone; None for anything else.

    Args:
        path: of the file.
        limit: bytes; what is beyond them is not read.
    """
    try:
        fd = os.open(path, _FLAGS)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        ours = found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077
        if not ours or not stat.S_ISREG(found.st_mode):
            return None
        # Only now: given a directory it raises, and closes nothing.
        with os.fdopen(fd, "rb", closefd=False) as file:
            return file.read(limit)
    except OSError:
        return None
    finally:
        os.close(fd)
