"""What an earlier daemon left behind, ended at the start. Blocks: use a thread.

Only for the case that daemon, guard, keeper and shim were killed in the same moment. Two kinds of
evidence, neither of them a guess: the journal (a pid counts only with the start ticks that were
written down in this boot), and for what it had not seen yet the marker in a process's environment,
with the state directory beside it. Nobody is touched who belongs to another user, who is older
than that daemon, who lives below a daemon that is alive, or who is this process, above it or below.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from acpbridge.config.environment import HOME, MARK
from acpbridge.controller import census
from acpbridge.controller.journal import Journal
from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.transport import keeper as kernel

Table = Mapping[int, kernel.Process]

# What the router puts behind the session's key.
_RANDOM: Final = re.compile(r"[0-9a-f]{32}")


def sweep(journal: Path, home: str) -> list[int]:
    """End what an earlier daemon of this state directory left; return who was killed.

    Args:
        journal: the file in which that daemon wrote down what ran.
        home: the state directory, as its agents have it in their environment.
    """
    found = Journal.read(journal)
    if found is None or not found.of_this_boot():
        return []
    loop = kernel.KillLoop(lambda: _left_behind(found, home))
    loop.run()
    return sorted(loop.killed)


def _left_behind(journal: Journal, home: str) -> list[kernel.Process]:
    table = kernel.process_table()
    spared = _spared(journal, table)
    recorded = {
        (entry.pid, entry.start_ticks)
        for tree in journal.trees.values()
        for entry in (tree.shim, tree.agent, *tree.members)
    }
    tops = [
        row
        for row in table.values()
        if row.pid not in spared
        and ((row.pid, row.start_ticks) in recorded or _marked(row, journal, home))
    ]
    found = {row.pid: row for row in tops if row.alive}
    for row in tops:
        found |= {below.pid: below for below in kernel.tree_of(row.pid, table, skip=spared)}
    return [row for row in found.values() if row.pid not in spared]


def _spared(journal: Journal, table: Table) -> set[int]:
    """Return who is never touched: this process and a living daemon, all above and all below."""
    spared = {1}
    daemon = table.get(journal.daemon.pid)
    alive = daemon is not None and daemon.start_ticks == journal.daemon.start_ticks and daemon.alive
    for top in (os.getpid(), journal.daemon.pid) if alive else (os.getpid(),):
        spared |= {below.pid for below in kernel.tree_of(top, table)}
        while top in table and top not in spared:
            spared.add(top)
            top = table[top].ppid
    return spared


def _marked(row: kernel.Process, journal: Journal, home: str) -> bool:
    """Tell whether a process bears the marker of a session of that daemon."""
    if row.start_ticks < journal.daemon.start_ticks or _owner(row.pid) != journal.uid:
        return False
    if census.marker(row.pid, HOME) != home:
        return False
    name, _, random = census.marker(row.pid, MARK).rpartition(".")
    try:
        SessionKey.parse(name)
    except BridgeError:
        return False
    return _RANDOM.fullmatch(random) is not None


def _owner(pid: int) -> int:
    try:
        return Path(f"/proc/{pid}").stat().st_uid
    except OSError:
        return -1
