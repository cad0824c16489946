"""Whether a file can have been written by nobody but its user. Reads metadata only.

As sshd does with its keys: who may write a file, or any directory on the way to it, may say what is
in it. A directory with the sticky bit is in order, for nobody can rename what is another's in it.
"""

import os
import stat
from pathlib import Path
from typing import Final, NamedTuple

# MAXSYMLINKS of Linux.
_MOST_LINKS: Final = 40
_REMOVE: Final = "Remove the link, or have it lead to a file of yours."
_OTHERS: Final = stat.S_IWGRP | stat.S_IWOTH


class Doubt(NamedTuple):
    """Why a file may be another's work: a sentence, and what to do."""

    problem: str
    hint: str


def doubt(path: Path) -> Doubt | None:
    """Return why what a path leads to may be another's work; what is missing is nobody's.

    Args:
        path: absolute.

    Raises:
        OSError: it cannot be looked at.
    """
    for links in range(_MOST_LINKS):
        try:
            found = path.lstat()
        except FileNotFoundError:
            return Doubt(f"A link leads to {path}, which is not there.", _REMOVE) if links else None
        of_place = _of_place(path)
        if of_place is not None or not stat.S_ISLNK(found.st_mode):
            return of_place or doubt_of_file(path, found)
        if found.st_uid not in (0, os.getuid()):
            return Doubt(f"{path} is a link of another user.", _REMOVE)
        path = path.parent / path.readlink()
    return Doubt(f"{path} is a link that leads nowhere.", _REMOVE)


def doubt_of_file(path: Path, found: os.stat_result) -> Doubt | None:
    """Return why a file may be another's work by what is known of it."""
    if found.st_uid != os.getuid():
        return Doubt(f"{path} belongs to another user.", f"Make it yours, or remove it: {path}")
    if found.st_mode & _OTHERS:
        return Doubt(f"{path} can be written by other users.", f"Close it: chmod 600 {path}")
    return None


def _of_place(path: Path) -> Doubt | None:
    """Return how others may put something in the place of a file."""
    place = Path(os.path.realpath(path.parent))
    for directory in (place, *place.parents):
        found = directory.stat()
        whose = f"{directory}, where {path.name} lies,"
        if found.st_uid not in (0, os.getuid()):
            return Doubt(f"{whose} belongs to another user.", "Use a directory of yours.")
        if found.st_mode & _OTHERS and not found.st_mode & stat.S_ISVTX:
            hint = f"Close it: chmod go-w {directory}"
            return Doubt(f"{whose} can be written by other users.", hint)
    return None
