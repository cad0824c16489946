"""Families of sessions and lists of runs as people see them. Pure; standard library only.

Every value that an agent or a file had a say in is escaped, and no row is wider than the terminal:
what is too long goes on below, still behind the lines of its branch.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from acpbridge.cli import tables
from acpbridge.cli.moments import NOTHING, age, whole_seconds
from acpbridge.cli.tables import Row, shown
from acpbridge.cli.terminal.wrapping import cells, wrapped
from acpbridge.model.display import clip, escape

# Of what was asked, in a list; `runs --json` has all that is kept. Characters.
TASK: Final = 60

# Plain characters: of any other nobody knows how many columns a terminal gives it.
_BRANCH: Final = ("|- ", "|  ")
_LAST: Final = ("`- ", "   ")

# A run that is not over, and one that ended well; any other is worth its reason.
_QUIET: Final = frozenset({"queued", "running", "blocked", "completed"})


def tree_text(families: Sequence[Row], at: str, width: int = 0) -> str:
    """Return families, each session on a row of its own below the one that started it."""
    if not families:
        return "no family of sessions"
    out: list[str] = []
    for family in families:
        out += _node(family, at, width, "", "")
    return "\n".join(out)


def _node(row: Row, at: str, width: int, first: str, others: str) -> Iterator[str]:
    room = width - cells(others) if width else 0
    text = session_line(row, at)
    head, *more = wrapped([text], room) if room > 0 else [text]
    yield first + head
    children: Sequence[Row] = row.get("children") or []
    bar = _BRANCH[1] if children else "   "
    yield from (others + bar + line.lstrip(" :") for line in _rewrapped(more, room - len(bar)))
    for child in children:
        mark, under = _LAST if child is children[-1] else _BRANCH
        yield from _node(child, at, width, others + mark, others + under)


def _rewrapped(lines: Sequence[str], room: int) -> list[str]:
    """Return what did not fit, cut again for the room that is left below a branch."""
    text = "".join(line.removeprefix("    : ") for line in lines)
    if not text:
        return []
    size = max(room, 8) // (1 if text.isascii() else 2)
    return [text[start : start + size] for start in range(0, len(text), size)]


def session_line(row: Row, at: str) -> str:
    """Return a session with its state in one line."""
    name = row.get("taskName") or row.get("label")
    parts = [_short(row.get("key")), *([f'"{escape(str(name))}"'] if name else [])]
    parts.append(tables.state(row, at))
    if row.get("turn"):
        parts.append(tables.turn(row, at))
    elif row.get("runStatus"):
        parts.append(f"last run {shown(row.get('runStatus'))}")
    if row.get("queueDepth"):
        parts.append(f"{row['queueDepth']} queued")
    if row.get("pendingPermissions"):
        parts.append(f"{row['pendingPermissions']} asked")
    parts.append(f"{age(row.get('createdAt'), at)} old")
    return "  ".join(parts)


def _short(key: Any) -> str:
    """Return a key as a person types it: its agent, and the beginning of what is its own."""
    _, _, rest = str(key).partition(":")
    agent, _, tail = rest.partition(":")
    kind, _, unique = tail.partition(":")
    return escape(f"{agent} {unique[:8] or kind}")


def runs_text(rows: Sequence[Row], at: str, width: int = 0) -> str:
    """Return the table of `runs`, for a terminal of a width."""
    if not rows:
        return "no runs"
    head = ("RUN", "SESSION", "STATUS", "DELIVERY", "AGE", "TOOK", "TASK")
    body = [
        (
            shown(str(row.get("runId"))[:8]),
            _short(row.get("sessionKey")),
            _status(row),
            NOTHING
            if row.get("deliveryStatus") == "not_required"
            else shown(row.get("deliveryStatus")),
            age(row.get("acceptedAt"), at),
            _took(row),
            clip(shown(row.get("task")), TASK),
        )
        for row in rows
    ]
    return "\n".join(_fitting(tables.table(head, body, width), width))


def _status(row: Row) -> str:
    status, error = row.get("status"), row.get("error") or {}
    why = error.get("code") or row.get("stopReason")
    told = f" ({shown(why)})" if why and status not in _QUIET and why != status else ""
    return f"{shown(status)}{told}"


def _took(row: Row) -> str:
    taken = row.get("runtimeMs")
    return NOTHING if not isinstance(taken, int) else whole_seconds(taken / 1000)


def deliveries_text(rows: Sequence[Row], at: str, width: int = 0) -> str:
    """Return the table of `runs deliveries`, for a terminal of a width."""
    if not rows:
        return "no deliveries"
    head = ("ID", "FOR", "STATE", "ATTEMPTS", "SINCE", "OUTCOME", "REASON", "TASK")
    body = [
        (
            shown(row.get("id")),
            _short(row.get("address")),
            shown(row.get("state")),
            str(row.get("attempts", 0)),
            age(row.get("at"), at),
            shown(row.get("outcome")),
            shown(row.get("reason")),
            clip(shown(row.get("task")), TASK),
        )
        for row in rows
    ]
    return "\n".join(_fitting(tables.table(head, body, width), width))


def _fitting(lines: Sequence[str], width: int) -> list[str]:
    return wrapped(lines, width) if width else [*lines]
