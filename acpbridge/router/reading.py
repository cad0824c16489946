"""Reads a session's stored log for those who look at it: the redacted copy, from its end backwards.

A log may be long: no more is read than is wanted, in windows that grow, and its lines are parsed in
a worker thread. Above are history and changes.
"""

from collections.abc import Callable
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.router.transcript import Message, messages

T = TypeVar("T")

# Of what is being written now a look sees what is on disk in this time. Seconds.
COMMIT_WAIT: Final = 2.0

# Events that are looked at, first and at most: a turn has some hundreds, a long one some thousands.
WINDOW: Final = 512
MOST: Final = 65536

# Looks that parse at the same time; others wait.
_READERS: Final = 2


class Reading:
    """Reads logs.

    Args:
        services: the logs.
    """

    def __init__(self, services: Services) -> None:
        self._log = services.log
        self._threads = anyio.CapacityLimiter(_READERS)

    async def newest(self, session: Session) -> int:
        """Return the number of a session's newest event that is on disk, or will be in a moment."""
        newest = await session.open_log()
        with anyio.move_on_after(COMMIT_WAIT):
            await self._log.committed(session.key)
        return newest

    async def lines(self, session: Session, after: int, upto: int) -> list[bytes]:
        """Return the stored lines with numbers greater than `after`, up to `upto` and a few more.

        The session's log must be open. What a damaged file has lost is not there.
        """
        found: list[bytes] = []
        async with self._log.follow(session.key, after, live=False, stored=True) as follower:
            while follower.position < upto and (lines := await follower.read()):
                found += lines
        return found

    async def parsed(self, parse: Callable[[], T]) -> T:
        """Return what a function makes of lines, called in a worker thread."""
        return await anyio.to_thread.run_sync(parse, abandon_on_cancel=True, limiter=self._threads)

    async def last_messages(
        self, session: Session, enough: int, *, tools: bool = False, before: int = 0
    ) -> tuple[list[Message], bool]:
        """Return the newest messages of a session, and whether there may be older ones.

        Args:
            session: whose.
            enough: how many; there may be more of them.
            tools: whether tool calls are messages.
            before: only those that begin before this number; 0 for all.
        """
        newest = await self.newest(session)
        end = min(before or newest + 1, newest + 1)
        window = WINDOW
        while True:
            after = max(0, end - 1 - window)
            lines = await self.lines(session, after, end - 1)
            whole, upto = after == 0, end

            def parse() -> list[Message]:
                return messages(lines, tools=tools, before=upto, whole=whole)  # noqa: B023 -- awaited here

            found = await self.parsed(parse)
            if len(found) >= enough or whole or window >= MOST:
                return found, not whole
            window *= 4
