"""What the quick commands print for people: plain aligned columns. Pure; standard library only.

Every value that an agent or a file had a say in is escaped, so that none of it can move the cursor.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from acpbridge.cli.moments import NOTHING, age, now, seconds_between
from acpbridge.cli.terminal.wrapping import cells, wrapped
from acpbridge.model.display import clip, escape

Row = Mapping[str, Any]

# Columns of `sessions` that say something of those sessions only that have a process.
_MAY_BE_LEFT_OUT: Final = ("MODE", "TURN", "QUEUED", "ASKED")

# Of a title that only names a question; `permissions` has all of it. Characters.
TITLE: Final = 200

_UNITS: Final = ("B", "K", "M", "G", "T")


def columns(rows: Sequence[Sequence[str]], gap: str = "  ") -> list[str]:
    """Return rows as lines of aligned columns; the last one is not padded."""
    if not rows:
        return []
    widths = [max(len(row[index]) for row in rows) for index in range(len(rows[0]))]
    return [
        gap.join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def table(head: Sequence[str], rows: Sequence[Sequence[str]], width: int = 0) -> list[str]:
    """Return rows as a table; where it is wider than the terminal, each as a small paragraph.

    Args:
        head: names of the columns.
        rows: their cells; the first is what a row is called by.
        width: of the terminal, 0 for none.
    """
    lines = columns([head, *rows])
    if not width or all(len(line) <= width for line in lines):
        return lines
    names = [name.lower() for name in head[1:]]
    out = []
    for first, *rest in rows:
        facts = ", ".join(f"{name} {cell}" for name, cell in zip(names, rest, strict=True))
        out += [first, *hanging(facts, width)]
    return out


def hanging(text: str, width: int, indent: str = "  ", mark: str = "  ") -> list[str]:
    """Return an indented text as lines that fit a terminal, 0 columns for none.

    Args:
        text: one line.
        width: of the terminal.
        indent: before all of them.
        mark: after that, before all but the first.
    """
    if not width or cells(indent + text) <= width:
        return [indent + text]
    if not text.isascii():
        first, *rest = wrapped([indent + text], width)
        return [first, *rest]
    import textwrap  # seldom needed

    room = max(width, len(indent) + 3)
    return textwrap.wrap(
        text,
        room,
        initial_indent=indent,
        subsequent_indent=indent + mark,
        break_on_hyphens=False,
    )


def shown(value: Any) -> str:
    """Return a value as a cell."""
    return NOTHING if value is None or value == "" else escape(str(value))


def size(count: float) -> str:
    """Return a number of bytes in three digits or so."""
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:.0f}{unit}"
        count /= 1024
    return f"{count:.0f}{_UNITS[-1]}"


def mode(row: Row) -> str:
    """Return a session's mode and whether anybody is asked in it."""
    if row.get("bypass"):
        asked = "BYPASS: nobody is asked"
    elif row.get("asks") is None:
        asked = "asking unknown"
    else:
        asked = "asks" if row["asks"] else "does not ask"
    return f"{shown(row.get('mode') or 'unknown')} ({asked})"


def turn(row: Row, at: str) -> str:
    """Return what a session's turn does, since when, and what it waits for."""
    value = row.get("turn")
    if not value:
        return NOTHING
    began = age(value.get("startedAt"), at)
    waits, quiet = shown(value.get("waitsFor")), age(value.get("lastUpdateAt"), at)
    text = f"{shown(value.get('state'))} {began}, waits for {waits}"
    return text if quiet == NOTHING else f"{text}, last update {quiet} ago"


