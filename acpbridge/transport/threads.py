"""Worker threads that may be left behind, and a bound on how many that can be.

A call into a disk that hangs cannot be cancelled: whoever waits for it gives up, and its thread
stays until the disk answers. A limiter alone would not bound them, for it lets the next one in as
soon as a caller gives up.
"""

import math
import queue
from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

import anyio
import anyio.to_thread

from acpbridge.transport.tasks import in_time

T = TypeVar("T")

# What is looked at this way takes a millisecond: if so many hang, the next one would as well.
AT_ONCE: Final = 8


class Threads:
    """Runs blocking calls, each in a thread and with a limit, and no more at once than a number.

    Args:
        seconds: for each call, from when its thread is there: who waits for one is no slower. None:
            who calls has a limit.
        most: threads, those included that were left behind.
    """

    def __init__(self, seconds: float | None = None, most: int = AT_ONCE) -> None:
        self._seconds = seconds
        self._limiter = anyio.CapacityLimiter(most)
        self._unlimited = anyio.CapacityLimiter(math.inf)
        # One for each thread that may run; held by the thread, not by who waits for it.
        self._places: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(most):
            self._places.put(None)

    async def run(self, work: Callable[[], T]) -> T:
        """Return what a blocking call returns; cancelled, it is left behind.

        Raises:
            TimeoutError: it took too long, or too many were left behind and have not come back.
        """
        run = partial(
            anyio.to_thread.run_sync,
            self._within,
            work,
            abandon_on_cancel=True,
            limiter=self._unlimited,
        )
        async with self._limiter:
            return await (run() if self._seconds is None else in_time(self._seconds, run))

    def _within(self, work: Callable[[], T]) -> T:
        try:
            self._places.get_nowait()
        except queue.Empty:
            raise TimeoutError("earlier looks at the disk have not ended") from None
        try:
            return work()
        finally:
            self._places.put(None)
