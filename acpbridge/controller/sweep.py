"""What an earlier daemon left behind, ended at the start. Blocks: use a thread.

Only for the case that daemon, guard, keeper and shim were killed in the same moment, or that all
three helpers were. `evidence` says whose a process is; what it cannot prove is not touched, but
named.
"""

from dataclasses import dataclass
from pathlib import Path

from acpbridge.controller.evidence import Doubt, Findings, judge
from acpbridge.controller.journal import Entry, Journal
from acpbridge.transport.helpers import kernel, killing


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep came to.

    Attributes:
        killed: the pids of those that were ended.
        left: those that were proven to be ours, and live all the same.
        doubts: those that may be ours; nobody signalled them.
    """

    killed: tuple[int, ...] = ()
    left: tuple[Entry, ...] = ()
    doubts: tuple[Doubt, ...] = ()


def sweep(path: Path, home: str) -> Swept:
    """End what an earlier daemon of this state directory left.

    Args:
        path: of the journal, in which that daemon wrote down what ran.
        home: the state directory, as its agents have it in their environment.
    """
    return sweep_after(Journal.read(path), home)


def sweep_after(journal: Journal | None, home: str) -> Swept:
    """End what is proven to be left of a daemon or its helpers.

    Args:
        journal: what ran; None where nobody can tell.
        home: the state directory.
    """
    last = Findings((), ())

    def look() -> list[kernel.Process]:
        nonlocal last
        last = judge(kernel.process_table(), journal, home)
        return list(last.ours)

    loop = killing.KillLoop(look)
    loop.run()
    left = tuple(Entry(row.pid, row.start_ticks) for row in last.ours)
    return Swept(tuple(sorted(loop.killed)), left, last.doubts)
