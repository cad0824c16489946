"""What a tool call is given and would do, as lines: input, changes, texts, in full. Pure.

Everything is escaped, line by line, and stands behind a margin where the agent chose where a line
ends, so that no text of an agent can pass for a row of ours. Above is the question, of which this
is the body.
"""

import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, Final

from acpbridge.model.display import escape

INDENT: Final = "    "

# Before every line of the agent's own text, so that none can pass for one of ours.
MARGIN: Final = INDENT + "| "

# Beyond this a difference is not looked for, for the search grows with the square: the old text
# goes, the new one comes. Lines of both.
DIFF_LIMIT: Final = 2_000

# A value that takes more than this is spread over lines, as it is easier to read. Characters.
LONG_VALUE: Final = 120

# A value that is nested deeper stays on one line: every line of it would be mostly blanks, and a
# megabyte of input would become hundreds. Levels.
DEEPEST: Final = 20

# Blank lines in a row that are shown as they are. A payload cannot be pushed out of sight by them.
MOST_BLANK: Final = 8

# As a person knows it from other tools that show changes.
NO_LINE_END: Final = "(no line end)"

_COMMAND_NAMES: Final = ("command", "cmd", "argv", "args", "script")


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
    yield from _margined((escape(line) for line in text.split("\n")), blank="")


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
    shown = (f"{line[:1]}{escape(line[1:])}" for line in changes)
    yield from _margined(shown, blank="+")


def _margined(lines: Iterable[str], blank: str) -> Iterator[str]:
    """Return harmless lines behind the margin; many blank ones hide nothing that follows."""
    for line, run in groupby(lines):
        count = len(list(run))
        if count > MOST_BLANK and line.strip(" ") == blank:
            yield f"{MARGIN}{blank}⟨{count} blank lines⟩"
        else:
            yield from (f"{MARGIN}{line}" for _ in range(count))


def _text_lines(text: str) -> list[str]:
    """Return the lines of a text; that its last one has no end is a line of its own."""
    lines = text.split("\n")
    if lines[-1]:
        return [*lines, NO_LINE_END]
    return lines[:-1]


def word(value: Any) -> str:
    """Return a short value of anybody's, harmless; what is empty can be seen."""
    return escape(str(value)) if value not in (None, "") else "-"
