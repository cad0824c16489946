"""Processes that nobody owns: below guard or keeper without a shim, or left by an earlier daemon.

The keeper ends the first within milliseconds; those that stay are what it could not. The second are
what a sweep could not end, or would not for want of a proof. Above is the supervisor, below the
kernel's table of processes. Blocks: use a thread.
"""

import signal
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from acpbridge.controller import census
from acpbridge.controller.journal import Entry
from acpbridge.controller.sweep import Swept
from acpbridge.transport.child import Keeper
from acpbridge.transport.helpers import kernel, killing
from acpbridge.transport.tree import NOBODY

# What has lost its shim is looked at twice, so far apart: the keeper ends it meanwhile. Seconds.
STRAY_PAUSE: Final = 0.3

# What could be killed at last is gone within this. Seconds.
AGAIN_LIMIT: Final = 0.2

# What a person can do about those that are proven ours.
END_IT: Final = "end it, and every session: acpbridge kill --all"

# As a shim calls itself.
SHIM: Final = "acpb-shim"


@dataclass(frozen=True, slots=True)
class Unowned:
    """A process that nobody owns, as `status` shows it until it is gone.

    Attributes:
        pid: its number.
        name: of the program.
        reason: why nobody owns it.
        next: what a person can do about it.
    """

    pid: int
    name: str
    reason: str
    next: str


class Strays:
    """Those of one keeper, of every one that it had before, and of the daemons before this one.

    Args:
        keeper: below whose helpers they are.
        shims: returns the pids of the shims that are at work.
        swept: what was left when this daemon started.
    """

    def __init__(self, keeper: Keeper, shims: Callable[[], set[int]], swept: Swept) -> None:
        self._keeper = keeper
        self._shims = shims
        self._swept = swept
        # Every guard and keeper that ever was: what is below one is an agent's, whoever it says.
        self._helpers: set[census.Pair] = set()

    def helpers(self) -> set[census.Pair]:
        """Return who is, or ever was, guard or keeper."""
        now = {self._keeper.identity, self._keeper.guard} - {NOBODY}
        # A new set each time: another thread may be going through the one before.
        self._helpers = self._helpers | {(helper.pid, helper.start_ticks) for helper in now}
        return self._helpers

    def left(self) -> tuple[Entry, ...]:
        """Return whom a sweep knew for ours and could not end, and who still lives."""
        return tuple(entry for entry in self._swept.left if entry.alive())

    def add(self, swept: Swept) -> None:
        """Take in what another sweep came to."""
        before = self._swept
        doubts = {doubt.entry: doubt for doubt in (*before.doubts, *swept.doubts)}
        left = dict.fromkeys((*before.left, *swept.left))
        self._swept = Swept((), tuple(left), tuple(doubts.values()))

    def unowned(self) -> list[Unowned]:
        """Return all that nobody owns and that lives."""
        found = [_lost(row) for row in self.found()]
        for entry in self._swept.left:
            reason = "was left by a daemon that was killed, and could not be ended"
            found += _shown(entry, reason, END_IT)
        for doubt in self._swept.doubts:
            found += _shown(doubt.entry, doubt.reason)
        return found

    def found(self) -> list[census.ProcessInfo]:
        """Return those of the keepers that are there, and still are after a moment."""
        before = {(row.pid, row.start_ticks) for row in self._rows()}
        if before:
            time.sleep(STRAY_PAUSE)
        rows = [r for r in self._rows() if (r.pid, r.start_ticks) in before]
        infos = (census.look(row.pid, row.start_ticks, "child") for row in rows)
        return [info for info in infos if info is not None]

    def _rows(self) -> list[kernel.Process]:
        """Look at everything below guard and keeper, without the trees of known shims."""
        helpers = self.helpers()
        children = self._keeper.children
        known = self._shims()
        known |= {child.shim.pid for child in children} | {pid for pid, _ in helpers}
        # A shim that was forked just now has not told who it is.
        starting = any(child.shim == NOBODY for child in children)
        table = kernel.process_table()
        found: dict[int, kernel.Process] = {}
        for pid, start_ticks in helpers:
            row = table.get(pid)
            if row is None or row.start_ticks != start_ticks:
                continue
            new = {r.pid for r in table.values() if starting and r.ppid == pid and r.name == SHIM}
            below = kernel.tree_of(pid, table, skip=known | new)
            found |= {member.pid: member for member in below}
        return list(found.values())

    def end(self, named: Collection[int] = ()) -> list[int]:
        """End them; return the pids of those that are left.

        Args:
            named: those that a shim has tried to end for as long as anybody is: they are tried
                again, and waited for no more.
        """
        found = self.found()
        if not found:
            return []
        tried = all(info.pid in named for info in found)
        _, left = self._kill(self._rows, AGAIN_LIMIT if tried else killing.KILL_LIMIT)
        return left

    def end_proven(self) -> tuple[list[int], list[int]]:
        """End what is proven ours and nobody owns; return the pids of the dead and of the left."""

        def look() -> list[kernel.Process]:
            rows = {row.pid: row for row in self._rows()}
            for entry in self.left():
                row = kernel.read_process(entry.pid)
                if row is not None and row.start_ticks == entry.start_ticks and row.alive:
                    rows[row.pid] = row
            return list(rows.values())

        if not self.found() and not self.left():
            return [], []
        return self._kill(look, killing.KILL_LIMIT)

    def _kill(
        self, look: Callable[[], list[kernel.Process]], limit: float
    ) -> tuple[list[int], list[int]]:
        for pid, start_ticks in self.helpers():
            killing.send_signal(pid, start_ticks, signal.SIGCONT)
        loop = killing.KillLoop(look, limit)
        loop.run()
        return sorted(loop.killed), loop.survivors


def _lost(info: census.ProcessInfo) -> Unowned:
    return Unowned(info.pid, info.name, "below the keeper, without a session", END_IT)


def _shown(entry: Entry, reason: str, what: str = "") -> list[Unowned]:
    """Return one of an earlier daemon, nothing if it is gone; a new one may have its number."""
    info = census.look(entry.pid, entry.start_ticks, "child")
    if info is None or not entry.alive():
        return []
    look = f"ps -o pid,ppid,user,lstart,args -p {entry.pid}"
    what = what or f"see {look}; if it is no longer wanted: kill {entry.pid}"
    return [Unowned(info.pid, info.name, reason, what)]
