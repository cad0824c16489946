"""What a tool call is given and would do, as lines: input, changes, texts, in full. Pure.

Everything is escaped, line by line, and stands behind a margin where the agent chose where a line
ends, so that no text of an agent can pass for a row of ours. Above is the question, of which this
is the body.
"""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from acpbridge.model.display import escape

INDENT: Final = "    "

# Before every line of the agent's own text, so that none can pass for one of ours.
MARGIN: Final = INDENT + "| "

# Before what is left of a line that was too long for the terminal.
WRAPPED: Final = INDENT + ": "

# A terminal that is narrower than this is written to as if it were not.
NARROWEST: Final = 20

# Beyond this a difference is not looked for, for the search grows with the square: the old text
# goes, the new one comes. Lines of both.
DIFF_LIMIT: Final = 2_000

# A value that takes more than this is spread over lines, as it is easier to read. Characters.
LONG_VALUE: Final = 120

# A value that is nested deeper stays on one line: every line of it would be mostly blanks, and a
# megabyte of input would become hundreds. Levels.
DEEPEST: Final = 20

# As a person knows it from other tools that show changes.
NO_LINE_END: Final = "(no line end)"

_COMMAND_NAMES: Final = ("command", "cmd", "argv", "args", "script")


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


def _pieces(line: str, first: int, others: int) -> Iterator[str]:
    """Cut a line by columns, every character once: an agent may send a megabyte of them."""
    if line.isascii():
        yield line[:first]
        yield from (line[at : at + others] for at in range(first, len(line), others))
        return
    from rich.cells import get_character_cell_size  # not needed without a terminal

    room, start, used = first, 0, 0
    for at, char in enumerate(line):
        cells = 1 if char.isascii() else get_character_cell_size(char)
        if used + cells > room:
            yield line[start:at]
            room, start, used = others, at, 0
        used += cells
    yield line[start:]


def input_lines(value: Any) -> Iterator[str]:
    """Say what the tool is given: the command first, then everything else."""
    if value is None:
        yield "  input    not given by the agent"
        return
    if not isinstance(value, Mapping):
        yield from _named("input", value)
        return
    names = [name for name in _COMMAND_NAMES if name in value]
    for name in names:
        yield from _named(name, value[name])
    # The agent chose these names: they must not pass for rows of ours.
    for name in (name for name in value if name not in names):
        yield from _named(f"input.{name}", value[name])


def _named(name: str, value: Any) -> Iterator[str]:
    """Name a value on one line, or, where it has several, on lines of its own."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if not isinstance(value, str) and len(text) > LONG_VALUE and not _deeper(value, DEEPEST):
        text = json.dumps(value, ensure_ascii=False, indent=2)
    head = f"  {escape(name):<8}"
    split = text.splitlines()
    if len(split) <= 1 and text == "".join(split):
        yield f"{head} {escape(text)}"
        return
    yield head
    # Other line ends than "\n" are not line ends to a shell: they are spelt out.
    yield from (f"{MARGIN}{escape(line)}" for line in text.split("\n"))


def _deeper(value: Any, levels: int) -> bool:
    """Tell whether a value is nested in more than so many levels."""
    if not isinstance(value, dict | list):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_deeper(item, levels - 1) for item in inner)


def is_diff(block: Any) -> bool:
    """Tell whether a block of content is a change of a file."""
    return isinstance(block, Mapping) and block.get("type") == "diff"


def block_lines(block: Any) -> Iterator[str]:
    """Return a block of content in full: a change, a text, or whatever it is."""
    if is_diff(block):
        yield f"  change   {word(block.get('path'))}"
        yield from _diff_lines(block.get("oldText"), block.get("newText"))
        return
    if isinstance(block, Mapping) and block.get("type") == "terminal" and len(block) == 2:
        yield f"  terminal {word(block.get('terminalId'))}"
        return
    inner = block.get("content") if isinstance(block, Mapping) else None
    if isinstance(inner, Mapping) and isinstance(inner.get("text"), str):
        yield from _named("text", inner["text"])
    else:
        yield from _named("content", block)


def _diff_lines(old: Any, new: Any) -> Iterator[str]:
    before = _text_lines(old) if isinstance(old, str) else []
    after = _text_lines(new) if isinstance(new, str) else [json.dumps(new)]
    if not before:
        yield f"{INDENT}(a new file)"
    if len(before) + len(after) > DIFF_LIMIT or not before:
        changes: Iterable[str] = (*("-" + line for line in before), *("+" + line for line in after))
    else:
        changes = list(difflib.unified_diff(before, after, lineterm=""))[2:]
    yield from (f"{MARGIN}{line[:1]}{escape(line[1:])}" for line in changes)


def _text_lines(text: str) -> list[str]:
    """Return the lines of a text; that its last one has no end is a line of its own."""
    lines = text.split("\n")
    if lines[-1]:
        return [*lines, NO_LINE_END]
    return lines[:-1]


def word(value: Any) -> str:
    """Return a short value of anybody's, harmless; what is empty can be seen."""
    return escape(str(value)) if value not in (None, "") else "-"
