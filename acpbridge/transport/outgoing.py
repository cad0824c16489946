"""The sending half of a connection: messages wait here in order until one task has written them.

Above is `connection`, which says what is sent; below is a stream of bytes.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

import anyio

from acpbridge.transport.memory import ByteSend

# Beyond this many unsent bytes, whoever awaits `drained` waits; nobody else's connection does.
SEND_BUFFER: Final = 512 * 1024

# So much is written at once; what is unsent is counted by it. Bytes.
SEND_PIECE: Final = 64 * 1024

# A peer that asks on and never reads its answers is given up when so many bytes are unsent; one
# more message, of whatever length, has been added then.
SEND_LIMIT: Final = 16 * 1024 * 1024


class Outgoing:
    """What one side has to send.

    Args:
        send: where the bytes go.
        limit: bytes unsent beyond which the other side is given up.
        on_overflow: told inline that it is, with the reason, for each message that it costs.
        on_broken: told once nobody takes the bytes any more.

    Attributes:
        unsent: bytes that wait.
    """

    def __init__(
        self,
        send: ByteSend,
        limit: int,
        on_overflow: Callable[[str], None],
        on_broken: Callable[[], None],
    ) -> None:
        self._send = send
        self._limit = limit
        self._on_overflow = on_overflow
        self._on_broken = on_broken
        self._out: deque[bytes] = deque()
        self._writable = True
        self._open = True
        self._wake = anyio.Event()
        self._sent = anyio.Event()
        self.unsent = 0

    def put(self, line: bytes) -> None:
        """Add a message, which may be empty; it is dropped once nothing can be written."""
        if not self._writable:
            return
        if self.unsent > self._limit:
            self._on_overflow(f"it has left {self.unsent} bytes unread and asks on")
        elif line:
            self._out.append(line)
            self.unsent += len(line)
            self._wake.set()

    def close(self) -> None:
        """Let nobody wait for room any more: the other side is gone."""
        self._open = False
        self._tell_sent()

    async def drained(self, stalled: float | None) -> None:
        """Wait until little enough is unsent; see `Connection.drained`."""
        while self.unsent > SEND_BUFFER and self._open:
            with anyio.fail_after(stalled):
                await self._sent.wait()

    async def flushed(self) -> None:
        """Wait until everything is sent, or nothing can be."""
        while self.unsent:
            await self._sent.wait()

    async def write(self) -> None:
        """Write what there is, for ever: the one task that does."""
        try:
            while True:
                await self._wake.wait()
                self._wake = anyio.Event()
                while self._out:
                    await self._send_some()
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            self._on_broken()
        finally:
            self._writable = False
            self._out.clear()
            self.unsent = 0
            self._tell_sent()

    async def _send_some(self) -> None:
        """Send some messages, or one; each piece that is taken counts."""
        taken, size = [self._out.popleft()], 0
        size = len(taken[0])
        while self._out and size + len(self._out[0]) <= SEND_PIECE:
            taken.append(self._out.popleft())
            size += len(taken[-1])
        data = b"".join(taken)
        for at in range(0, size, SEND_PIECE):
            await self._send.send(data[at : at + SEND_PIECE])
            self.unsent -= min(SEND_PIECE, size - at)
            self._tell_sent()

    def _tell_sent(self) -> None:
        self._sent.set()
        self._sent = anyio.Event()
