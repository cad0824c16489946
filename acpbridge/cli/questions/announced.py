"""What was first said of a call and is asked otherwise now (row 9): each line is marked as past.

Above is the question; what it shows without such a mark is what would happen.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from acpbridge.cli.questions.pieces import INDENT, block_lines, input_lines, word

# Before every line of what was announced and is not asked.
WAS: Final = INDENT + "was |"


def was_lines(subject: Mapping[str, Any]) -> Iterator[str]:
    """Return what was announced, for what has changed since."""
    announced = subject.get("announced")
    for name, value in announced.items() if isinstance(announced, Mapping) else ():
        for line in _lines(str(name), value):
            yield f"{WAS}{line}"


def _lines(name: str, value: Any) -> Iterator[str]:
    if name == "rawInput":
        yield from input_lines(value)
    elif name == "locations" and isinstance(value, list):
        yield from (
            f"  path     {word(item.get('path') if isinstance(item, Mapping) else item)}"
            for item in value
        )
    elif name == "content" and isinstance(value, list):
        for block in value:
            yield from block_lines(block)
    else:
        yield f"  {word(name):<8} {word(value)}"
