"""Writes to the ledger beside those who cannot wait for them, in the order of the calls.

The broker's callbacks are synchronous, and a turn's end is told even when the disk is full; what
they have to say is written here, again and again until the ledger takes it.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final

import anyio
import structlog

from acpbridge.errors import BridgeError
from acpbridge.transport.tasks import Owner, background

log = structlog.get_logger(__name__)

# A full disk is looked at again this often. Seconds.
RETRY: Final = 1.0
# What is still to be written when the scribe is left gets this long. Seconds.
FLUSH: Final = 2.0
# With a disk that stays full, older writes are given up beyond so many.
MOST: Final = 4096

Write = Callable[[], Awaitable[object]]


class Scribe(Owner):
    """The writes that nobody waits for; use it as an async context manager."""

    def __init__(self) -> None:
        self._writes: deque[Write] = deque(maxlen=MOST)
        self._news = anyio.Event()
        self._empty = anyio.Event()
        self._empty.set()

    def put(self, write: Write) -> None:
        """Have something written after all that was put before it."""
        self._writes.append(write)
        self._news.set()
        if self._empty.is_set():
            self._empty = anyio.Event()

    async def written(self) -> None:
        """Wait until nothing is left to be written."""
        await self._empty.wait()

    async def _enter(self, stack: AsyncExitStack) -> None:
        await stack.enter_async_context(background(self._write))
        # A cancelled owner must not cost what can still be written.
        stack.push_async_callback(self._flush)

    async def _flush(self) -> None:
        with anyio.move_on_after(FLUSH, shield=True):
            await self.written()

    async def _write(self) -> None:
        while True:
            while self._writes:
                write = self._writes[0]
                if not await _done(write):
                    await anyio.sleep(RETRY)
                elif self._writes and self._writes[0] is write:
                    self._writes.popleft()
            self._empty.set()
            self._news = anyio.Event()
            await self._news.wait()


async def _done(write: Write) -> bool:
    """Make one attempt; False if it is to be made again."""
    try:
        await write()
    except BridgeError as error:
        log.warning("the ledger cannot be written yet", code=error.code)
        return False
    except Exception:
        # The boundary of a call: one that can never work must not hold up the others.
        log.exception("a write to the ledger is given up")
    return True
