"""A terminal's size, and its modes while a screen has it: keys come one by one and are not echoed.

Below is termios and nothing of ours. Signals by key (Ctrl-C, Ctrl-Z) and flow control stay on.
"""

import os
import termios
from typing import Any, Final

# Where a terminal does not tell its size.
COLUMNS: Final = 80
ROWS: Final = 24

_LOCAL: Final = 3
_SPECIAL: Final = 6


class Tty:
    """The terminal of a run.

    Args:
        out: descriptor that is drawn on.
        keyboard: descriptor that keys come from; None where nobody can type.
    """

    def __init__(self, out: int, keyboard: int | None) -> None:
        self.out = out
        self.keyboard = keyboard
        self._before: list[Any] | None = None

    def size(self) -> tuple[int, int]:
        """Return columns and rows."""
        try:
            found = os.get_terminal_size(self.out)
        except OSError:
            return COLUMNS, ROWS
        return found.columns or COLUMNS, found.lines or ROWS

    def ours(self) -> bool:
        """Tell whether we are in the foreground: only then may modes be changed."""
        try:
            return os.tcgetpgrp(self.out) == os.getpgrp()
        except OSError:
            # Not our controlling terminal: nobody's job control stops us.
            return True

    def take(self) -> None:
        """Turn echo and line mode off; what was set at first is kept to be given back."""
        if not self.ours():
            return
        try:
            before = termios.tcgetattr(self.out)
            wanted = termios.tcgetattr(self.out)
            wanted[_LOCAL] &= ~(termios.ICANON | termios.ECHO)
            wanted[_SPECIAL][termios.VMIN] = 1
            wanted[_SPECIAL][termios.VTIME] = 0
            termios.tcsetattr(self.out, termios.TCSANOW, wanted)
        except termios.error:
            return
        self._before = self._before or before

    def give_back(self) -> None:
        """Set the modes as they were; at once, for output that is stopped must not hold us."""
        before, self._before = self._before, None
        if before is None or not self.ours():
            return
        try:
            termios.tcsetattr(self.out, termios.TCSANOW, before)
        except termios.error:
            return

    def forget_typed(self) -> None:
        """Drop what was typed and not read yet."""
        try:
            if self.keyboard is not None:
                termios.tcflush(self.keyboard, termios.TCIFLUSH)
        except termios.error:
            return
