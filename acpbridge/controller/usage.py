"""What the tree below one shim takes, asked from the kernel. Blocks: use a thread.

The sum of resident memory counts what processes share once for each, so it is never too small:
where even that is far from a limit, nothing else is asked. Near a limit the kernel is asked for the
proportional share of each process (PSS): a shared page counts once among all that share it.

One look proves little: a process that has just forked, and is about to become another program, is
there twice for a moment. What is near a limit is looked at again, and the smaller figure counts;
what came and went between two looks is not known, and nothing is said of it.
"""

import os
import time
from collections.abc import Sequence
from typing import Final

from acpbridge.controller.bounds import Bounds, Figure, Usage, judge
from acpbridge.transport.helpers import kernel

# Between two looks: a fork becomes another program within milliseconds, also on a busy machine.
SECOND_LOOK: Final = 0.05

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


def measure(
    shim: tuple[int, int], limits: Bounds, beside: Sequence[tuple[int, int]] = ()
) -> Usage | None:
    """Return what lives below a shim, and what it holds; None when the shim is gone.

    Args:
        shim: its pid and start ticks.
        limits: near which it is looked at more closely.
        beside: further shims whose trees count with it, as far as they are there.

    Raises:
        OSError: the kernel could not be asked; that says nothing about the tree.
    """
    first = _look_at_all(shim, beside, exact=False)
    if first is None:
        return None
    near = {finding.figure for finding in judge(first, limits)}
    if not near:
        return first
    time.sleep(SECOND_LOOK)
    second = _look_at_all(shim, beside, exact=Figure.MEMORY in near)
    return None if second is None else first.least(second)


def _look_at_all(
    shim: tuple[int, int], beside: Sequence[tuple[int, int]], *, exact: bool
) -> Usage | None:
    own = _look(shim, exact=exact)
    if own is None:
        return None
    for other in beside:
        more = _look(other, exact=exact)
        own = own if more is None else own.plus(more)
    return own


def _look(shim: tuple[int, int], *, exact: bool) -> Usage | None:
    pid, start_ticks = shim
    rows = kernel.tree_of(pid)
    memory = sum(_share(row) if exact else _resident(row) for row in rows)
    # Asked after the look: until then nobody else had its number.
    top = kernel.read_process(pid)
    if top is None or top.start_ticks != start_ticks:
        return None
    return Usage(len(rows), memory)


def _resident(row: kernel.Process) -> int:
    return row.rss_pages * _PAGE


def _share(row: kernel.Process) -> int:
    """Return the proportional share of a process; of one that hides it, what is resident."""
    for line in kernel.read_file(f"/proc/{row.pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return min(int(line.split()[1]) * 1024, _resident(row))
    return _resident(row) if kernel.read_process(row.pid) is not None else 0
