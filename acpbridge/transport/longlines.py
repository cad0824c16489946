"""Checks long updates beside the event loop, so that nobody else has to wait for them.

Above is the connection; below is `protocol.envelope`, which says how such a line may read. To
decode one in a thread would hold up everybody all the same, for a decoder makes objects and so
keeps the interpreter's lock. SQLite reads JSON without objects and gives the lock back meanwhile:
16 MiB take 50 ms to 0.2 s in another thread, and nobody waits.
"""

import codecs
from contextlib import closing
from functools import partial
from typing import Any, Final

import anyio
import anyio.to_thread

from acpbridge.protocol.envelope import ACTED_ON, splits
from acpbridge.protocol.jsonrpc import RELAYED, Noise, Notification, Unread

# What is looked at of an update that is too long to be read.
_NAMES: Final = ("sessionUpdate", "toolCallId", "status")

_LOOK: Final = (
    "SELECT json_extract(line, '$.sessionUpdate'), json_extract(line, '$.toolCallId'),"
    " json_extract(line, '$.status') FROM (SELECT CAST(? AS TEXT) AS line) WHERE json_valid(line)"
)

# Names are short: a longer one is no name.
_LONGEST_NAME: Final = 1024

_PIECE: Final = 256 * 1024


class LongLines:
    """Reads the long lines of all connections, two at a time."""

    def __init__(self) -> None:
        self._threads = anyio.CapacityLimiter(2)

    async def read(self, unread: Unread) -> Notification | Noise:
        """Return what a long line is: an update that is relayed, or noise."""
        look = partial(_read, unread.line)
        return await anyio.to_thread.run_sync(look, abandon_on_cancel=True, limiter=self._threads)


def _read(line: bytes) -> Notification | Noise:
    for split in splits(line):
        message, update = split.message, line[split.start : split.end]
        found = _look(update)
        if found is None:
            continue
        kind = found.get("sessionUpdate")
        if message.get("method") != RELAYED or "id" in message or kind in ACTED_ON:
            break
        return Notification(RELAYED, {**message["params"], "update": found}, line[:0], update)
    reason = f"{len(line)} bytes that are no update to be passed on"
    return Noise(reason, line[:200], too_long=True)


def _look(update: bytes) -> dict[str, Any] | None:
    """Return the names in an update, None if it is no JSON."""
    if b"\0" in update or not _is_text(update):
        return None
    import sqlite3  # seldom needed, and slow to import

    with closing(sqlite3.connect(":memory:")) as connection:
        row = connection.execute(_LOOK, (update,)).fetchone()
    if row is None:
        return None
    short = [v if isinstance(v, str) and len(v) <= _LONGEST_NAME else None for v in row]
    return dict(zip(_NAMES, short, strict=True))


def _is_text(update: bytes) -> bool:
    """Tell whether it is UTF-8, in pieces between which others get on."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    whole = memoryview(update)
    try:
        for at in range(0, len(whole), _PIECE):
            decoder.decode(whole[at : at + _PIECE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True
