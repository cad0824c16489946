"""How many columns a text takes, and how to make it fit. Pure.

A row of somebody else's words is cut, or wrapped with an indent, so that none of it ever stands
where a row of ours begins.
"""

import re
from typing import Final

from rich.cells import cell_len, chop_cells, set_cell_size

ELLIPSIS: Final = "…"

# Characters that are looked at for a column: more only where many of them take none.
PER_CELL: Final = 4

_STYLE: Final = re.compile(r"\x1b\[[0-9;]*m")


def width_of(text: str) -> int:
    """Return the columns of a row; colours take none."""
    return cell_len(_STYLE.sub("", text))


def cut(text: str, width: int, mark: str = ELLIPSIS) -> str:
    """Return a text without colours in at most `width` columns, marked where it was cut."""
    near = text[: max(width, 1) * PER_CELL]
    if len(near) == len(text) and cell_len(text) <= width:
        return text
    if width <= cell_len(mark):
        return mark[:width]
    return set_cell_size(near, width - cell_len(mark)).rstrip() + mark


def cut_left(text: str, width: int, mark: str = ELLIPSIS) -> str:
    """Return the end of a text in at most `width` columns, marked where it was cut."""
    near = text[-max(width, 1) * PER_CELL :]
    if len(near) == len(text) and cell_len(text) <= width:
        return text
    room = max(width - cell_len(mark), 0)
    while near and cell_len(near) > room:
        near = near[1:]
    return mark + near


def wrap(text: str, width: int, indent: str) -> list[str]:
    """Return a text as rows of at most `width` columns, all but the first indented."""
    room = max(width - len(indent), 1)
    row, at = _piece(text, 0, max(width, 1))
    out = [row]
    while at < len(text):
        row, at = _piece(text, at, room)
        out.append(indent + row)
    return out


def hang(line: str, width: int) -> list[str]:
    """Return a line of ours as rows; the others are indented more than it is."""
    return wrap(line, width, " " * (len(line) - len(line.lstrip(" ")) + 2))


def _piece(text: str, start: int, width: int) -> tuple[str, int]:
    """Return what fits from a place on, up to a blank if there is one late in it, and the next."""
    # Only so much is measured: somebody's line may have a megabyte, and a row has eighty columns.
    near = text[start : start + width * PER_CELL]
    if cell_len(near) <= width:
        return near, start + len(near)
    head = chop_cells(near, width)[0] or near[0]
    blank = len(head) if near[len(head)] == " " else head.rfind(" ", len(head) // 2)
    if blank <= 0:
        return head, start + len(head)
    return near[:blank], start + blank + 1
