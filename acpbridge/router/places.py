"""How many agent processes may live at once, and whose turn it is to wait. No I/O.

A place is held from before the start to after the end of a process. Those who wait get one in the
order in which they came. While there are more of them than processes on their way out, the process
that has been ready for the longest, and whose agent can take up its session again, gives way.

Python agents that other agents have started have a lane of their own among the places: while it is
full, whoever comes after them goes first.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

import anyio


class Holder(Protocol):
    """One who holds a place."""

    def idle_since(self) -> float | None:
        """Monotonic seconds since when it could give way, None if it cannot."""
        ...

    def give_way(self) -> None:
        """Begin to end the process, for good; its place is released when it is gone."""
        ...


@dataclass(eq=False, slots=True)
class _Waiter:
    """One who has no place yet."""

    holder: Holder
    lane: bool
    granted: anyio.Event = field(default_factory=anyio.Event)


class Places:
    """The places of one daemon.

    Args:
        limit: how many there are, asked each time.
        lane: how many of them those in the lane may hold, asked each time; None: all.
    """

    def __init__(self, limit: Callable[[], int], lane: Callable[[], int] | None = None) -> None:
        self._limit = limit
        self._lane = limit if lane is None else lane
        self._in_lane: set[Holder] = set()
        self._holders: set[Holder] = set()
        self._leaving: set[Holder] = set()
        self._waiting: deque[_Waiter] = deque()

    @property
    def taken(self) -> int:
        """How many are held."""
        return len(self._holders)

    @property
    def full(self) -> bool:
        """Whether whoever comes now has to wait."""
        return self.taken >= self._limit()

    @property
    def within_reach(self) -> int:
        """How many more processes could start now, those that would give way for them counted."""
        yielding = sum(holder.idle_since() is not None for holder in self._holders - self._leaving)
        return self._limit() - self.taken + yielding + len(self._leaving)

    @property
    def lane(self) -> frozenset[Holder]:
        """Who holds a place in the lane."""
        return frozenset(self._in_lane)

    @property
    def lane_full(self) -> bool:
        """Whether whoever comes to the lane now has to wait."""
        return len(self._in_lane) >= self._lane()

    def holds(self, holder: Holder | None) -> bool:
        """Tell whether somebody has a place."""
        return holder in self._holders

    async def acquire(self, holder: Holder, *, lane: bool = False) -> None:
        """Wait for a place, of the lane or of any; the caller must release it.

        Cancelled, it holds none.
        """
        waiter = _Waiter(holder, lane)
        self._waiting.append(waiter)
        self.check()
        try:
            await waiter.granted.wait()
        except BaseException:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            self.release(holder)
            raise

    def release(self, holder: Holder) -> None:
        """Give a place back."""
        self._holders.discard(holder)
        self._leaving.discard(holder)
        self._in_lane.discard(holder)
        self.check()

    def check(self) -> None:
        """Look again: a place may be free by now, or somebody idle who can give way."""
        while len(self._holders) < self._limit() and (waiter := self._next()) is not None:
            self._waiting.remove(waiter)
            self._holders.add(waiter.holder)
            if waiter.lane:
                self._in_lane.add(waiter.holder)
            waiter.granted.set()
        room = self._lane() - len(self._in_lane)
        wanted = sum(not w.lane for w in self._waiting) + min(
            max(room, 0), sum(w.lane for w in self._waiting)
        )
        while wanted > len(self._leaving):
            longest = _longest_idle(self._holders - self._leaving)
            if longest is None:
                return
            self._leaving.add(longest)
            longest.give_way()

    def _next(self) -> _Waiter | None:
        """Return the first one who lacks nothing but a place."""
        return next((w for w in self._waiting if not (w.lane and self.lane_full)), None)


def _longest_idle(holders: Iterable[Holder]) -> Holder | None:
    idle = [(since, holder) for holder in holders if (since := holder.idle_since()) is not None]
    return min(idle, key=lambda pair: pair[0])[1] if idle else None
