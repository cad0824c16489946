"""Lines that are too long for the terminal, with a mark before whatever goes on. Pure.

What a terminal wraps by itself goes on at its left edge, where rows of ours begin: a long text of
an agent could then look like one. Above are questions and views.
"""

from collections.abc import Iterable, Iterator
from typing import Final

# Before what is left of a line that was too long for the terminal.
WRAPPED: Final = "    : "

# A terminal that is narrower than this is written to as if it were not.
NARROWEST: Final = 20


# Latin, Greek, Cyrillic: one column each, everywhere.
_NARROW_END: Final = "\u0530"


def wrapped(lines: Iterable[str], width: int) -> list[str]:
    """Return lines none of which is wider than a terminal; what is too long goes on indented."""
    width = max(width, NARROWEST)
    out: list[str] = []
    for line in lines:
        if line.isascii() and len(line) <= width:
            out.append(line)
        else:
            first, *rest = _pieces(line, width, width - len(WRAPPED))
            out += [first, *(WRAPPED + piece for piece in rest)]
    return out


def cells(text: str) -> int:
    """Return the columns that a text may take; none takes more, whatever a terminal draws.

    Terminals disagree on what lies beyond these alphabets, and it costs nothing to leave room.
    """
    return len(text) if text.isascii() else sum(map(_cells, text))


def _cells(char: str) -> int:
    return 1 if char < _NARROW_END else 2


def _pieces(line: str, first: int, others: int) -> Iterator[str]:
    """Cut a line by columns, every character once: an agent may send a megabyte of them."""
    if line.isascii():
        yield line[:first]
        yield from (line[at : at + others] for at in range(first, len(line), others))
        return
    room, start, used = first, 0, 0
    for at, char in enumerate(line):
        size = _cells(char)
        if used + size > room:
            yield line[start:at]
            room, start, used = others, at, 0
        used += size
    yield line[start:]


def marked(text: str, width: int) -> str:
    """Return a text with its long lines cut for a terminal, 0 columns for none, and marked."""
    return "\n".join(wrapped(text.split("\n"), width)) if width > 0 else text


def flowing(text: str, used: int, width: int) -> tuple[str, int]:
    """Return words that come in pieces, cut and marked, and the columns of the line they end in.

    Args:
        text: a piece without line ends.
        used: columns of its line before it.
        width: of the terminal, 0 for none.
    """
    width = max(width, NARROWEST) if width else 0
    if not width or used + cells(text) <= width:
        return text, used + (cells(text) if width else 0)
    first, *rest = _pieces(text, max(width - used, 0), width - len(WRAPPED))
    last = rest[-1] if rest else ""
    return "\n".join([first, *(WRAPPED + piece for piece in rest)]), len(WRAPPED) + cells(last)
