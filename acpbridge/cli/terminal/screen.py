"""The terminal as one thing: what was said stays above, and one prompt at a time has the bottom.

Every word of a run passes through its `Screen`, so that nothing is written across a question or a
line that is being typed. `LiveScreen` (live.py) draws; `PlainScreen` is for pipes and for terminals
that cannot move a cursor. Neither blocks the event loop.

How to ask something::

    async with screen.prompt() as prompt:         # from here on other output is held back
        await prompt.show(coloured(render(question)))           # stays in the scrollback
        line = await prompt.line("answer [1-3]: ")              # None: Ctrl-D, or no terminal
        ...                                                     # ask again: prompt.line(...)
    # what was held back is written now

A line to type at while the run goes on (`attach`)::

    async with screen.prompt(hold=False) as prompt:  # output is drawn above the line
        while (line := await prompt.line("> ")) is not None:
            ...

The rules:

* `hold=True` (a question) drops what was typed before it could be seen, and holds back every
  `write` and `say` until it is left. `write` returns at once meanwhile, so that whoever reads
  events goes on reading: a question that was decided elsewhere can be taken back.
* A prompt that is opened over another one takes the keyboard; what was typed at the one below is
  kept and shown again. Questions are asked one after another: their owner sees to that.
* Cancelling `prompt.line` takes the line off the screen; nothing stays of it. When a line is
  entered, its label and what was typed stay in the scrollback.
* `show`, `say` and `write` take text that is harmless already (`visible` and `escape` of
  model/display.py): colours of ours may be in it. A line end is added where there is none.
"""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from types import TracebackType
from typing import Any, Final, Protocol, Self

import click

from acpbridge.cli.output import on_terminal, say
from acpbridge.cli.terminal.writer import forget_typed, read_line

# Terminals that cannot move a cursor; "" is one that nobody described.
_STILL: Final = ("", "dumb", "unknown")


class Prompt(Protocol):
    """The bottom of the screen, as long as it is somebody's."""

    async def show(self, text: str) -> None:
        """Write lines above the prompt at once, held back or not; they stay."""
        ...

    async def line(self, label: str) -> str | None:
        """Have a line typed behind a label; without its end. None: Ctrl-D, or no keyboard."""
        ...


class Screen(Protocol):
    """The one owner of the terminal during a run; an asynchronous context manager."""

    @property
    def live(self) -> bool:
        """Whether there is a region that is redrawn."""
        ...

    async def write(self, text: str) -> None:
        """Write whole lines that stay."""
        ...

    async def say(self, text: str, **style: Any) -> None:
        """Write a line of talk in a style of `click.style`."""
        ...

    def status(self, text: str) -> None:
        """Name what is waited for, beside the spinner; "" for none. Never waits."""
        ...

    def prompt(self, *, hold: bool = True) -> AbstractAsyncContextManager[Prompt]:
        """Take over the bottom of the screen; see the module's words for the rules."""
        ...

    def abandon(self) -> None:
        """Give the terminal back at once and without a wait, before `os._exit`."""
        ...

    async def __aenter__(self) -> Self:
        """Take the terminal."""
        ...

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        """Write what is left and give the terminal back as it was."""
        ...


def screen_of(shape: str) -> Screen:
    """Return the screen for a `--format`: a live one for text on a terminal that can."""
    if shape == "text" and can_draw():
        from acpbridge.cli.terminal.live import LiveScreen
        from acpbridge.cli.terminal.tty import Tty

        keyboard = sys.stdin.fileno() if on_terminal() else None
        return LiveScreen(Tty(sys.stdout.fileno(), keyboard))
    return PlainScreen()


def can_draw() -> bool:
    """Tell whether stdout and stderr are one terminal that can move a cursor."""
    if not (sys.stdout.isatty() and sys.stderr.isatty()):
        return False
    out, err = os.fstat(sys.stdout.fileno()), os.fstat(sys.stderr.fileno())
    return out.st_rdev == err.st_rdev and os.environ.get("TERM", "") not in _STILL


class PlainScreen:
    """No region that is redrawn: talk goes to stderr line by line, as it comes."""

    live = False

    async def write(self, text: str) -> None:
        """Write it."""
        click.echo(text.removesuffix("\n"), err=True)

    async def say(self, text: str, **style: Any) -> None:
        """Say it."""
        say(text, **style)

    def status(self, text: str) -> None:
        """Nothing shows it."""

    def abandon(self) -> None:
        """Nothing was taken."""

    @asynccontextmanager
    async def prompt(self, *, hold: bool = True) -> AsyncIterator[Prompt]:
        """Ask on stderr; the kernel lets the line be edited."""
        if hold and sys.stdin.isatty():
            forget_typed()
        yield _PlainPrompt()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        del kind, error, trace


class _PlainPrompt:
    async def show(self, text: str) -> None:
        click.echo(text.removesuffix("\n"), err=True)

    async def line(self, label: str) -> str | None:
        # No line end: the answer is typed right behind it.
        click.echo(label, nl=False, err=True)
        line = await read_line()
        if line is None:
            click.echo(err=True)
        return None if line is None else line.rstrip("\n")
