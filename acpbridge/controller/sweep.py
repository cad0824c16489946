"""What an earlier daemon left behind, ended at the start by its journal. Blocks: use a thread.

Only for the case that daemon, keeper and shim were killed in the same moment. A process is touched
only if its pid has the start ticks that were written down in this boot; nothing is guessed.
"""

from pathlib import Path

from acpbridge.controller.journal import Journal
from acpbridge.transport import keeper as kernel


def sweep(journal: Path) -> list[int]:
    """End every process that the journal names and that still lives; return who was killed."""
    found = Journal.read(journal)
    if found is None or not found.of_this_boot():
        return []
    recorded = {
        (entry.pid, entry.start_ticks)
        for tree in found.trees.values()
        for entry in (tree.shim, tree.agent, *tree.members)
    }
    loop = kernel.KillLoop(lambda: _alive(recorded))
    loop.run()
    return sorted(loop.killed)


def _alive(recorded: set[tuple[int, int]]) -> list[kernel.Process]:
    table = kernel.process_table()
    found: dict[int, kernel.Process] = {}
    for pid, start_ticks in recorded:
        row = table.get(pid)
        if row is None or row.start_ticks != start_ticks:
            continue
        if row.alive:
            found[pid] = row
        found |= {below.pid: below for below in kernel.tree_of(pid, table)}
    return list(found.values())
