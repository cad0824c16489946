"""A real pseudo-terminal with an emulator at its other end, for tests of a screen."""

import fcntl
import os
import struct
import termios
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio

from acpbridge.cli.terminal.tty import Tty
from acpbridge.transport.tasks import background
from tests.unit.cli.terminal.emulator import Emulator

LIMIT = 10.0


class Watched:
    """What a person at the terminal sees and types."""

    def __init__(self, columns: int, rows: int) -> None:
        self.main, self.side = os.openpty()
        self.shown = Emulator(columns, rows)
        self.raw = ""
        self.resize(columns, rows)
        self.tty = Tty(self.side, self.side)
        self.before = termios.tcgetattr(self.side)
        self._news = anyio.Event()

    def resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self.main, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.main, text.encode())

    @property
    def restored(self) -> bool:
        return termios.tcgetattr(self.side) == self.before

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something holds of what is shown."""
        with anyio.move_on_after(LIMIT):
            while not holds():
                self._news = anyio.Event()
                await self._news.wait()
            return
        raise AssertionError(f"not seen in:\n{self.shown.text}")

    async def sees(self, *texts: str) -> None:
        await self.until(lambda: all(text in self.shown.text for text in texts))

    async def pump(self) -> None:
        while True:
            await anyio.wait_readable(self.main)
            self.read()

    def read(self) -> None:
        text = os.read(self.main, 65536).decode(errors="replace")
        self.raw += text
        self.shown.feed(text)
        self._news.set()


@asynccontextmanager
async def watched(columns: int = 40, rows: int = 12) -> AsyncIterator[Watched]:
    terminal = Watched(columns, rows)
    try:
        async with background(terminal.pump):
            yield terminal
    finally:
        os.close(terminal.main)
        os.close(terminal.side)
