"""What can be done past a daemon that does not answer: end its trees, end the daemon itself.

The journal says who they are and the kernel whether that is still true: a process is touched only
if its pid has the start ticks that were written down in this boot. Standard library only.
"""

import signal
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from acpbridge.controller.journal import Entry, Journal, Tree
from acpbridge.daemon import lock
from acpbridge.daemon.paths import Paths
from acpbridge.errors import BridgeError
from acpbridge.model.sessions import CloseReason
from acpbridge.transport.helpers import kernel, killing

# A shim that is told to end needs milliseconds; its own kill loop gives up after its limit.
SHIM_LIMIT: Final = killing.KILL_LIMIT + 1.0

# What could be killed at last is gone within this. Seconds.
AGAIN_LIMIT: Final = 0.2

# An idle daemon ends well within this after TERM; one that has trees to end is not waited for.
TERM_LIMIT: Final = 1.0

# A daemon that was killed takes its helpers with it, one after the other.
GONE_LIMIT: Final = killing.END_LIMIT + killing.KILL_LIMIT

# Between two looks at the process table. Seconds.
LOOK_PAUSE: Final = 0.02


class _Watched:
    """Everything that was ever seen of one session's tree."""

    def __init__(self, tree: Tree) -> None:
        self.shims = tree.shims
        self.seen = {
            (entry.pid, entry.start_ticks) for entry in (*tree.shims, tree.agent, *tree.members)
        }

    def alive(self, table: Mapping[int, kernel.Process]) -> dict[int, kernel.Process]:
        """Return who of it lives, and note what was born below it."""
        found: dict[int, kernel.Process] = {}
        for pid, start_ticks in list(self.seen):
            row = table.get(pid)
            if row is None or row.start_ticks != start_ticks:
                continue
            if row.alive:
                found[pid] = row
            found |= {below.pid: below for below in kernel.tree_of(pid, table)}
        self.seen |= {(row.pid, row.start_ticks) for row in found.values()}
        return found


def recorded(paths: Paths) -> dict[str, Tree]:
    """Return the trees of the journal of which something lives, by session key.

    Raises:
        BridgeError: `daemon_frozen`, when there is no journal of this boot to go by.
    """
    journal = Journal.read(paths.journal)
    if journal is None or not journal.of_this_boot():
        raise BridgeError("daemon_frozen", "The daemon does not answer and left no journal.")
    table = kernel.process_table()
    return {name: tree for name, tree in journal.trees.items() if _Watched(tree).alive(table)}


def left_over(paths: Paths) -> list[dict[str, Any]]:
    """Return what still lives of a daemon that is gone, as rows of `unowned` in `status`.

    Its helpers end that within two seconds, unless they were killed with it.
    """
    journal = Journal.read(paths.journal)
    if journal is None:
        return _marked(str(paths.home))
    if not journal.of_this_boot() or journal.daemon.alive():
        return []
    watched = _everything(journal)
    reason = "is left of a daemon that is gone"
    following = "end it: acpbridge daemon start, which ends what an earlier daemon left"
    return [
        {"pid": row.pid, "name": row.name, "reason": reason, "next": following}
        for row in _look(watched).values()
    ]


def _marked(home: str) -> list[dict[str, Any]]:
    """Return who bears the marker of a state directory whose journal is damaged."""
    from acpbridge.controller.evidence import judge  # it needs more than the standard library

    table = kernel.process_table()
    return [
        {
            "pid": doubt.entry.pid,
            "name": table[doubt.entry.pid].name,
            "reason": doubt.reason,
            "next": f"see ps -o pid,ppid,user,lstart,args -p {doubt.entry.pid}",
        }
        for doubt in judge(table, None, home).doubts
    ]


def with_descendants(names: list[str], trees: Mapping[str, Tree]) -> dict[str, CloseReason]:
    """Return sessions with all that was spawned below them, each with why it is closed.

    The deepest come first. Those in between that have no process any more are closed as well.
    """
    reasons = dict.fromkeys(names, CloseReason.KILLED)
    before = 0
    while before != len(reasons):
        before = len(reasons)
        for name, tree in trees.items():
            line = (name, *tree.above)
            tops = [at for at, key in enumerate(line) if key in reasons]
            for key in line[: max(tops, default=0)]:
                reasons.setdefault(key, CloseReason.PARENT)
    depths = {name: len(tree.above) for name, tree in trees.items()}
    for tree in trees.values():
        depths |= {key: len(tree.above) - at - 1 for at, key in enumerate(tree.above)}
    order = sorted(reasons, key=lambda name: -depths.get(name, 0))
    return {name: reasons[name] for name in order}


def known(trees: Mapping[str, Tree]) -> list[str]:
    """Return the sessions that the journal names: with a tree, or above one that has one."""
    return list(dict.fromkeys(key for name, tree in trees.items() for key in (name, *tree.above)))


