"""What the floors above are handed instead of reaching for it: clock and ids."""

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
