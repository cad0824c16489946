"""Processes below guard or keeper that no shim has any more: looked for, and ended.

The keeper ends such processes within milliseconds; those that stay are what it could not. Above is
the supervisor, below the kernel's table of processes. Blocks: use a thread.
"""

import signal
import time
from collections.abc import Callable
from typing import Final

from acpbridge.controller import census
from acpbridge.transport import keeper as kernel
from acpbridge.transport.child import Keeper
from acpbridge.transport.tree import NOBODY

# What has lost its shim is looked at twice, so far apart: the keeper ends it meanwhile. Seconds.
STRAY_PAUSE: Final = 0.3

# As a shim calls itself.
SHIM: Final = "acpb-shim"


class Strays:
    """Those of one keeper, and of every one that it had before.

    Args:
        keeper: below whose helpers they are.
        shims: returns the pids of the shims that are at work.
    """

    def __init__(self, keeper: Keeper, shims: Callable[[], set[int]]) -> None:
        self._keeper = keeper
        self._shims = shims
        # Every guard and keeper that ever was: what is below one is an agent's, whoever it says.
        self._helpers: set[census.Pair] = set()

    def helpers(self) -> set[census.Pair]:
        """Return who is, or ever was, guard or keeper."""
        now = {self._keeper.identity, self._keeper.guard} - {NOBODY}
        # A new set each time: another thread may be going through the one before.
        self._helpers = self._helpers | {(helper.pid, helper.start_ticks) for helper in now}
        return self._helpers

    def found(self) -> list[census.ProcessInfo]:
        """Return those that are there, and still are after a moment."""
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

    def end(self) -> list[int]:
        """End them; return the pids of those that are left."""
        if not self.found():
            return []
        for pid, start_ticks in self.helpers():
            kernel.send_signal(pid, start_ticks, signal.SIGCONT)
        loop = kernel.KillLoop(self._rows)
        loop.run()
        return loop.survivors
