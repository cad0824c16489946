"""How many columns a text takes, and how to make it fit. Pure.

A row of somebody else's words is cut, or wrapped with an indent, so that none of it ever stands
where a row of ours begins.
"""

import re
from typing import Final

from rich.cells import cell_len, chop_cells, set_cell_size

ELLIPSIS: Final = "…"

_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")


def width_of(text: str) -> int:
    """Return the columns of a row; colours take none."""
    return cell_len(_STYLE.sub("", text))


def cut(text: str, width: int, mark: str = ELLIPSIS) -> str:
    """Return a text without colours in at most `width` columns, marked where it was cut."""
    if cell_len(text) <= width:
        return text
    if width <= cell_len(mark):
        return mark[:width]
    return set_cell_size(text, width - cell_len(mark)).rstrip() + mark


def wrap(text: str, width: int, indent: str) -> list[str]:
    """Return a text as rows of at most `width` columns, all but the first indented."""
    room = max(width - len(indent), 1)
    first, rest = _split(text, max(width, 1))
    out = [first]
    while rest:
        row, rest = _split(rest, room)
        out.append(indent + row)
    return out


def hang(line: str, width: int) -> list[str]:
    """Return a line of ours as rows; the others are indented more than it is."""
    return wrap(line, width, " " * (len(line) - len(line.lstrip(" ")) + 2))


def _split(text: str, width: int) -> tuple[str, str]:
    """Return what fits, at a blank if there is one in its second half, and what does not."""
    if cell_len(text) <= width:
        return text, ""
    head = chop_cells(text, width)[0] or text[0]
    blank = head.rfind(" ", len(head) // 2)
    if text[len(head)] == " ":
        blank = len(head)
    if blank <= 0:
        return head, text[len(head) :]
    return text[:blank], text[blank + 1 :]
