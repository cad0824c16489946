"""Worker threads that may be left behind, and a bound on how many that can be.

A call into a disk that hangs cannot be cancelled: whoever waits for it gives up, and its thread
stays until the disk answers. A limiter alone would not bound them, for it lets the next one in as
soon as a caller gives up.
"""

import queue
from collections.abc import Callable
from typing import Final, TypeVar

import anyio
import anyio.to_thread

T = TypeVar("T")

# What is looked at this way takes a millisecond: if so many hang, the next one would as well.
AT_ONCE: Final = 8


class Threads:
    """Runs blocking calls, each in a thread, and no more at once than a number.

    Args:
        most: threads, those included that were left behind.
    """

    def __init__(self, most: int = AT_ONCE) -> None:
        self._limiter = anyio.CapacityLimiter(most)
        # One for each thread that may run; held by the thread, not by who waits for it.
        self._places: queue.SimpleQueue[None] = queue.SimpleQueue()
        for _ in range(most):
            self._places.put(None)

    async def run(self, work: Callable[[], T]) -> T:
        """Return what a blocking call returns; cancelled, it is left behind.

        Raises:
            TimeoutError: too many were left behind and have not come back yet.
        """
        return await anyio.to_thread.run_sync(
            self._within, work, abandon_on_cancel=True, limiter=self._limiter
        )

    def _within(self, work: Callable[[], T]) -> T:
        try:
            self._places.get_nowait()
        except queue.Empty:
            raise TimeoutError("earlier looks at the disk have not ended") from None
        try:
            return work()
        finally:
            self._places.put(None)
