"""What rich draws, as rows for a terminal: in our colours, and harmless whatever was drawn.

Slow to import, so only where somebody looks.
"""

import io
from typing import Final

from rich.color import ColorSystem
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.theme import Theme

from acpbridge.cli.output import colourless
from acpbridge.model.display import visible

# No backgrounds: they leave blanks behind, and suit either light terminals or dark ones.
_THEME: Final = Theme({"markdown.code": "cyan", "markdown.h2": "bold", "markdown.hr": "dim"})


def rows(what: RenderableType, width: int) -> list[str]:
    """Return something of rich's as rows with colours, harmless, and without blanks at their ends.

    What steers a terminal is spelt out here once more, for a renderer may have put it together, and
    no link is left that shows one place and leads to another.
    """
    console = Console(
        file=io.StringIO(), force_terminal=True, width=width, legacy_windows=False, theme=_THEME
    )
    options = console.options.update(no_wrap=False, overflow="fold")
    system = None if colourless() else ColorSystem.STANDARD
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
