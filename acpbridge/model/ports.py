"""What the floors above are handed instead of reaching for it: clock, ids, fault points."""

import uuid
from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Two clocks: one to print, one to measure with. A jump of the first changes no deadline."""

    def wall(self) -> datetime:
        """Return the wall-clock time, aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds that only ever grow; their zero means nothing."""
        ...


class Ids(Protocol):
    """A source of unique names."""

    def uuid4(self) -> uuid.UUID:
        """Return a version 4 uuid that was never returned before."""
        ...


class Faults(Protocol):
    """Named points at which a test may fail or kill the process."""

    def __call__(self, point: str) -> None:
        """Pass the point, or do to this process what a test asked for."""
        ...


def no_faults(point: str) -> None:
    """Pass every fault point."""
