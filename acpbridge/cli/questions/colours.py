"""Colours for a question on a terminal: what would be removed, what added, what to beware of.

Slow to import, so only where somebody looks. The text itself is never changed.
"""

from functools import cache

from rich.style import Style

from acpbridge.cli.output import colourless
from acpbridge.cli.questions.pieces import MARGIN
from acpbridge.cli.terminal.wrapping import WRAPPED

# The first that a line begins with, or holds, counts.
_BY_START = ((f"{MARGIN}-", "red"), (f"{MARGIN}+", "green"), ("permission ", "bold yellow"))
_BY_PART = (("WARNING", "bold red"), ("  ! ", "bold red"))


def coloured(text: str) -> str:
    """Return a question with colours, for `Prompt.show`: each line in that of what it says.

    The text is harmless already, and stays as it is; a question may have very many lines.
    """
    if colourless():
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
