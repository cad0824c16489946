"""Real agents in the middle of a running shell command, and what an event leaves of them.

`measure` has all agents of a bridge at work at once and returns what one event leaves of each.
What is left is judged by `observer`, which knows nothing of acpbridge. Above: the test that holds
the figures to what is promised, and the command that writes them down.
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from tests.real import observer, workload
from tests.real.bridge import PATIENCE, Bridge, until
from tests.real.events import PARTS, Event
from tests.real.observer import Seen

# Seconds. What must be gone in two is waited for so long on a busy machine.
LIMIT = 20.0
# What may stay is looked at for so long: as long as the longest grace of the four.
STAYS = 5.0

# Of these the death of one ends the others, and a new pair is started where the daemon lives.
HELPERS = ("guard", "keeper")

MODEL_PYTHON = "python3 -I -S"


@dataclass(frozen=True)
class Figure:
    """What one event left of one agent.

    Attributes:
        before: how many processes there were of those that are watched.
        left: who of them lived on, by the command's roles or the names of programs.
        ms: after so many milliseconds the last of them was gone; None if some were left.
        shown: whether `status` showed all that were left, with a warning; None where nobody was.
        swept_ms: the same after the start of the next daemon, where that had to end them.
        code: with which the user's command ended; None if it goes on.
    """

    before: int
    left: tuple[str, ...]
    ms: float | None
    shown: bool | None
    swept_ms: float | None
    code: int | None


@dataclass(frozen=True)
class Outcome:
    """What one event left.

    Attributes:
        agents: of each agent.
        others: who else lived on and should not: helpers, and what was started meanwhile.
    """

    agents: Mapping[str, Figure]
    others: tuple[str, ...]


@dataclass
class Work:
    """One agent, its shell command running.

    Attributes:
        agent: its id.
        marker: in the arguments of the command and its children.
        run: the user's command.
        parts: what stands above the shell command, by name.
        tree: the shim and all below it.
        command: the shell command and its children, by role.
    """

    agent: str
    marker: str
    run: subprocess.Popen[str]
    parts: dict[str, Seen]
    tree: set[Seen]
    command: dict[str, Seen]


def measure(it: Bridge, event: Event) -> Outcome:
    """Put every agent of a bridge to work, let the event happen, and look at what it leaves.

    Raises:
        AssertionError: something never came about.
    """
    with _at_work(it, event) as works:
        watched = {w.agent: set(w.command.values()) if event.lives_on else w.tree for w in works}
        helpers = {works[0].parts[name] for name in _ending_helpers(event)}
        since, commands = _happen(it, event, works)
        limit = LIMIT if event.whole else STAYS
        gone = observer.watch({**watched, "helpers": helpers}, since, limit)
        _succeed(commands)
        left = {w.agent: _left(w, watched[w.agent]) for w in works}
        others = {row for row in helpers if row.lives()}
        if event.whole and not event.again:
            others |= observer.started_under(it.home).difference(*left.values())
        shown = _shown(it, left) if event.lives_on else None
        swept = _sweep(it, left) if event.sweep else {}
        it.end_all()
        codes = {w.agent: w.run.wait(PATIENCE) for w in works}
        until(lambda: not observer.started_under(it.home), "an end of everything", LIMIT)
        figures = {
            w.agent: Figure(
                before=len(watched[w.agent]),
                left=_names(w, left[w.agent]),
                ms=_ms(gone.get(w.agent)) if not left[w.agent] else None,
                shown=shown if left[w.agent] else None,
                swept_ms=_ms(swept.get(w.agent)) if left[w.agent] else None,
                code=codes[w.agent],
            )
            for w in works
        }
    return Outcome(figures, tuple(sorted(row.name for row in others)))


@contextmanager
def _at_work(it: Bridge, event: Event) -> Iterator[list[Work]]:
    """Have every agent run the shell command, all at once; at the end none of it is left."""
    runs: dict[str, tuple[str, subprocess.Popen[str]]] = {}
    with ExitStack() as stack:
        for agent in it.agents:
            marker = f"{agent}-{uuid4().hex}"
            words = [workload.__file__, marker]
            if event.leaves:
                os.mkfifo(_gate(it, marker))
                words.append(str(_gate(it, marker)))
            prompt = f"run {MODEL_PYTHON} {shlex.join(words)}"
            options = ("--agent", agent, "--on-permission", "allow", *event.options)
            run = stack.enter_context(it.start(agent, prompt, *options))
            stack.callback(_end, run, marker)
            runs[agent] = marker, run
        yield [_look(it, agent, *runs[agent]) for agent in runs]


def _look(it: Bridge, agent: str, marker: str, run: subprocess.Popen[str]) -> Work:
    """Wait until the shell command runs with all its children, and say where it stands."""

    def look() -> dict[str, Seen] | None:
        assert run.poll() is None, (agent, run.communicate())
        found = observer.bearing(marker)
        return found if found.keys() == set(workload.ROLES) else None

    command = until(look, f"the command of {agent}")
    rows = observer.table()
    line = observer.above(command["command"].pid, rows)
    daemon = int((it.home / "daemon.lock").read_text(encoding="ascii"))
    (place,) = [i for i, row in enumerate(line) if row.pid == daemon]
    parts = dict(zip(PARTS, reversed(line[place - len(PARTS) + 1 : place + 1]), strict=True))
    return Work(agent, marker, run, parts, observer.below(parts["shim"].pid, rows), command)


def _gate(it: Bridge, marker: str) -> Path:
    return it.home.parent / f"gate-{marker}"


def _happen(
    it: Bridge, event: Event, works: Sequence[Work]
) -> tuple[float, list[subprocess.Popen[str]]]:
    """Let it happen; return since when time is counted, and the commands that go on."""
    if event.sweep:
        # Who has left the tree and has no environment is found by the journal alone.
        until(lambda: _on_record(it, works), "all of them in the journal")
    if event.leaves:
        for work in works:
            _gate(it, work.marker).open("wb").close()
        for work in works:
            work.run.wait(PATIENCE)
        return time.monotonic(), []
    if event.command:
        return _command(it, event, works)
    since = time.monotonic()
    pids = {w.parts[p].pid if p in PARTS else w.run.pid for w in works for p in event.parts}
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)
    return since, []


def _command(
    it: Bridge, event: Event, works: Sequence[Work]
) -> tuple[float, list[subprocess.Popen[str]]]:
    """Begin the command, for all sessions side by side where it takes one."""
    keys = {row["agentId"]: row["key"] for row in it.call("status")[1]["sessions"]}
    since = time.monotonic()
    if not event.each:
        return since, [it.begin(works[0].agent, *event.command)]
    return since, [it.begin(w.agent, *event.command, keys[w.agent]) for w in works]


def _succeed(commands: Sequence[subprocess.Popen[str]]) -> None:
    for command in commands:
        _, err = command.communicate(timeout=PATIENCE)
        assert command.returncode == 0, (command.args, err)


def _end(run: subprocess.Popen[str], marker: str) -> None:
    for row in observer.bearing(marker).values():
        with suppress(ProcessLookupError):
            os.kill(row.pid, signal.SIGKILL)
    run.kill()


def _ending_helpers(event: Event) -> tuple[str, ...]:
    ends = {"daemon", *HELPERS}.intersection(event.parts) or "stop" in event.command
    return HELPERS if ends else ()


def _left(work: Work, watched: set[Seen]) -> set[Seen]:
    """Return who lives, of those that were seen and of those that came since."""
    return {row for row in watched if row.lives()} | set(observer.bearing(work.marker).values())


def _shown(it: Bridge, left: Mapping[str, set[Seen]]) -> bool:
    """Tell whether `status` has everybody who is left, in the session whose it is, and warns."""
    _, status = it.call("status")
    rows = {row["agentId"]: row for row in status["sessions"]}
    return all(
        {row.pid for row in left[agent]} <= {p["pid"] for p in rows[agent]["processes"]}
        and any(rows[agent]["key"] in w and "still does" in w for w in status["warnings"])
        for agent in left
        if left[agent]
    )


def _on_record(it: Bridge, works: Sequence[Work]) -> bool:
    journal = json.loads((it.home / "processes.json").read_text(encoding="utf-8"))
    known = {m["pid"] for tree in journal["sessions"].values() for m in tree["members"]}
    return all(row.pid in known for work in works for row in work.command.values())


def _sweep(it: Bridge, left: Mapping[str, set[Seen]]) -> dict[str, float]:
    since = time.monotonic()
    assert it.call("daemon", "start")[0] == 0
    return observer.watch(left, since, LIMIT)


def _names(work: Work, rows: set[Seen]) -> tuple[str, ...]:
    roles = {row: role for role, row in work.command.items()}
    return tuple(sorted(roles.get(row, row.name) for row in rows))


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(max(0.0, seconds) * 1000, 1)
