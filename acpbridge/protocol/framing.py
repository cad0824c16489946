r"""Bytes to lines: `\n` only, bounded, whatever the cuts between chunks.

Above is `jsonrpc`. A line over the limit is reported once and dropped up to its end; what came
before it and what follows is kept. An unfinished line is a list of pieces, for adding to one bytes
object is quadratic on a line of many megabytes.
"""

from dataclasses import dataclass
from typing import Final

# The TypeScript SDK stops at 32 MiB and acpx at 64 MiB; real agents send single lines of 2 MB.
DEFAULT_LIMIT: Final = 64 * 1024 * 1024

# What is kept of a line that is too long: enough to find the id at its beginning.
HEAD: Final = 4096

BOM: Final = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line over the limit: its first bytes, to find an id in."""

    head: bytes
    limit: int


class LineSplitter:
    """Cuts a stream into lines. Memory is bounded by the limit and one chunk."""

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        self._limit = limit
        self._pieces: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes | TooLong]:
        """Return the lines that this chunk completes, without line ends; blank ones are dropped."""
        first, *rest = chunk.split(b"\n")
        out: list[bytes | TooLong] = []
        self._grow(first, out)
        for piece in rest:
            self._end_line(out)
            self._grow(piece, out)
        return out

    def finish(self) -> list[bytes | TooLong]:
        """Return what stands after the last line end, once the stream is at its end."""
        out: list[bytes | TooLong] = []
        self._end_line(out)
        return out

    def _grow(self, piece: bytes, out: list[bytes | TooLong]) -> None:
        if self._skipping or not piece:
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._limit:
            out.append(TooLong(b"".join(self._pieces)[:HEAD], self._limit))
            self._reset()
            self._skipping = True

    def _end_line(self, out: list[bytes | TooLong]) -> None:
        line = b"".join(self._pieces)
        self._reset()
        line = line.removeprefix(BOM).removesuffix(b"\r")
        if line.strip():
            out.append(line)

    def _reset(self) -> None:
        self._pieces.clear()
        self._size = 0
        self._skipping = False
