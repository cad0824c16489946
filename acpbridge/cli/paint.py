"""Colour for a question on a terminal: what would be removed, what added, what to beware of.

Slow to import, so only where somebody looks. The text itself is never changed.
"""

import io
import os
from typing import Final

from rich.console import Console, RenderableType
from rich.text import Text

from acpbridge.cli.question import MARGIN

# Nothing is wrapped at this width.
WIDEST: Final = 1_000_000

# The first that a line begins with, or holds, counts.
_BY_START = ((f"{MARGIN}-", "red"), (f"{MARGIN}+", "green"), ("permission ", "bold yellow"))
_BY_PART = (("WARNING", "bold red"), ("  ! ", "bold red"))


def painted(text: str) -> Text:
    """Return the lines of a question, each in the colour of what it says."""
    out = Text()
    for line in text.splitlines(keepends=True):
        out.append(line, _style(line))
    return out


def ansi(what: RenderableType, width: int = WIDEST) -> str:
    """Return something of rich's as text with colours, or without them where NO_COLOR is set."""
    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=True,
        width=width,
        color_system="standard",
        no_color=bool(os.environ.get("NO_COLOR")),
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    console.print(what, soft_wrap=width == WIDEST, end="")
    return out.getvalue()


def question(text: str) -> str:
    """Return a question with colours, for `Prompt.show`; lines are neither cut nor wrapped."""
    return ansi(painted(text))


def show(text: str) -> None:
    """Show a question on stderr; lines are neither cut nor wrapped, and NO_COLOR is honoured."""
    Console(stderr=True, highlight=False).print(painted(text), soft_wrap=True)


def _style(line: str) -> str:
    for start, style in _BY_START:
        if line.startswith(start):
            return style
    return next((style for part, style in _BY_PART if part in line), "")
