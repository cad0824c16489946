"""A screen that draws: a scrollback that only grows, and a few rows below it that change.

One task writes, so that no two writers meet; at most twenty times a second. What it could not
write yet waits here, and a `write` waits with it: a terminal that is stopped holds up the reading
of events, not the loop. Above are the views and questions, below `Canvas` (what to send), `Tty`
(the modes) and `Writer`.
"""

import os
import select
import signal
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final

import anyio

from acpbridge.cli.output import styled
from acpbridge.cli.terminal.canvas import Canvas, Row
from acpbridge.cli.terminal.cells import hang, width_of
from acpbridge.cli.terminal.keyboard import Keyboard, LivePrompt
from acpbridge.cli.terminal.paper import Paper
from acpbridge.cli.terminal.tty import Tty
from acpbridge.cli.terminal.writer import PIECE, Writer
from acpbridge.transport.tasks import Owner, background

# Between two frames: more often nobody sees, and every frame costs the terminal. Seconds.
FRAME: Final = 0.05

# Between two pictures of the spinner. Seconds.
TICK: Final = 0.125

# For the last frame: a terminal that is stopped (Ctrl-S) must not keep us. Seconds.
LAST_FRAME: Final = 1.0

# Returns the rows to show, for so many columns and at most so many rows.
Region = Callable[[int, int], Sequence[str]]


def no_region(width: int, height: int) -> Sequence[str]:
    """Show nothing."""
    del width, height
    return ()


class LiveScreen(Owner):
    """The screen of a terminal that can move its cursor.

    Args:
        tty: the terminal.
    """

    live = True

    def __init__(self, tty: Tty) -> None:
        self.tty = tty
        # What is shown above the prompt; asked for each frame, so it is always of now.
        self.region: Region = no_region
        self.waits_for = ""
        self._canvas = Canvas()
        self._paper = Paper()
        self._keyboard = Keyboard(tty, self._paper)
        self._stopping = False

    async def write(self, text: str) -> None:
        """Write whole lines that stay; wait if the terminal is behind, but not for a question."""
        self._paper.add(text)
        if self._paper.full:
            await self._paper.drained()

    async def say(self, text: str, **style: Any) -> None:
        """Write talk in a style of `click.style`; a long line of it goes on indented."""
        width = max(self.tty.size()[0] - 1, 1)
        rows = (row for line in text.splitlines() for row in hang(line, width))
        await self.write("\n".join(styled(row, **style) for row in rows))

    def status(self, text: str) -> None:
        """Name what is waited for."""
        self.waits_for = text
        self.redraw()

    def redraw(self) -> None:
        """Have the next frame drawn soon."""
        self._paper.touch()

    @asynccontextmanager
    async def prompt(self, *, hold: bool = True) -> AsyncIterator[LivePrompt]:
        """Take over the bottom of the screen."""
        prompt = self._keyboard.open(hold=hold)
        try:
            yield prompt
        finally:
            self._keyboard.shut(prompt)

    def abandon(self) -> None:
        """Give the terminal back at once."""
        self.tty.give_back()
        data = self._paper.rest() + self._canvas.leave().encode()
        if len(data) <= PIECE and select.select([], [self.tty.out], [], 0)[1]:
            os.write(self.tty.out, data)

    # ---- the tasks ----

    async def _enter(self, stack: AsyncExitStack) -> None:
        self.tty.take()
        stack.push_async_callback(self._close)
        tasks = (self._paint, self._tick, self._keyboard.serve, self._obey)
        await stack.enter_async_context(background(*tasks))

    async def _close(self) -> None:
        """Show what is left, and leave the terminal as it was found."""
        try:
            with anyio.move_on_after(LAST_FRAME, shield=True):
                self._paper.release()
                await self._send(self._canvas.close(self._paper.take(), self.tty.size()[0]))
        finally:
            self.tty.give_back()

    async def _paint(self) -> None:
        while True:
            await self._paper.touched()
            await self._send(self._frame())
            if self._stopping:
                self._stop()
            await anyio.sleep(FRAME)

    async def _send(self, frame: str) -> None:
        """Write a frame; one that was cancelled in between is written to its end first."""
        self._paper.send(frame)
        out = Writer(self.tty.out)
        while rest := self._paper.rest():
            self._paper.sent(await out.write_some(rest))

    async def _tick(self) -> None:
        while True:
            await anyio.sleep(TICK)
            if not self._paper.holding:
                self.redraw()

    async def _obey(self) -> None:
        """Draw anew for another size, stop when told to, and go on after it."""
        wanted = [signal.SIGWINCH, signal.SIGCONT]
        if signal.getsignal(signal.SIGTSTP) is not signal.SIG_IGN:
            wanted.append(signal.SIGTSTP)
        with anyio.open_signal_receiver(*wanted) as signals:
            async for number in signals:
                if number == signal.SIGTSTP:
                    self._stopping = True
                elif number == signal.SIGCONT:
                    # Whoever had the terminal meanwhile has written on it.
                    self._canvas.leave()
                    self.tty.take()
                self.redraw()

    def _stop(self) -> None:
        """Stop like any other program, the terminal given back; come back here after it."""
        self._stopping = False
        self.tty.give_back()
        handler = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, handler)
        self.tty.take()
        self.redraw()

    def _frame(self) -> str:
        width, height = self.tty.size()
        stays = self._paper.take()
        if self._stopping or not self.tty.ours():
            return self._canvas.close(stays, width)
        rows = () if self._paper.holding else self.region(width - 1, max(height - 2, 0))
        out = [Row(row, width_of(row)) for row in rows]
        if (typed := self._keyboard.row(width - 1)) is None:
            return self._canvas.frame(stays, out, width)
        row, column = typed
        return self._canvas.frame(stays, [*out, row], width, (len(out), column))
