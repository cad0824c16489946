"""Who gets what is typed: the topmost of the prompts that are open, and nobody while none is.

Below are `Line` (what keys do), `Tty` (where they come from) and `Paper` (where lines go).
"""

import os
from typing import Final

import anyio

from acpbridge.cli.terminal.canvas import Row
from acpbridge.cli.terminal.cells import cut, cut_left, hang, width_of
from acpbridge.cli.terminal.lineedit import Line
from acpbridge.cli.terminal.paper import Paper
from acpbridge.cli.terminal.tty import Tty
from acpbridge.model.display import escape

# Room that is kept for what is typed, however long a label is. Columns.
ROOM: Final = 8

_READ: Final = 4096


class LivePrompt:
    """One prompt; made by `LiveScreen.prompt`."""

    def __init__(self, keyboard: "Keyboard", *, hold: bool) -> None:
        self.hold = hold
        self.wants = False
        self._keyboard = keyboard
        self._label = ""
        self._line = Line()
        self._done = anyio.Event()
        self._ahead = b""

    async def show(self, text: str) -> None:
        """Write lines above the prompt."""
        self._keyboard.paper.add(text, always=True)
        await self._keyboard.paper.drained()

    async def line(self, label: str) -> str | None:
        """Have a line typed behind a label."""
        if self._keyboard.closed:
            return None
        self._label, self._done = label, anyio.Event()
        self.wants = True
        self._keyboard.wanted()
        self._keyboard.paper.touch()  # nothing else has the row drawn while lines are held back
        ahead, self._ahead = self._ahead, b""
        self.feed(ahead)
        try:
            await self._done.wait()
        finally:
            self.wants = False
            self._keyboard.paper.touch()
        line, self._line = self._line, Line()
        if line.entered:
            self._keyboard.keep(label + shown(line.text))
        return line.text if line.entered else None

    def feed(self, data: bytes) -> None:
        """Take keys; those behind the end of a line are for the next one."""
        self._ahead += self._line.feed(data)
        if self._line.over:
            self._done.set()

    def end(self) -> None:
        """No more keys will come."""
        self._line.ended = True
        self._done.set()

    def row(self, width: int) -> tuple[Row, int]:
        """Return the row, and the column of the cursor; a long line is shown around its cursor."""
        label = cut(self._label, max(width - ROOM, 0))
        room = width - width_of(label) - 1
        before, after = shown(self._line.text[: self._line.at]), self._line.text[self._line.at :]
        before = cut_left(before, max(room, 0), mark="")
        after = cut(shown(after), max(room - width_of(before), 0), mark="")
        text = label + before + after
        return Row(text, width_of(text)), width_of(label + before)


class Keyboard:
    """Reads keys for the topmost prompt that wants a line.

    Args:
        tty: where they come from.
        paper: is told to hold lines back while a question is open.
    """

    def __init__(self, tty: Tty, paper: Paper) -> None:
        self.paper = paper
        self.closed = tty.keyboard is None
        self._tty = tty
        self._prompts: list[LivePrompt] = []
        self._news = anyio.Event()

    def open(self, *, hold: bool) -> LivePrompt:
        """Open a prompt over all others."""
        if hold:
            self._tty.forget_typed()
            self.paper.hold()
        prompt = LivePrompt(self, hold=hold)
        self._prompts.append(prompt)
        return prompt

    def shut(self, prompt: LivePrompt) -> None:
        """Close a prompt."""
        self._prompts.remove(prompt)
        if self.paper.holding and not any(p.hold for p in self._prompts):
            self.paper.release()
        self.paper.touch()
        self.wanted()

    def wanted(self) -> None:
        """A prompt wants a line, or does not any more."""
        self._news.set()

    def keep(self, line: str) -> None:
        """Have what was typed stay in the scrollback."""
        width = max(self._tty.size()[0] - 1, 1)
        self.paper.add("\n".join(hang(line, width)), always=True)

    def row(self, width: int) -> tuple[Row, int] | None:
        """Return the row of the topmost prompt, None if it wants no line."""
        prompt = self._reader()
        return None if prompt is None else prompt.row(width)

    async def serve(self) -> None:
        """Read while somebody is asked, and only then: what is typed else is the shell's."""
        fd = self._tty.keyboard
        while fd is not None and not self.closed:
            if self._reader() is None:
                self._news = anyio.Event()
                await self._news.wait()
                continue
            await anyio.wait_readable(fd)
            prompt = self._reader()
            if prompt is not None:
                self._give(prompt, fd)

    def _give(self, prompt: LivePrompt, fd: int) -> None:
        try:
            data = os.read(fd, _READ)
        except OSError:
            data = b""
        if data:
            prompt.feed(data)
        else:
            self.closed = True
            for each in self._prompts:
                each.end()
        self.paper.touch()

    def _reader(self) -> LivePrompt | None:
        prompt = self._prompts[-1] if self._prompts else None
        return prompt if prompt is not None and prompt.wants else None


def shown(text: str) -> str:
    """Return what was typed as it can be shown: on one row, harmless."""
    return "⏎".join(escape(part) for part in text.split("\n"))
