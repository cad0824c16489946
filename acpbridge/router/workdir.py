"""In which directory a spawned session works. It looks at the disk, and changes nothing.

Above is `spawn`. A directory that somebody named is taken as it is, or the spawn fails; one that is
only handed on may be gone by now, and then the next one is tried.
"""

import errno
import stat
from typing import Final

import anyio

from acpbridge.errors import BridgeError

# It is not there; everything else is a directory that is there and cannot be used.
_MISSING: Final = (errno.ENOENT, errno.ENOTDIR)


async def resolve(given: str, workspace: str, inherited: tuple[str, ...]) -> str:
    """Return the directory.

    Args:
        given: by the request, "" for none.
        workspace: of the agent, "" for none; it must be there.
        inherited: of the one that asks and of its caller, the first one that is there counts.

    Raises:
        BridgeError: `cwd_resolution_failed`, `invalid_params`.
    """
    if given:
        if not given.startswith("/"):
            message = f"cwd: {given!r} is not absolute; give the whole path."
            raise BridgeError("invalid_params", message)
        if not await _is_there(given):
            raise BridgeError("invalid_params", f"cwd: there is no directory {given!r}.")
        return given
    if workspace:
        if not await _is_there(workspace):
            message = f"The agent's workspace {workspace!r} is gone."
            hint = "Make it again, or name another one in config.yaml, or give cwd."
            raise BridgeError("cwd_resolution_failed", message, hint=hint)
        return workspace
    for path in inherited:
        if path and await _is_there(path):
            return path
    message = "No directory is known in which the child could work."
    raise BridgeError("cwd_resolution_failed", message)


async def _is_there(path: str) -> bool:
    try:
        found = await anyio.Path(path).stat()
    except OSError as error:
        if error.errno in _MISSING:
            return False
        message = f"{path!r} cannot be used: {error.strerror}."
        raise BridgeError("cwd_resolution_failed", message) from None
    except ValueError:
        return False  # no path at all: a NUL in it
    return stat.S_ISDIR(found.st_mode)
