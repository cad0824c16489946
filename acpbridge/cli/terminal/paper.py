"""What is on its way to the terminal: lines to be written, lines held back, bytes half sent.

Below is nothing; the screen above takes from it for each frame.
"""

from typing import Final

import anyio

# Characters that may wait for the terminal before a `write` waits too.
PENDING: Final = 262_144

# Characters that are held back behind a question; what is more is counted and left out, for the
# log of the session has it.
HELD: Final = 1_048_576


class Paper:
    """The queue before a terminal."""

    def __init__(self) -> None:
        self.holding = False
        self._pending: list[str] = []
        self._held: list[str] = []
        self._left_out = 0
        self._outbox = b""
        self._wake = anyio.Event()
        self._written = anyio.Event()

    @property
    def full(self) -> bool:
        """Whether whoever writes should wait; never for a question."""
        return not self.holding and sum(map(len, self._pending)) > PENDING

    def add(self, text: str, *, always: bool = False) -> None:
        """Take lines; while something holds them back only those that come `always` pass."""
        text = text if text.endswith("\n") else text + "\n"
        if self.holding and not always:
            self._hold(text)
            return
        self._pending.append(text)
        self.touch()

    def _hold(self, text: str) -> None:
        if sum(map(len, self._held)) + len(text) > HELD:
            self._left_out += text.count("\n")
        else:
            self._held.append(text)

    def hold(self) -> None:
        """Hold lines back from here on."""
        self.holding = True
        self.touch()

    def release(self) -> None:
        """Let what was held back go."""
        self.holding = False
        self._pending += self._held
        if self._left_out:
            self._pending.append(f"({self._left_out} more lines are in the session's log)\n")
        self._held, self._left_out = [], 0
        self.touch()

    def take(self) -> str:
        """Return the lines to be written now."""
        text = "".join(self._pending)
        self._pending.clear()
        return text

    def send(self, frame: str) -> None:
        """Put what is to be sent behind what was not sent yet."""
        self._outbox += frame.encode("utf-8", "replace")

    def rest(self) -> bytes:
        """Return what is not sent yet."""
        return self._outbox

    def sent(self, count: int) -> None:
        """Forget what was sent."""
        self._outbox = self._outbox[count:]
        if not self._outbox:
            self._written.set()
            self._written = anyio.Event()

    def touch(self) -> None:
        """Have a frame drawn."""
        self._wake.set()

    async def touched(self) -> None:
        """Wait until a frame is wanted."""
        await self._wake.wait()
        self._wake = anyio.Event()

    async def drained(self) -> None:
        """Wait until everything that is not held back is on the terminal."""
        while self._pending or self._outbox:
            self.touch()
            await self._written.wait()
