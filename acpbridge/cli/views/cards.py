"""What an agent does besides talking, as rows: tool calls, changes of files, plans, usage. Pure.

A row of ours begins at the left edge with a mark. Whatever the agent chose in it is escaped and cut
to the row, or stands indented below it, so that it can look like no other row.
"""

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeGuard

from acpbridge.cli.moments import seconds, whole_seconds
from acpbridge.cli.output import styled
from acpbridge.cli.questions.pieces import DIFF_LIMIT, MARGIN
from acpbridge.cli.terminal.cells import ELLIPSIS, cut, cut_left, width_of
from acpbridge.model.display import escape

# Lines of a tool's output that are shown; of one that failed; of a change. The log has the rest.
OUTPUT: Final = 4
FAILURE: Final = 12
CHANGE: Final = 30

# Entries of a plan in the region that is redrawn.
PLAN: Final = 6

# Characters of any value that are looked at for a row; it is drawn again and again.
GLANCE: Final = 2_000

# No model has read so many tokens.
MOST: Final = 10**15

RUNNING: Final = "▸"
_TOOL_MARKS: Final = {"completed": ("✓", "green"), "failed": ("✗", "red")}
_PLAN_MARKS: Final = {"completed": "☑", "in_progress": "▸", "pending": "☐"}
_NO_MARK: Final = "·"

_CHANGE_COLOURS: Final = {"+": "green", "-": "red", "@": "cyan"}

Object = Mapping[str, Any]


@dataclass
class Tool:
    """A tool call, as its updates left it.

    Attributes:
        began: when it was announced, in seconds of whatever clock.
        fields: of the call, the last value of each.
    """

    began: float
    fields: dict[str, Any] = field(default_factory=dict)
    _name: str = ""

    def patch(self, update: Object) -> None:
        """Take an update; what it leaves out stays."""
        self.fields.update({k: v for k, v in update.items() if v is not None})
        title = _glance(self.fields.get("title") or self.fields.get("toolCallId"))
        self._name = f"{_glance(self.fields.get('kind') or 'tool')}  {title}"

    @property
    def over(self) -> bool:
        """Whether it was completed, or failed."""
        return self.fields.get("status") in ("completed", "failed")

    def name(self) -> str:
        """Return kind and title on one line."""
        return self._name


class Tools:
    """The tool calls of a turn that are not over."""

    def __init__(self) -> None:
        self._open: dict[str, Tool] = {}
        self._over: set[str] = set()

    def take(self, update: Object, now: float) -> Tool | None:
        """Take an update of a call; return the call if that was its end."""
        name = str(update.get("toolCallId"))
        if name in self._over and update.get("sessionUpdate") != "tool_call":
            return None  # it came late: the call was shown as it ended
        tool = self._open.setdefault(name, Tool(now))
        tool.patch(update)
        if not tool.over:
            return None
        self._over.add(name)
        return self._open.pop(name)

    def open(self) -> list[Tool]:
        """Return the calls that are not over, oldest first."""
        return list(self._open.values())

    def forget(self) -> None:
        """Let go of those that were left."""
        self._open.clear()


def row(mark: str, text: str, width: int, tail: str = "", **style: Any) -> str:
    """Return one row of ours: a mark in colour, a text that is cut, and a dim tail that is not."""
    tail = cut(f"  {tail}", max(width - 3, 0)) if tail else ""
    room = max(width - width_of(mark) - 1 - width_of(tail), 1)
    return f"{styled(mark, **style)} {cut(text, room)}{styled(tail, dim=True) if tail else ''}"


def running(tool: Tool, now: float, width: int) -> str:
    """Return the row of a call that is not over."""
    return row(RUNNING, tool.name(), width, whole_seconds(max(0.0, now - tool.began)), fg="cyan")


def finished(tool: Tool, now: float, width: int) -> list[str]:
    """Return the rows of a call that is over, or was left unfinished."""
    status = str(tool.fields.get("status"))
    mark, colour = _TOOL_MARKS.get(status, ("◌", "yellow"))
    tail = seconds(max(0.0, now - tool.began)) + ("" if tool.over else ", not finished")
    out = [row(mark, tool.name(), width, tail, fg=colour)]
    for block in _list(tool.fields.get("content")):
        out += _block(block, width, status)
    return out


def _block(block: Any, width: int, status: str) -> list[str]:
    if not isinstance(block, Mapping):
        return []
    if block.get("type") == "diff":
        # One that failed, or was denied, has changed nothing: nothing may look as if it had.
        return change(block, width) if status == "completed" else []
    inner = block.get("content")
    text = inner.get("text") if isinstance(inner, Mapping) else None
    if not isinstance(text, str) or not text.strip():
        return []
    limit = FAILURE if status == "failed" else OUTPUT
    return _bounded(text.strip("\n").split("\n"), limit, width)


def _bounded(lines: Sequence[str], limit: int, width: int) -> list[str]:
    """Return the last lines of an output: what it came to stands at its end."""
    left_out = max(len(lines) - limit, 0)
    out = [_below(f"… {left_out} more {_lines(left_out)}", width)] if left_out else []
    return out + [_below(_flat(line), width) for line in lines[left_out:]]


