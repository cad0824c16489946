"""Colour for a question on a terminal: what would be removed, what added, what to beware of.

Slow to import, so only where somebody looks. The text itself is never changed.
"""

import io
import os
from functools import cache
from typing import Final

from rich.color import ColorSystem
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.theme import Theme

from acpbridge.cli.question import MARGIN, WRAPPED
from acpbridge.cli.views import visible

# Nothing is wrapped at this width.
WIDEST: Final = 1_000_000

# No backgrounds: they leave blanks behind, and suit either light terminals or dark ones.
_THEME: Final = Theme({"markdown.code": "cyan", "markdown.h2": "bold", "markdown.hr": "dim"})

# The first that a line begins with, or holds, counts.
_BY_START = ((f"{MARGIN}-", "red"), (f"{MARGIN}+", "green"), ("permission ", "bold yellow"))
_BY_PART = (("WARNING", "bold red"), ("  ! ", "bold red"))


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
    """Return a question with colours, for `Prompt.show`: each line in that of what it says.

    The text is harmless already, and stays as it is; a question may have very many lines.
    """
    if os.environ.get("NO_COLOR"):
        return f"{text}\n"
    out, style = [], ""
    for line in text.split("\n"):
        # What goes on from the line before has its colour.
        style = style if line.startswith(WRAPPED) else _style(line)
        out.append(_named(style).render(line) if style else line)
    return "\n".join(out) + "\n"


@cache
def _named(style: str) -> Style:
    return Style.parse(style)


def _style(line: str) -> str:
    for start, style in _BY_START:
        if line.startswith(start):
            return style
    return next((style for part, style in _BY_PART if part in line), "")
