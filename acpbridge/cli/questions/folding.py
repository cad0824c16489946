"""A long question on a terminal: what matters of it at a glance, and that there is more. Pure.

The rows that are ours stay, as do the beginning and the end of what the agent gave; what lies
between is counted. Nothing is allowed before all of it was shown: `asking` sees to that.
"""

import re
from collections.abc import Iterator
from typing import Final

from acpbridge.cli.questions.pieces import INDENT

# Of one passage so many rows stay; it is folded only if that spares more than a few.
FIRST: Final = 24
LAST: Final = 8
SPARED: Final = 8

# However many passages there are. Rows.
MOST: Final = 400

# What begins a row of ours; no text of an agent stands there.
_OURS = re.compile(
    r"permission |  (?:WARNING|agent|session|started|works in|tool|title|change|expires|options) "
    r"|  options$|    \d+\) "
)


def folded(text: str) -> tuple[str, int]:
    """Return a question as it fits on a terminal, and how many of its rows are left out.

    Args:
        text: rendered, and wrapped to the width of the terminal.
    """
    rows: list[str] = []
    hidden = 0
    for passage in _passages(text.split("\n")):
        short, left_out = _shortened(passage, FIRST, LAST)
        rows += short
        hidden += left_out
    if len(rows) > MOST:
        # So many passages: what it is asked for, and what can be answered, stay.
        rows, left_out = _shortened(rows, MOST // 2, MOST // 2)
        hidden += left_out
    return "\n".join(rows), hidden


def _passages(rows: list[str]) -> Iterator[list[str]]:
    """Return the rows in groups: each of ours alone, and what stands between two of them."""
    group: list[str] = []
    for row in rows:
        if _OURS.match(row):
            if group:
                yield group
            yield [row]
            group = []
        else:
            group.append(row)
    if group:
        yield group


def _shortened(rows: list[str], first: int, last: int) -> tuple[list[str], int]:
    left_out = len(rows) - first - last
    if left_out <= SPARED:
        return rows, 0
    mark = f"{INDENT}… {left_out} rows are not shown here; v shows all of it"
    return [*rows[:first], mark, *rows[-last:]], left_out
