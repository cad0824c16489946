r"""Bytes to lines: `\n` only, bounded, whatever the cuts between chunks.

Above is `jsonrpc`. A line over the limit is reported once and dropped up to its end; what came
before it and what follows is kept. An unfinished line is one growing bytearray: adding to a bytes
object is quadratic, and a list of tiny pieces takes forty times the memory of what they hold.
"""

from dataclasses import dataclass
from typing import Final

# Real agents send single lines of 2 MB at most, the TypeScript SDK takes 32 MiB. A longer default
# would cost everybody else: each copy of 64 MiB alone takes 20 ms. Bytes.
DEFAULT_LIMIT: Final = 16 * 1024 * 1024

# What is kept of a line that is too long: enough to find the id at its beginning.
HEAD: Final = 4096

BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line over the limit: its first bytes, to find an id in."""

    head: bytes
    limit: int


class LineSplitter:
    """Cuts a stream into lines. Memory is bounded by the limit and one chunk.

    Attributes:
        limit: bytes of one line, without its end; may be raised on the way.
    """

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self.limit = limit
        self._begun = bytearray()
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes | TooLong]:
        """Return the lines that this chunk completes, without line ends; blank ones are dropped."""
        *ended, begun = chunk.split(b"\n")
        out: list[bytes | TooLong] = []
        for piece in ended:
            self._end_line(piece, out)
        self._grow(begun, out)
        return out

    def finish(self) -> list[bytes | TooLong]:
        """Return what stands after the last line end, once the stream is at its end."""
        out: list[bytes | TooLong] = []
        self._end_line(b"", out)
        return out

    def _grow(self, piece: bytes, out: list[bytes | TooLong]) -> None:
        if self._skipping:
            return
        self._begun += piece
        if len(self._begun) > self.limit:
            out.append(self._too_long(self._begun))
            self._begun = bytearray()
            self._skipping = True

    def _end_line(self, piece: bytes, out: list[bytes | TooLong]) -> None:
        line = self._begun + piece if self._begun else piece
        if self._begun:
            self._begun = bytearray()
        if self._skipping:
            self._skipping = False
        elif len(line) > self.limit:
            out.append(self._too_long(line))
        else:
            whole = bytes(line).removeprefix(BOM).removesuffix(b"\r")
            if whole.strip():
                out.append(whole)

    def _too_long(self, line: bytes | bytearray) -> TooLong:
        return TooLong(bytes(line[: min(HEAD, self.limit)]), self.limit)
