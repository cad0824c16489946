"""What the kernel says about processes: who is below whom, who bears a marker, who is gone when.

Of the standard library only, and of nothing of acpbridge: it is the witness of what that leaves.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

PROC = Path("/proc")
PAUSE = 0.001  # between two looks; a look at forty processes takes about as long


@dataclass(frozen=True)
class Seen:
    """One process as it was seen once; pid and start together are nobody else's.

    Attributes:
        pid: its number.
        start: when it started, in the kernel's ticks.
        ppid: its parent's number at that moment.
        name: as the kernel has it.
    """

    pid: int
    start: int
    ppid: int = field(compare=False)
    name: str = field(compare=False)

    def lives(self) -> bool:
        """Whether it can still run code: it is there, and no zombie."""
        now = _look(self.pid)
        return now is not None and now[0].start == self.start and now[1] not in "ZX"


def table() -> dict[int, Seen]:
    """Return everything that lives, by number."""
    looks = (_look(int(e.name)) for e in PROC.iterdir() if e.name.isdecimal())
    return {look[0].pid: look[0] for look in looks if look is not None and look[1] not in "ZX"}


def below(top: int, rows: Mapping[int, Seen]) -> set[Seen]:
    """Return a process and everything below it."""
    found = {top} & rows.keys()
    size = 0
    while size != len(found):
        size = len(found)
        found |= {row.pid for row in rows.values() if row.ppid in found}
    return {rows[pid] for pid in found}


def above(pid: int, rows: Mapping[int, Seen]) -> list[Seen]:
    """Return a process and all its ancestors, nearest first."""
    line = []
    while pid in rows:
        line.append(rows[pid])
        pid = rows[pid].ppid
    return line


def bearing(marker: str) -> dict[str, Seen]:
    """Return who has the marker as a word of its arguments, by the word behind it."""
    found = {}
    for pid, row in table().items():
        words = _read(pid, "cmdline").decode("utf-8", "replace").split("\0")
        if marker in words[:-1]:
            found[words[words.index(marker) + 1]] = row
    return found


def started_under(home: Path) -> set[Seen]:
    """Return who has a state directory in its environment, as every agent of it has."""
    needle = b"\0ACPBRIDGE_HOME=%b\0" % os.fsencode(home)
    return {r for r in table().values() if needle in b"\0" + _read(r.pid, "environ") + b"\0"}


def watch(groups: Mapping[str, Iterable[Seen]], since: float, limit: float) -> dict[str, float]:
    """Look until nobody of any group lives; return the seconds after which each group was gone.

    Args:
        groups: who is watched, by any name.
        since: the moment on the monotonic clock from which the seconds are counted.
        limit: how many seconds to look at most; a group that lives then is not in the answer.
    """
    left = {name: set(members) for name, members in groups.items()}
    gone: dict[str, float] = {}
    while left and time.monotonic() < since + limit:
        for name in list(left):
            left[name] = {row for row in left[name] if row.lives()}
            if not left[name]:
                gone[name] = time.monotonic() - since
                del left[name]
        time.sleep(PAUSE)
    return gone


def _look(pid: int) -> tuple[Seen, str] | None:
    stat = _read(pid, "stat").decode("utf-8", "replace")
    if not stat:
        return None
    head, _, tail = stat.rpartition(")")
    fields = tail.split()
    name = head.partition("(")[2]
    return Seen(pid, int(fields[19]), int(fields[1]), name), fields[0]


def _read(pid: int, name: str) -> bytes:
    try:
        return (PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""
