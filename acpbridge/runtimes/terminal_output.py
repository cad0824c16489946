"""What is kept of a terminal's output: the newest of it, as text, within a bound. Pure.

Above is `terminals`, which feeds it with what it reads, in pieces of any size: the same bytes come
to the same text however they were cut.
"""

import codecs
from typing import Final

# Most that is kept of one terminal, and what is kept where the agent does not say. Bytes.
MOST_KEPT: Final = 1024 * 1024

# So much more may lie there before the oldest is dropped: to do so for each piece would be to copy
# all that is kept for each piece. Bytes.
SLACK: Final = 64 * 1024

_CONTINUES: Final = frozenset(range(0x80, 0xC0))


class TerminalOutput:
    """The end of what a command wrote; what is no UTF-8 reads as U+FFFD.

    Args:
        limit: bytes of UTF-8 that are kept; more than `MOST_KEPT` is as much as that.

    Attributes:
        truncated: whether something was dropped.
    """

    def __init__(self, limit: int = MOST_KEPT) -> None:
        self.truncated = False
        self._limit = min(limit, MOST_KEPT)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._kept = bytearray()

    def feed(self, data: bytes, *, final: bool = False) -> None:
        """Take in what was read; half a character waits for its other half, unless it is final."""
        self._kept += self._decoder.decode(data, final).encode("utf-8")
        over = len(self._kept) - self._limit
        self.truncated = self.truncated or over > 0
        if over > SLACK or (final and over > 0):
            del self._kept[:over]

    def text(self) -> str:
        """Return what is kept: whole characters, the newest."""
        start = max(0, len(self._kept) - self._limit)
        while start < len(self._kept) and self.truncated and self._kept[start] in _CONTINUES:
            start += 1
        return self._kept[start:].decode("utf-8")
