"""Where a path really leads: every symlink followed, as far as the path exists. Blocks.

Rules match what is written and what it comes to. Where nobody can tell what it comes to the answer
is None, which no rule that allows accepts: `os.path.realpath` would guess instead.
"""

import errno
import os
import time
from collections.abc import Callable
from typing import Final

# PATH_MAX and MAXSYMLINKS of Linux: the kernel follows no more.
LONGEST: Final = 4096
MOST_LINKS: Final = 40

# Links there lead to another place for each process that follows them.
_MAGIC: Final = "/proc/"
_MISSING: Final = (errno.ENOENT, errno.ENOTDIR)


def resolver(seconds: float) -> Callable[[str], str | None]:
    """Return `resolve` with a limit for all its calls together, so that no thread runs for ever.

    The function raises TimeoutError once the time is over.
    """
    until = time.monotonic() + seconds

    def within(path: str) -> str | None:
        if time.monotonic() > until:
            raise TimeoutError("the paths of the request cannot be looked up in time")
        return resolve(path)

    return within


def resolve(path: str) -> str | None:
    """Return the absolute path that a path comes to; None if nobody can tell.

    What does not exist stays as it is written, below where it would be.

    Args:
        path: absolute.
    """
    if not path.startswith("/") or "\0" in path or _size(path) > LONGEST:
        return None
    waiting = _reversed_parts(path)
    real, links, missing = "", 0, False
    while waiting:
        part = waiting.pop()
        if part == "..":
            if missing:
                return None  # whoever makes what is missing chooses where it leads
            real = real.rpartition("/")[0]
            continue
        real += f"/{part}"
        if missing:
            continue
        try:
            target = os.readlink(real)  # noqa: PTH115 -- as it is written, not as a path reads
        except OSError as error:
            if error.errno == errno.EINVAL:
                continue  # it is no link
            if error.errno not in _MISSING:
                return None
            missing = True
            continue
        links += 1
        if links > MOST_LINKS or real.startswith(_MAGIC):
            return None
        real = "" if target.startswith("/") else real.rpartition("/")[0]
        waiting += _reversed_parts(target)
    return real or "/"


def _reversed_parts(path: str) -> list[str]:
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


def _size(path: str) -> int:
    try:
        return len(os.fsencode(path))
    except UnicodeEncodeError:
        return LONGEST + 1  # no file can have such a name
