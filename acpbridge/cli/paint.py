"""Colour for a question on a terminal: what would be removed, what added, what to beware of.

Slow to import, so only where somebody looks. The text itself is never changed.
"""

import io
import os
from typing import Final

from rich.color import ColorSystem
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from rich.theme import Theme

from acpbridge.cli.question import MARGIN
from acpbridge.cli.views import visible

# Nothing is wrapped at this width.
WIDEST: Final = 1_000_000

# No backgrounds: they leave blanks behind, and suit either light terminals or dark ones.
_THEME: Final = Theme({"markdown.code": "cyan", "markdown.h2": "bold", "markdown.hr": "dim"})

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
    """Return something of rich's as lines with colours; none of them where NO_COLOR is set."""
    return "".join(f"{row}\n" for row in rows(what, width))


def rows(what: RenderableType, width: int = WIDEST) -> list[str]:
    """Return something of rich's as rows with colours, harmless, and without blanks at their ends.

    What steers a terminal is spelt out here once more, for a renderer may have put it together, and
    no link is left that shows one place and leads to another.
    """
    console = Console(
        file=io.StringIO(), force_terminal=True, width=width, legacy_windows=False, theme=_THEME
    )
    options = console.options.update(no_wrap=width == WIDEST, overflow="fold")
    system = None if os.environ.get("NO_COLOR") else ColorSystem.STANDARD
    return [_row(line, system) for line in console.render_lines(what, options, pad=False)]


def _row(line: list[Segment], system: ColorSystem | None) -> str:
    segments = [(s.text, s.style) for s in line if not s.control]
    while segments and not segments[-1][0].strip():
        segments.pop()
    if segments:
        segments[-1] = (segments[-1][0].rstrip(), segments[-1][1])
    return "".join(_segment(text, style, system) for text, style in segments)


def _segment(text: str, style: Style | None, system: ColorSystem | None) -> str:
    text = visible(text.replace("\n", " ").replace("\t", " "))
    if style is None or system is None:
        return text
    return style.update_link(None).render(text, color_system=system)


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
