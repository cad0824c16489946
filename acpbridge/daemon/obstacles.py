"""What stands where a file of the state directory belongs, and is none: put aside before the start.

A directory, a link, a FIFO or somebody else's file in such a place may neither keep the daemon from
starting nor be written through. It is renamed, never removed, and an operator is told. Only the
holder of the lock may call this, before anything is opened. The lock itself is not looked at: what
stands in its place is told by whoever takes it.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final

from acpbridge.daemon.paths import Paths

# The ledger of `acpbridge.store`, with what SQLite keeps beside it.
_LEDGER: Final = ("state.db", "state.db-wal", "state.db-shm")


def put_aside(paths: Paths) -> list[str]:
    """Rename what is no file of ours; return what an operator should know."""
    told = list[str]()
    for path in _places(paths):
        with suppress(FileNotFoundError):
            what = _obstacle(path)
            if what:
                told.append(_move(path, what))
    return told


def _places(paths: Paths) -> Iterator[Path]:
    yield from (paths.audit, paths.journal, paths.killed, paths.log)
    yield from (paths.home / name for name in _LEDGER)


def _obstacle(path: Path) -> str:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        return "a link"
    if stat.S_ISDIR(found.st_mode):
        return "a directory"
    if not stat.S_ISREG(found.st_mode):
        return "no regular file"
    return "" if found.st_uid == os.getuid() else "another user's file"


def _move(path: Path, what: str) -> str:
    aside = next(
        name
        for number in count(1)
        if not os.path.lexists(name := path.with_name(f"{path.name}.aside-{number}"))
    )
    try:
        path.rename(aside)
    except OSError as error:
        return f"{path} is {what} and cannot be moved: {error.strerror}."
    return f"{path} was {what}; it was moved to {aside.name}, and a new file is begun."
