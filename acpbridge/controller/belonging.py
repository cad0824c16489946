"""Whose processes are whose: an agent's tree, and the trees of the terminals that it had started.

Above is the supervisor, which runs them. Each tree has a shim of its own, and all of a session are
shown, counted, written down and ended under the session's name. Blocks: use a thread.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Final

from acpbridge.controller import census
from acpbridge.controller.journal import Entry, Tree
from acpbridge.controller.supervised import SupervisedProcess
from acpbridge.transport.helpers import kernel
from acpbridge.transport.tree import ProcessId

# What the command of a terminal is called where an agent is called `agent`.
TERMINAL: Final = "terminal"


def pair(identity: ProcessId) -> census.Pair:
    """Return a process as the census names it."""
    return identity.pid, identity.start_ticks


def by_owner(processes: Iterable[SupervisedProcess]) -> dict[str, list[SupervisedProcess]]:
    """Return what runs by whose it is, the owner's own process first."""
    found: defaultdict[str, list[SupervisedProcess]] = defaultdict(list)
    for process in processes:
        found[process.spec.whose].append(process)
    return {
        name: sorted(those, key=lambda process: process.spec.name != name)
        for name, those in found.items()
    }


def trees(processes: Iterable[SupervisedProcess]) -> dict[str, list[census.ProcessInfo]]:
    """Return the whole trees by whose they are, all from one look at the kernel's table."""
    known = {process.spec.name: process for process in processes}
    tops = {name: (pair(p.child.shim), pair(p.child.agent)) for name, p in known.items()}
    found = census.trees(tops)
    out: defaultdict[str, list[census.ProcessInfo]] = defaultdict(list)
    for owner, those in by_owner(known.values()).items():
        for process in those:
            out[owner] += shown(process, found[process.spec.name])
    return dict(out)


def shown(process: SupervisedProcess, rows: list[census.ProcessInfo]) -> list[census.ProcessInfo]:
    """Return what is below a shim; where that is gone, what its control group still has.

    While the shim lives all of the tree is below it: who is in the group and is not was moved in.
    """
    if not rows:
        left = (census.look(row.pid, row.start_ticks, "child") for row in process.hold.rows())
        return [info for info in left if info is not None]
    if not process.spec.owner:
        return rows
    return [replace(row, role=TERMINAL) if row.role == "agent" else row for row in rows]


def recorded(processes: Iterable[SupervisedProcess], before: Mapping[str, Tree]) -> dict[str, Tree]:
    """Return what lives of each owner's trees, as the journal has it.

    Args:
        processes: all that run.
        before: what was written down last: who was seen in a tree stays, though its shim be gone.
    """
    return {name: _tree(those, before.get(name)) for name, those in by_owner(processes).items()}


def _tree(processes: list[SupervisedProcess], before: Tree | None) -> Tree:
    own, *others = processes
    spec, shim = own.spec, _entry(own.child.shim)
    argv = hashlib.sha256("\0".join(spec.argv).encode("utf-8", "surrogateescape"))
    known = before.members if before is not None and before.shim == shim else ()
    members = {member: None for member in known if member.alive()}
    for process in processes:
        members |= dict.fromkeys(_members(process))
    beside = tuple(_entry(process.child.shim) for process in others)
    agent = _entry(own.child.agent)
    return Tree(shim, agent, tuple(members), argv.hexdigest(), spec.parent, spec.above, beside)


def _members(process: SupervisedProcess) -> list[Entry]:
    shim = _entry(process.child.shim)
    rows = kernel.tree_of(shim.pid)
    if not shim.alive():  # asked after the look: until then nobody else had its number
        rows = process.hold.rows()
    return [Entry(row.pid, row.start_ticks) for row in rows]


def _entry(identity: ProcessId) -> Entry:
    return Entry(identity.pid, identity.start_ticks)
