"""A terminal small enough to be believed: what a person would see of what was sent.

It knows what our screen sends and nothing else: anything unknown is an error of the test.
"""

import re

from rich.cells import cell_len

_TOKEN = re.compile(r"\x1b\[(?P<args>[?0-9;]*)(?P<op>[A-Za-z])|(?P<char>.)", re.DOTALL)


class Emulator:
    """Rows, a cursor, and the lines that were scrolled out above."""

    def __init__(self, columns: int, rows: int) -> None:
        self.columns = columns
        self.height = rows
        self.history: list[str] = []
        self.rows = [""] * rows
        self.row = 0
        self.column = 0
        self.visible = True
        self.pasting = False
        self._wraps = True
        self._rest = ""

    def feed(self, text: str) -> None:
        text = self._rest + text
        cut = text.rfind("\x1b")
        self._rest = ""
        if cut >= 0 and not _TOKEN.match(text, cut):
            text, self._rest = text[:cut], text[cut:]
        for found in _TOKEN.finditer(text):
            if found["op"]:
                self._control(found["args"], found["op"])
            else:
                self._put(found["char"])

    @property
    def hidden(self) -> bool:
        """Whether the cursor cannot be seen."""
        return not self.visible

    @property
    def lines(self) -> list[str]:
        """Everything that can be seen or scrolled back to, without blanks at the ends."""
        lines = [line.rstrip() for line in (*self.history, *self.rows)]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def _put(self, char: str) -> None:
        if char == "\n":  # the kernel returns the carriage
            self.column = 0
            self._down()
        elif char == "\r":
            self.column = 0
        elif char == "\x07":
            pass
        else:
            assert char >= " ", repr(char)
            self._print(char)

    def _print(self, char: str) -> None:
        width = cell_len(char)
        if self.column + width > self.columns:
            if not self._wraps:
                return
            self.column = 0
            self._down()
        line = self.rows[self.row]
        pad = " " * (self.column - cell_len(line))
        # Cells of wide characters are not told apart: only ends of lines are written here.
        head = _cells(line, self.column) + pad
        self.rows[self.row] = head + char + line[len(head) + 1 :]
        self.column += width

    def _down(self) -> None:
        if self.row + 1 < self.height:
            self.row += 1
        else:
            self.history.append(self.rows.pop(0))
            self.rows.append("")

    def _control(self, args: str, op: str) -> None:
        number = int(args) if args.isdecimal() else 1
        if op == "A":
            self.row = max(self.row - number, 0)
        elif op == "B":
            self.row = min(self.row + number, self.height - 1)
        elif op == "C":
            self.column = min(self.column + number, self.columns - 1)
        elif op == "K":
            assert args == "2"
            self.rows[self.row] = ""
        elif op in "hl":
            self._mode(args, on=op == "h")
        else:
            assert op == "m", (args, op)

    def _mode(self, args: str, *, on: bool) -> None:
        if args == "?25":
            self.visible = on
        elif args == "?2004":
            self.pasting = on
        else:
            assert args == "?7", args
            self._wraps = on


def _cells(text: str, width: int) -> str:
    out = ""
    for char in text:
        if cell_len(out + char) > width:
            break
        out += char
    return out
