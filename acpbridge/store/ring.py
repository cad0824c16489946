"""Events between the reader and the followers: per session a stream, over all of them one ring.

A chunk is what one row of the log will hold. It is filled while it waits for its commit, and then
kept in the ring until newer ones push it out. Values and arithmetic only; one thread, the loop's.
"""

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from operator import attrgetter
from typing import Final

import anyio

from acpbridge.model.keys import SessionKey

# Blobs of this size keep the last 100 events of a long log 0.2 ms away (uncapped: 9.5 ms).
CHUNK_BYTES: Final = 256 * 1024

# What CPython keeps beside the bytes of a line (object, list slot, line end) and of a chunk.
_LINE_COST: Final = 42
_CHUNK_COST: Final = 256

_first = attrgetter("first")


@dataclass(slots=True, eq=False)
class Chunk:
    """Consecutive events of one session.

    Attributes:
        stream: whose they are.
        first: number of the first.
        lines: as rendered, unredacted, without line ends.
        size: their bytes, line ends included.
    """

    stream: "Stream"
    first: int
    lines: list[bytes] = field(default_factory=list)
    size: int = 0

    @property
    def last(self) -> int:
        """Number of the last event."""
        return self.first + len(self.lines) - 1

    @property
    def cost(self) -> int:
        """About how much memory the chunk takes."""
        return self.size + _LINE_COST * len(self.lines) + _CHUNK_COST


class Stream:
    """Where one session stands in the log.

    Attributes:
        key: of the session.
        name: the same as text.
        last: number of the newest event.
        committed: number of the newest event that may be shown.
        filling: the chunk that takes the next event, None to begin one.
        recent: committed chunks that the ring still holds, without a gap up to `committed`.
        gone: whether the session was deleted: nothing more can be read of it.
    """

    __slots__ = (
        "__weakref__",
        "_news",
        "committed",
        "filling",
        "gone",
        "key",
        "last",
        "name",
        "recent",
    )

    def __init__(self, key: SessionKey, last: int) -> None:
        self.key = key
        self.name = str(key)
        self.last = self.committed = last
        self.filling: Chunk | None = None
        self.recent: deque[Chunk] = deque()
        self.gone = False
        self._news: anyio.Event | None = None

    def add(self, line: bytes) -> Chunk | None:
        """Take a line under the next number; return its chunk if that was begun for it."""
        self.last += 1
        size = len(line) + 1
        chunk = self.filling
        if chunk is not None and chunk.size + size <= CHUNK_BYTES:
            chunk.lines.append(line)
            chunk.size += size
            return None
        self.filling = chunk = Chunk(self, self.last, [line], size)
        return chunk

    def since(self, position: int) -> list[bytes] | None:
        """Return the lines after the position, at most a chunk's worth; None: not in the ring."""
        index = bisect_right(self.recent, position + 1, key=_first) - 1
        if index < 0:
            return None
        chunk = self.recent[index]
        lines = chunk.lines[position + 1 - chunk.first :]
        size = chunk.size
        for follow in islice(self.recent, index + 1, None):
            size += follow.size
            if size > CHUNK_BYTES:
                break
            lines += follow.lines
        return lines

    async def news(self) -> None:
        """Wait for the next commit, or for `wake`."""
        if self._news is None:
            self._news = anyio.Event()
        await self._news.wait()

    def end(self) -> None:
        """Tell everybody who follows it that the session was deleted."""
        self.gone = True
        self.wake()

    def wake(self) -> None:
        """Let everybody look again who waits for news."""
        if self._news is not None:
            self._news.set()
            self._news = None


class Ring:
    """The newest committed chunks of all sessions, bounded in bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: deque[Chunk] = deque()
        self.size = 0

    def add(self, chunk: Chunk) -> None:
        """Keep a chunk that was just committed, and drop the oldest ones beyond the bound."""
        self._chunks.append(chunk)
        chunk.stream.recent.append(chunk)
        self.size += chunk.cost
        while self.size > self._limit:
            oldest = self._chunks.popleft()
            # Chunks of a stream leave in the order they came, so it is that stream's oldest too.
            oldest.stream.recent.popleft()
            self.size -= oldest.cost
