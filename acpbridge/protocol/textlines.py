"""A part of a text, by lines: only a line feed ends one, and nothing of it is changed. Pure.

Above is the runtime that serves `fs/read_text_file`.
"""

from typing import Final

# Characters in which line ends are counted at once: a list of ten million lines would take a
# hundred times the memory of the text.
_PIECE: Final = 65536


def part(text: str, line: int | None, limit: int | None) -> str:
    """Return at most `limit` lines from the line with that number on, the first being 1."""
    start = _after(text, 0, max(0, (line or 1) - 1))
    end = len(text) if limit is None else _after(text, start, limit)
    return text[start:end]


def _after(text: str, at: int, lines: int) -> int:
    """Return where so many lines from `at` on are over, the end of the text if it has fewer."""
    while lines and at < len(text):
        end = at + _PIECE
        found = text.count("\n", at, end)
        if found < lines:
            lines, at = lines - found, min(end, len(text))
            continue
        for _ in range(lines):
            at = text.index("\n", at) + 1
        return at
    return at