def sessions_text(rows: Sequence[Row], at: str, width: int = 0) -> str:
    """Return the table of `sessions`, for a terminal of a width."""
    if not rows:
        return "no sessions"
    head = ("KEY", "STATE", "MODE", "TURN", "QUEUED", "ASKED", "AGE", "DIRECTORY")
    empty = {NOTHING, "0", mode({})}
    cells = [
        (
            shown(row.get("key")),
            state(row, at),
            mode(row),
            turn(row, at),
            str(row.get("queueDepth", 0)),
            str(row.get("pendingPermissions", 0)),
            age(row.get("createdAt"), at),
            shown(row.get("cwd")),
        )
        for row in rows
    ]
    # What is true of no row would only push the directory out of sight.
    shown_at = [
        index
        for index, name in enumerate(head)
        if name not in _MAY_BE_LEFT_OUT or any(row[index] not in empty for row in cells)
    ]
    first, *others = ([row[index] for index in shown_at] for row in (head, *cells))
    return "\n".join(table(first, others, width))


def pruned_text(rows: Sequence[Row], at: str, width: int = 0) -> str:
    """Return the table of what `sessions prune` deletes."""
    head = ("KEY", "STATE", "LAST USED", "DIRECTORY")
    cells = [
        (
            shown(row.get("key")),
            shown(row.get("state")),
            f"{age(row.get('lastUsedAt'), at)} ago",
            shown(row.get("cwd")),
        )
        for row in rows
    ]
    return "\n".join(table(head, cells, width))


def state(row: Row, at: str = "") -> str:
    """Return a session's state, with why it is closed, what went wrong, or how long it starts."""
    reason = row.get("closeReason")
    if reason:
        return f"{shown(row.get('state'))} ({shown(reason)})"
    error = row.get("lastError")
    if error and row.get("state") in ("failed", "died"):
        return f"{shown(row.get('state'))} ({shown(error.get('code'))})"
    if row.get("state") == "starting":
        # A first start may download the agent: it is told apart from one that hangs by its age.
        since = (row.get("turn") or {}).get("startedAt") or row.get("createdAt")
        return f"starting ({seconds_between(since, at or now())})"
    return shown(row.get("state"))


def status_text(status: Row, questions: Sequence[Row] = (), width: int = 0) -> str:
    """Return what `status` shows: the daemon, each session with its tree, what waits, warnings."""
    at = status.get("observedAt") or now()
    out = [*daemon_lines(status.get("daemon"), at), *_policy_lines(status.get("policy"))]
    for row in status.get("sessions", ()):
        of_it = [q for q in questions if row.get("key") in (q.get("sessionKey"), *_above(q))]
        out += ["", *_session_lines(row, of_it, at, width)]
    if not status.get("sessions") and status.get("daemon") is not None:
        out += ["no live session"]
    unowned = [
        ("unowned", str(p.get("pid")), shown(p.get("name")), shown(p.get("reason")))
        for p in status.get("unowned", ())
    ]
    for line in columns(unowned):
        out += hanging(line, width, "")
    # Often the same for all of them.
    following = (p.get("next") for p in status.get("unowned", ()))
    out += dict.fromkeys(f"  {shown(what)}" for what in following if what)
    for warning in status.get("warnings", ()):
        out += hanging(f"warning: {shown(warning)}", width, "")
    return "\n".join(out)


def daemon_lines(daemon: Row | None, at: str) -> list[str]:
    """Return what there is to say of the daemon."""
    if daemon is None:
        return ["no daemon runs"]
    up = age(daemon.get("startedAt"), at)
    pids = f"daemon {daemon.get('pid')}, keeper {daemon.get('keeperPid')}"
    version, held = shown(daemon.get("version")), shown(daemon.get("containment"))
    return [
        f"{pids}, version {version}, up {up}, containment {held}",
        f"home {shown(daemon.get('home'))}",
    ]


def _policy_lines(policy: Row | None) -> list[str]:
    """Return which rules are in force; nothing where there is no file, so that all is asked."""
    if not policy or not (policy.get("sha256") or policy.get("problem")):
        return []
    count, sha256 = policy.get("rules"), str(policy.get("sha256"))[:12]
    state = "BROKEN, what denies is kept" if policy.get("problem") else f"sha256 {shown(sha256)}"
    return [f"policy {shown(policy.get('path'))}, {count} rules, {state}"]


