"""The ports of `model.ports` on a real machine: clocks and random names."""

import time
import uuid
from datetime import UTC, datetime


class SystemClock:
    """The clocks of the machine."""

    def wall(self) -> datetime:
        """Return the wall-clock time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds of CLOCK_MONOTONIC."""
        return time.monotonic()


class RandomIds:
    """Unique names from the kernel's random numbers."""

    def uuid4(self) -> uuid.UUID:
        """Return a version 4 uuid."""
        return uuid.uuid4()
