"""Sessions that were killed past a frozen daemon: a note for the daemon that comes to itself again.

Whoever kills past the daemon writes it before the first signal. The frozen daemon reads it when it
sees such an agent gone, else the next start does. It can only close sessions, so a forged line
widens nothing; a file that is not the owner's alone is not believed. Standard library only.
"""

import errno
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from acpbridge.controller.journal import checksum
from acpbridge.controller.ownfile import read_own
from acpbridge.errors import BridgeError
from acpbridge.model.faults import Faults, no_faults
from acpbridge.model.sessions import CloseReason

# Some thousand kills; what is beyond it is not ours. Bytes.
LIMIT: Final = 1024 * 1024


def note(path: Path, reasons: Mapping[str, CloseReason], faults: Faults = no_faults) -> None:
    """Add sessions, each with why it is closed.

    Raises:
        BridgeError: `store_full` where it cannot be written; the kill can go on without.
    """
    lines = [_line({"key": key, "reason": str(why)}) for key, why in reasons.items()] + [""]
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        fd = os.open(path, flags, 0o600)
        try:
            # On a line of its own, should a full disk have torn the one before.
            data = "\n".join(["", *lines]).encode()
            if os.write(fd, data[: faults("killed.note")]) != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(fd)
    except OSError as error:
        raise BridgeError("store_full", f"{path} cannot be written: {error.strerror}.") from None


def _line(value: dict[str, object]) -> str:
    return json.dumps({**value, "crc": checksum(value)})


def noted(path: Path) -> dict[str, CloseReason]:
    """Return what was noted; nothing if the file is not ours alone, and no line that is torn."""
    lines = (read_own(path, LIMIT) or b"").splitlines()
    out: dict[str, CloseReason] = {}
    for line in lines:
        try:
            value = json.loads(line)
            # One session's key may be a single bit from another's. An older command wrote no sum.
            if value.pop("crc", None) not in (None, checksum(value)):
                continue
            out[str(value["key"])] = CloseReason(value["reason"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            continue
    return out


def forget(path: Path, faults: Faults = no_faults) -> None:
    """Remove the note: the ledger has it now."""
    try:
        faults("killed.forget")
        path.unlink(missing_ok=True)
    except OSError:
        return  # it is read again at the next start, and changes nothing then