def _session_lines(row: Row, questions: Sequence[Row], at: str, width: int) -> list[str]:
    facts = [
        ("state", state(row, at)),
        ("mode", mode(row)),
        ("turn", turn(row, at)),
        ("queued", str(row.get("queueDepth", 0))),
        ("cwd", shown(row.get("cwd"))),
        ("login", shown(row.get("authSource"))),
        ("agent session", shown(row.get("agentSessionId"))),
    ]
    if row.get("containment"):  # it has a process
        facts.append(("containment", shown(row["containment"])))
    if row.get("parentKey"):
        facts.append(("parent", shown(row["parentKey"])))
    if row.get("state") == "interrupted":
        facts.append(("why", "the daemon ended while a turn ran"))
    error = row.get("lastError")
    if error:
        facts.append(("last error", f"{shown(error.get('code'))}: {shown(error.get('message'))}"))
    for question in questions:
        title = clip(shown(question.get("title")), TITLE)
        what = f"{shown(question.get('kind'))}: {title}"
        if question.get("sessionKey") != row.get("key"):
            what = f"of {shown(question.get('sessionKey'))}, which it started: {what}"
        facts.append((f"question {shown(question.get('id'))}", what))
    out = [shown(row.get("key"))]
    for line in columns(facts):
        out += hanging(line, width, mark=": ")  # much of it are an agent's words
    return out + [f"  {line}" for line in tree_lines(row.get("processes", ()), at)]


def _above(question: Row) -> Sequence[Any]:
    """Return the keys of what a question's session was started by."""
    above = question.get("above")
    return above if isinstance(above, list) else ()


def tree_lines(processes: Sequence[Row], at: str) -> list[str]:
    """Return a process tree, children indented below their parents, with memory and time."""
    if not processes:
        return ["no process"]
    rows = [("PID", "PROCESS", "STATE", "MEMORY", "CPU", "AGE")]
    for level, process in _in_depth(processes):
        name = f"{'  ' * level}{shown(process.get('name'))} ({shown(process.get('role'))})"
        rows.append(
            (
                str(process.get("pid")),
                name,
                shown(process.get("state")),
                size(process.get("rssBytes") or 0),
                f"{process.get('cpuSeconds') or 0:.1f}s",
                age(process.get("startedAt"), at),
            )
        )
    return columns(rows)


def _in_depth(processes: Sequence[Row]) -> list[tuple[int, Row]]:
    """Return each process with its level, right below its parent; roots have none in the list."""
    pids = {process.get("pid") for process in processes}
    below: dict[Any, list[Row]] = {}
    for process in processes:
        parent = process.get("ppid")
        below.setdefault(parent if parent in pids else None, []).append(process)
    out: list[tuple[int, Row]] = []
    waiting = [(0, root) for root in reversed(below.pop(None, []))]
    while waiting:
        level, process = waiting.pop()
        out.append((level, process))
        children = below.pop(process.get("pid"), [])
        waiting += [(level + 1, child) for child in reversed(children)]
    return out


def kill_text(
    results: Sequence[Row], width: int = 0, named: Callable[[str], bool] = lambda _key: True
) -> str:
    """Return the receipt of a kill: what is proven dead, and what is left.

    Args:
        results: one of each session.
        width: of the terminal, 0 for none.
        named: tells of a key whether somebody asked for it; others were ended with their parents.
    """
    if not results:
        return "nothing runs"
    rows = (_receipt_line(result, named(str(result.get("key")))) for result in results)
    return "\n".join(line for row in rows for line in hanging(row, width, ""))


def _receipt_line(result: Row, named: bool) -> str:  # noqa: FBT001 - of no use to others
    killed = _pids(result.get("killed", ())) or "no process"
    whose = shown(result.get("key") or "in no session")
    why = "" if named else " with the session that spawned it"
    text = f"{whose}: killed {killed}{why} in {result.get('tookMs')} ms"
    left = _pids(result.get("survivors", ()))
    return f"{text}; LEFT: {left}" if left else f"{text}; nothing is left"


def _pids(pids: Sequence[int]) -> str:
    return ", ".join(map(str, pids))
