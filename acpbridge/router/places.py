"""How many agent processes may live at once, and whose turn it is to wait. No I/O.

A place is held from before the start to after the end of a process. When none is free, the process
that has been ready for the longest, and whose agent can take up its session again, gives way.
"""

from collections.abc import Callable, Iterable
from typing import Protocol

import anyio


class Holder(Protocol):
    """One who holds a place."""

    def idle_since(self) -> float | None:
        """Monotonic seconds since when it could give way, None if it cannot."""
        ...

    def give_way(self) -> None:
        """Begin to end the process; its place is released when it is gone."""
        ...


class Places:
    """The places of one daemon.

    Args:
        limit: how many there are, asked each time.
    """

    def __init__(self, limit: Callable[[], int]) -> None:
        self._limit = limit
        self._holders: set[Holder] = set()
        self._freed = anyio.Event()

    @property
    def taken(self) -> int:
        """How many are held."""
        return len(self._holders)

    async def acquire(self, holder: Holder) -> None:
        """Wait for a place; the caller must release it."""
        while len(self._holders) >= self._limit():
            longest = _longest_idle(self._holders)
            if longest is not None:
                longest.give_way()
            await self._freed.wait()
        self._holders.add(holder)

    def release(self, holder: Holder) -> None:
        """Give a place back."""
        self._holders.discard(holder)
        self._freed.set()
        self._freed = anyio.Event()

    def check(self) -> None:
        """Look again: somebody who waits may have found one who gives way."""
        self._freed.set()
        self._freed = anyio.Event()


def _longest_idle(holders: Iterable[Holder]) -> Holder | None:
    idle = [(since, holder) for holder in holders if (since := holder.idle_since()) is not None]
    return min(idle, key=lambda pair: pair[0])[1] if idle else None