def _below(text: str, width: int, **style: Any) -> str:
    return styled(cut(MARGIN + text, width), **(style or {"dim": True}))


def _lines(count: int) -> str:
    return "line" if count == 1 else "lines"


def _flat(line: str) -> str:
    return _glance(line.rstrip("\r").expandtabs(4))


def _glance(value: Any) -> str:
    """Return of a value what a row can hold, as one harmless line: it may be very long."""
    text = str(value)
    return escape(text[:GLANCE]) + (ELLIPSIS if len(text) > GLANCE else "")


def change(block: Object, width: int) -> list[str]:
    """Return a change of a file: its path, how much it is, and its first lines."""
    old, new = block.get("oldText"), block.get("newText")
    before = old.split("\n") if isinstance(old, str) and old else []
    after = new.split("\n") if isinstance(new, str) and new else []
    lines = list(_difference(before, after))
    added = sum(line.startswith("+") for line in lines)
    gone = sum(line.startswith("-") for line in lines)
    path = str(block.get("path"))
    path = escape(path[-GLANCE:])  # its end tells more than its beginning
    tail = f"+{added} -{gone}" if before else f"new, {added} {_lines(added)}"
    room = max(width - len(MARGIN) - len(tail) - 2, 1)
    out = [_below(f"{cut_left(path, room)}  {tail}", width, bold=True)]
    for line in lines[:CHANGE]:
        colour = _CHANGE_COLOURS.get(line[:1])
        style = {"fg": colour} if colour else {"dim": True}
        out.append(_below(line[:1] + _flat(line[1:]), width, **style))
    if len(lines) > CHANGE:
        more = len(lines) - CHANGE
        out.append(_below(f"… {more} more {_lines(more)}", width))
    return out


def _difference(before: list[str], after: list[str]) -> Iterator[str]:
    before = before[:-1] if before and not before[-1] else before
    after = after[:-1] if after and not after[-1] else after
    if len(before) + len(after) > DIFF_LIMIT or not before:
        yield from (*("-" + line for line in before), *("+" + line for line in after))
        return
    yield from list(difflib.unified_diff(before, after, lineterm=""))[2:]


def plan_rows(entries: Sequence[Object], width: int, limit: int | None = None) -> list[str]:
    """Return a plan as a checklist; with a limit, the part of it that is being worked on."""
    done = sum(entry.get("status") == "completed" for entry in entries)
    shown, left_out = entries, 0
    if limit is not None and len(entries) > limit:
        start = min(max(_current(entries) - 1, 0), len(entries) - limit)
        shown, left_out = entries[start : start + limit], len(entries) - limit
    tail = f"{done} of {len(entries)} done" + (f", {left_out} not shown" if left_out else "")
    return [row("≡", "plan", width, tail, fg="blue"), *(_entry(e, width) for e in shown)]


def _current(entries: Sequence[Object]) -> int:
    open_ones = [i for i, entry in enumerate(entries) if entry.get("status") != "completed"]
    return open_ones[0] if open_ones else len(entries)


def _entry(entry: Object, width: int) -> str:
    status = str(entry.get("status"))
    mark = _PLAN_MARKS.get(status, _NO_MARK)
    text = cut(f"  {mark} {_glance(entry.get('content'))}", width)
    return styled(text, dim=True) if status == "completed" else text


def entries_of(value: Any) -> list[Object]:
    """Return the entries of a plan that are any."""
    return [entry for entry in _list(value) if isinstance(entry, Mapping)]


def usage_words(context: Object, usage: Any) -> list[str]:
    """Return what an agent told of its context, its cost and its tokens; nothing is guessed."""
    out = []
    used, size = context.get("used"), context.get("size")
    if _counts(used) and _counts(size) and size > 0:
        out.append(f"context {_count(used)} of {_count(size)} ({100 * used // size}%)")
    cost = context.get("cost")
    amount = cost.get("amount") if isinstance(cost, Mapping) else None
    if isinstance(cost, Mapping) and (_counts(amount) or isinstance(amount, float)):
        out.append(f"cost {amount:.2f} {_glance(cost.get('currency', ''))}".rstrip())
    if isinstance(usage, Mapping):
        told = [(usage.get(f"{name}Tokens"), name) for name in ("input", "output")]
        words = [f"{_count(n)} {name}" for n, name in told if _counts(n)]
        out += [f"tokens {', '.join(words)}"] if words else []
    return out


def _counts(value: Any) -> TypeGuard[int]:
    """Tell whether it is a number of anything that there could be: others cannot be calculated."""
    return isinstance(value, int) and abs(value) < MOST


def _count(number: int) -> str:
    if abs(number) < 10_000:
        return str(number)
    return f"{number / 1e6:.1f}M" if abs(number) >= 1_000_000 else f"{number // 1000}k"


def as_text(value: Any) -> str:
    """Return any value of the agent's as one harmless line."""
    return escape(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