def end_trees(trees: Mapping[str, Tree]) -> list[dict[str, Any]]:
    """End whole trees through their shims, side by side; return a receipt for each.

    TERM tells a shim to kill its tree. What is left when the shims should be done is killed here.
    """
    began = time.monotonic()
    watched = {name: _Watched(tree) for name, tree in trees.items()}
    _look(watched)
    shims = [shim for tree in watched.values() for shim in tree.shims]
    for shim in shims:
        for number in (signal.SIGTERM, signal.SIGCONT):
            killing.send_signal(shim.pid, shim.start_ticks, number)
    empty = 0
    while empty < killing.EMPTY_LOOKS and time.monotonic() - began < SHIM_LIMIT:
        time.sleep(LOOK_PAUSE)
        empty = 0 if _look(watched) else empty + 1
    rest = killing.KILL_LIMIT
    if not any(shim.alive() for shim in shims):
        # What they could not end has had its time: it is tried once more, and named.
        rest = max(AGAIN_LIMIT, rest - (time.monotonic() - began))
    killing.KillLoop(lambda: list(_look(watched).values()), rest).run()
    took = round((time.monotonic() - began) * 1000)
    table = kernel.process_table()
    return [_receipt(name, tree, table, took) for name, tree in watched.items()]


def _look(watched: Mapping[str, _Watched]) -> dict[int, kernel.Process]:
    table = kernel.process_table()
    found: dict[int, kernel.Process] = {}
    for tree in watched.values():
        found |= tree.alive(table)
    return found


def _receipt(
    name: str, tree: _Watched, table: Mapping[int, kernel.Process], took: int
) -> dict[str, Any]:
    left = sorted(tree.alive(table))
    killed = sorted({pid for pid, _ in tree.seen}.difference(left))
    return {"key": name, "killed": killed, "survivors": left, "tookMs": took}


def daemon_of(paths: Paths) -> Entry | None:
    """Return the process that holds the lock, None if nobody does.

    A lock is held by a living process only, so its pid is true while it is held; and where the
    kernel names somebody else, the file was written to since, and names a stranger.
    """
    pid = lock.holder(paths.lock)
    row = kernel.read_process(pid) if pid > 0 else None
    if row is None or not lock.held(paths.lock) or lock.holder(paths.lock) != pid:
        return None
    if not lock.may_hold(paths.lock, pid):
        return None
    journal = Journal.read(paths.journal)
    known = journal.daemon if journal is not None and journal.of_this_boot() else None
    if known is not None and known.pid == pid and known.start_ticks != row.start_ticks:
        # The journal is an older daemon's that had the same number: the lock is what counts.
        known = None
    return known if known is not None and known.pid == pid else Entry(pid, row.start_ticks)


def stop_by_force(paths: Paths) -> list[int]:
    """End the daemon, frozen or not, and prove it; return the pids that are left of it.

    It is continued and told to stop; one that does not within a moment is killed. Its guard, its
    keeper and its shims then end everything by themselves, and what they leave is killed here.

    Raises:
        BridgeError: `daemon_unreachable`, when it cannot be told which process it is;
            `unsupported_control`, when it is a program that opened a bridge of its own.
    """
    found = daemon_of(paths)
    if found is not None and lock.of_program(paths.lock):
        raise not_a_daemon(found.pid)
    if found is None:
        if not lock.held(paths.lock):
            return []
        message = f"The lock {paths.lock} is held, and it does not say by whom."
        raise BridgeError("daemon_unreachable", message, hint=f"See: fuser {paths.lock}")
    journal = Journal.read(paths.journal)
    if journal is None or not journal.of_this_boot() or journal.daemon != found:
        journal = None
    watched = {} if journal is None else _everything(journal)
    _look(watched)
    for number in (signal.SIGTERM, signal.SIGCONT):
        killing.send_signal(found.pid, found.start_ticks, number)
    _wait_while(found.alive, TERM_LIMIT)
    killing.send_signal(found.pid, found.start_ticks, signal.SIGKILL)
    _wait_while(lambda: bool(_look(watched)) or found.alive(), GONE_LIMIT)
    if _look(watched):
        killing.KillLoop(lambda: list(_look(watched).values())).run()
    return sorted({*_look(watched), *([found.pid] if found.alive() else [])})


def _everything(journal: Journal) -> dict[str, _Watched]:
    """Return the trees of all sessions, and guard and keeper with whatever is below them."""
    watched = {name: _Watched(tree) for name, tree in journal.trees.items()}
    helpers = {"keeper": journal.keeper, "guard": journal.guard}
    return watched | {n: _Watched(Tree(e, e)) for n, e in helpers.items() if e is not None}


def _wait_while(unsettled: Callable[[], bool], limit: float) -> None:
    deadline = time.monotonic() + limit
    while unsettled() and time.monotonic() < deadline:
        time.sleep(LOOK_PAUSE)


def not_a_daemon(pid: int) -> BridgeError:
    """Return the error for who would stop a program as if it were the daemon."""
    message = f"The process {pid} is a program with a bridge of its own, not a daemon."
    return BridgeError("unsupported_control", message, hint="End that program, as it wants it.")


def wait_stopped(paths: Paths, limit: float) -> bool:
    """Wait until nobody holds the lock, and tell whether that came about."""
    _wait_while(lambda: lock.held(paths.lock), limit)
    return not lock.held(paths.lock)
