"""Ends who was seen in a tree and outlived its end: the journal remembers whom the helpers cannot.

Only for the case that guard, keeper and shim were killed in the same moment and the daemon lives
on: who had left the agent's tree fell to nobody of ours. The evidence is that of the sweep at a
start, pid and start ticks as the census wrote them down. Above is the supervisor. Blocks: use a
thread.
"""

from acpbridge.controller.journal import Tree
from acpbridge.transport import keeper as kernel


def anybody(tree: Tree) -> bool:
    """Whether a member of the tree still lives; cheap where none does."""
    return any(member.alive() for member in tree.members)


def end(tree: Tree) -> list[int]:
    """End the members that live, with all below them; return the pids that are left."""
    loop = kernel.KillLoop(lambda: _living(tree))
    loop.run()
    return loop.survivors


def _living(tree: Tree) -> list[kernel.Process]:
    found: dict[int, kernel.Process] = {}
    for member in tree.members:
        row = kernel.read_process(member.pid)
        if row is not None and row.start_ticks == member.start_ticks:
            found |= {r.pid: r for r in (row, *kernel.tree_of(row.pid)) if r.alive}
    return list(found.values())
