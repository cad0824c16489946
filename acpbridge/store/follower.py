"""Reading a session's events by number: a cursor over the ring and, behind it, the log.

A follower holds nothing but its position, so one that never reads costs nothing and holds nobody
up. Above are the faces.
"""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self

import anyio
import anyio.lowlevel

from acpbridge.errors import BridgeError
from acpbridge.store.ring import Stream

History = Callable[[Stream, int], Awaitable[tuple[int, list[bytes]]]]


class Follower:
    """A cursor over one session's events; for one reader at a time.

    Args:
        stream: of the session.
        history: reads stored lines after a number.
        after: number of the last event that is not wanted any more, 0 to begin at the first.
        upto: number at which it has read enough; None to wait for what comes.
        stored: whether to read the stored, redacted copy alone, however new an event is.
        replayed: number up to which the stored copy is read: what was before is history.

    Attributes:
        position: number of the last event that was returned.
        redacted: whether the last read came from the stored, redacted copy.
    """

    def __init__(
        self,
        stream: Stream,
        history: History,
        after: int,
        *,
        upto: int | None = None,
        stored: bool = False,
        replayed: int = 0,
    ) -> None:
        self.position = after
        self.redacted = False
        self._stream = stream
        self._history = history
        self._upto = upto
        self._stored = stored
        self._replayed = replayed
        self._closed = False

    @property
    def newest(self) -> int:
        """Number of the newest event that can be read."""
        return self._stream.committed

    async def read(self) -> list[bytes]:
        """Return the next lines, at least one and at most 256 KiB or one line; wait for them.

        None are returned only once `upto` is reached.

        Raises:
            anyio.ClosedResourceError: the follower was closed.
            BridgeError: `internal` or `store_full`, when older events cannot be read from the disk;
                `no_such_session`, when the session was deleted.
        """
        await anyio.lowlevel.checkpoint_if_cancelled()
        while True:
            if self._closed:
                raise anyio.ClosedResourceError
            if self._stream.gone:
                name = self._stream.name
                raise BridgeError("no_such_session", f"The session {name} was deleted.")
            if self._upto is not None and self.position >= self._upto:
                return []
            lines = await self._next()
            if lines:
                return lines

    async def _next(self) -> list[bytes]:
        stream = self._stream
        if self.position >= stream.committed:
            await stream.news()
            return []
        replay = self._replayed - self.position
        lines = None if self._stored or replay > 0 else stream.since(self.position)
        self.redacted = lines is None
        if lines is not None:
            self.position += len(lines)
            return lines
        upto = stream.committed
        first, lines = await self._history(stream, self.position)
        if not self._stored and replay > 0:
            upto = min(upto, self._replayed)
            lines = lines[: max(0, upto + 1 - first)]
        # Events that a damaged file has lost are passed over: nobody can show them any more.
        self.position = first + len(lines) - 1 if lines else self._beyond_loss(upto)
        return lines

    def _beyond_loss(self, upto: int) -> int:
        recent = () if self._stored else self._stream.recent
        return recent[0].first - 1 if recent and recent[0].first <= upto else upto

    async def aclose(self) -> None:
        """End the follower; a read that waits raises."""
        self._closed = True
        self._stream.wake()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.aclose()
