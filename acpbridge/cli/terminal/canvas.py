"""What to send to a terminal so that a few rows below the scrollback change. Pure.

It remembers what it drew, so that the next frame erases exactly that: as many rows as they take
now, for a terminal that became narrower has wrapped them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

HIDE: Final = "\x1b[?25l"
SHOW: Final = "\x1b[?25h"

# Pasted text is marked as such while somebody can type, so that its line ends do nothing.
PASTE_ON: Final = "\x1b[?2004h"
PASTE_OFF: Final = "\x1b[?2004l"

RESET: Final = "\x1b[0m"

# A row that a terminal finds wider than we do (some emoji) is cut off, not wrapped.
WRAP_OFF: Final = "\x1b[?7l"
WRAP_ON: Final = "\x1b[?7h"

# How the cursor is: hidden below rows that change, or where somebody types; "" is as it was.
DRAWING: Final = "drawing"
TYPING: Final = "typing"
_ENTER: Final = {"": "", DRAWING: HIDE, TYPING: PASTE_ON}
_LEAVE: Final = {"": "", DRAWING: SHOW, TYPING: PASTE_OFF}


@dataclass(frozen=True, slots=True)
class Row:
    """One row: what is sent, and how many columns that takes. Never more than there are."""

    text: str
    cells: int


class Canvas:
    """The rows that are on the terminal below what stays."""

    def __init__(self) -> None:
        self._drawn: Sequence[Row] = ()
        self._cursor: tuple[int, int] | None = None
        self._mode = ""

    def frame(
        self,
        stays: str,
        rows: Sequence[Row],
        width: int,
        cursor: tuple[int, int] | None = None,
    ) -> str:
        """Return what replaces the rows by others, with lines that stay in between.

        Args:
            stays: whole lines.
            rows: the new rows.
            width: columns of the terminal now.
            cursor: row and column where somebody types, None if nobody does.
        """
        if not stays and (tuple(rows), cursor) == (tuple(self._drawn), self._cursor):
            return ""
        out = self._erase(width) + stays
        if rows:
            out += WRAP_OFF + "\n".join(row.text + RESET for row in rows) + WRAP_ON
        self._drawn, self._cursor = tuple(rows), cursor
        return out + self._place(cursor)

    def close(self, stays: str, width: int) -> str:
        """Return what takes the rows away and makes the terminal as it was."""
        out = self._erase(width) + stays
        self._drawn, self._cursor = (), None
        return out + self._turn("")

    def leave(self) -> str:
        """Return what lets the rows stay as they are, and makes the terminal as it was."""
        out = "\n" if self._drawn else ""
        self._drawn, self._cursor = (), None
        return out + self._turn("")

    def _erase(self, width: int) -> str:
        """Return what clears the rows one by one, from the last up, and ends at the first.

        Not all below at once: where the first row is the screen's first, that makes a screen that
        was cleared, and some terminals keep those in their scrollback.
        """
        if not self._drawn:
            return ""
        rows = [max(1, -(-row.cells // width)) for row in self._drawn]
        down = 0
        if self._cursor is not None:
            row, column = self._cursor
            down = sum(rows[row:]) - 1 - max(0, column - 1) // width
        below = f"\x1b[{down}B" if down else ""
        return below + "\r\x1b[2K" + "\x1b[1A\x1b[2K" * (sum(rows) - 1)

    def _place(self, cursor: tuple[int, int] | None) -> str:
        if cursor is None:
            return self._turn(DRAWING if self._drawn else "")
        row, column = cursor
        up = len(self._drawn) - 1 - row
        out = "\r" + (f"\x1b[{up}A" if up else "") + (f"\x1b[{column}C" if column else "")
        return out + self._turn(TYPING)

    def _turn(self, mode: str) -> str:
        """Return what leads from one mode of the cursor to another."""
        before, self._mode = self._mode, mode
        return "" if before == mode else _LEAVE[before] + _ENTER[mode]
