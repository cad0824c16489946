"""A text file of the user's on disk: whether it has changed, and what it says.

Above are the configuration and the policy; what a text means is told elsewhere.
"""

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from acpbridge.errors import BridgeError

# Four times what the reader of the text takes, should every character be a long one. Bytes.
TEXT_LIMIT: Final = 1024 * 1024

Stamp = tuple[int, ...] | None
"""What tells one state of a file from another; None where there is none."""


def stamp(path: Path) -> Stamp:
    """Return the state that a file is in; of one that cannot be looked at, why."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    except OSError as error:
        return (error.errno or 0,)  # reading it says what is wrong
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev


def read(path: Path, check: Callable[[os.stat_result], None] = lambda _found: None) -> str | None:
    """Return what a file says, None where there is none.

    Args:
        path: of the file.
        check: sees what was opened before it is read; raises what is wrong with it.

    Raises:
        BridgeError: `config_error`, naming the file.
    """
    try:
        # A FIFO would hold the daemon up, and a device might never end.
        if path.exists() and not path.is_file():
            raise BridgeError("config_error", f"{path} is not a file.")
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(fd, "rb") as file:
            found = os.fstat(fd)
            if not stat.S_ISREG(found.st_mode):
                raise BridgeError("config_error", f"{path} is not a file.")
            check(found)
            data = file.read(TEXT_LIMIT + 1)
        if len(data) > TEXT_LIMIT:
            raise BridgeError("config_error", f"{path}: over {TEXT_LIMIT} bytes.")
        return data.decode("utf-8-sig")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        message = f"{path}, line {line}: not UTF-8; save the file as UTF-8."
        raise BridgeError("config_error", message) from None
    except OSError as error:
        raise BridgeError("config_error", f"{path} cannot be read: {error.strerror}.") from None
