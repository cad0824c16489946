"""Colour for a question on a terminal: what would be removed, what added, what to beware of.

Slow to import, so only where somebody looks. The text itself is never changed.
"""

from rich.console import Console
from rich.text import Text

from acpbridge.cli.question import MARGIN

# The first that a line begins with, or holds, counts.
_BY_START = ((f"{MARGIN}-", "red"), (f"{MARGIN}+", "green"), ("permission ", "bold yellow"))
_BY_PART = (("WARNING", "bold red"), ("  ! ", "bold red"))


def painted(text: str) -> Text:
    """Return the lines of a question, each in the colour of what it says."""
    out = Text()
    for line in text.splitlines(keepends=True):
        out.append(line, _style(line))
    return out


def show(text: str) -> None:
    """Show a question on stderr; lines are neither cut nor wrapped, and NO_COLOR is honoured."""
    Console(stderr=True, highlight=False).print(painted(text), soft_wrap=True)


def _style(line: str) -> str:
    for start, style in _BY_START:
        if line.startswith(start):
            return style
    return next((style for part, style in _BY_PART if part in line), "")
