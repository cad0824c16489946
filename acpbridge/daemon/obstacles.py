"""The state directory made ready for a start: what is no file put aside, what is open closed.

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
                told.append(_move(path, what, "file"))
    return told + socket_put_aside(paths.socket)


def socket_put_aside(path: Path) -> list[str]:
    """Rename what is no socket and stands in its place; return what an operator should know."""
    with suppress(OSError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return [_move(path, _obstacle(path) or "a file", "socket")]
    return []


def close_to_others(paths: Paths) -> list[str]:
    """Take the rights of others from all that is ours in the state directory; return what to tell.

    The directory itself is ours alone, or the daemon would not have come so far; this is for the
    day on which it no longer is. The configuration is the person's own and stays as it is.
    """
    told = list[str]()
    for path in (*_beside(paths), *paths.home.glob("agents/**/*"), paths.home / "agents"):
        try:
            found = path.lstat()
            loose = stat.S_IMODE(found.st_mode) & 0o077
            if loose and (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
                path.chmod(stat.S_IMODE(found.st_mode) & 0o700)
        except FileNotFoundError:
            continue
        except OSError as error:
            told.append(f"{path} is open to others and cannot be closed: {error.strerror}.")
    return told


def _beside(paths: Paths) -> Iterator[Path]:
    """Yield our files with what lies beside them: older ones, drafts, those that were put aside."""
    names = ("state.db", *(path.name for path in (paths.audit, paths.journal, paths.killed)))
    for name in (*names, paths.log.name, paths.lock.name):
        yield from paths.home.glob(f"{name}*")
    yield from paths.home.glob(f"{paths.audit.stem}.*{paths.audit.suffix}")  # the full ones


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


def _move(path: Path, what: str, new: str) -> str:
    aside = next(
        name
        for number in count(1)
        if not os.path.lexists(name := path.with_name(f"{path.name}.aside-{number}"))
    )
    try:
        path.rename(aside)
    except OSError as error:
        return f"{path} is {what} and cannot be moved: {error.strerror}."
    return f"{path} was {what}; it was moved to {aside.name}, and a new {new} is begun."
