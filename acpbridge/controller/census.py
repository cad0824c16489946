"""What really runs below each shim, asked from the kernel at call time. Blocks: use a thread.

Nothing is remembered between two calls but a boot time: a status that comes from memory lies.
"""

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import psutil

from acpbridge.transport.helpers import kernel

_STATES: Final = {
    "R": "running",
    "S": "sleeping",
    "D": "uninterruptible",
    "T": "stopped",
    "t": "traced",
    "Z": "zombie",
    "I": "idle",
    "X": "dead",
}
_OURS: Final = frozenset({"keeper", "shim"})
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_LOOKS: Final = 10  # at a line of parents of which one dies during each look

Pair = tuple[int, int]  # pid and start ticks, which together are unique


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """One process as the kernel tells it.

    Attributes:
        pid: its number.
        ppid: its parent's.
        start_ticks: when it started, in clock ticks since boot; the pair with pid is unique.
        name: of the program.
        state: `running`, `sleeping`, `stopped`, `zombie`, ...
        rss_bytes: resident memory.
        cpu_seconds: user and system time.
        started_at: ISO 8601, UTC.
        role: `keeper`, `shim`, `agent` or `child`.
        pgid: of its process group; 0 where nobody looked.
    """

    pid: int
    ppid: int
    start_ticks: int
    name: str
    state: str
    rss_bytes: int
    cpu_seconds: float
    started_at: str
    role: str
    pgid: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return the shape in `status`."""
        return {
            "pid": self.pid,
            "ppid": self.ppid,
            "name": self.name,
            "state": self.state,
            "rssBytes": self.rss_bytes,
            "cpuSeconds": round(self.cpu_seconds, 2),
            "startedAt": self.started_at,
            "role": self.role,
        }


def now_ticks() -> int:
    """Return the present moment as the kernel counts it for the start of a process."""
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * _TICKS)


def look(pid: int, start_ticks: int, role: str) -> ProcessInfo | None:
    """Return one process, None if it is gone or its pid is another's by now."""
    row = kernel.read_process(pid)
    if row is None or row.start_ticks != start_ticks:
        return None
    return _info(row, role)


def tree(shim: Pair, agent: Pair) -> list[ProcessInfo]:
    """Return a shim and all that is below it; see `trees`."""
    return trees({"": (shim, agent)})[""]


def trees(tops: Mapping[str, tuple[Pair, Pair]]) -> dict[str, list[ProcessInfo]]:
    """Return each shim and all that is below it, parents first, zombies included: one look at all.

    Args:
        tops: pid and start ticks of a shim, and of its agent, by any name.
    """
    table = kernel.process_table()
    children: dict[int, list[kernel.Process]] = {}
    for row in table.values():
        children.setdefault(row.ppid, []).append(row)
    return {
        name: _tree(table.get(shim[0]), shim, agent, children)
        for name, (shim, agent) in tops.items()
    }


def _tree(
    top: kernel.Process | None,
    shim: Pair,
    agent: Pair,
    children: dict[int, list[kernel.Process]],
) -> list[ProcessInfo]:
    if top is None or top.start_ticks != shim[1]:
        return []
    rows = [top]
    for row in rows:
        rows += children.pop(row.pid, [])
    roles = {shim: "shim", agent: "agent"}
    return [_info(row, roles.get((row.pid, row.start_ticks), "child")) for row in rows]


def _info(row: kernel.Process, role: str) -> ProcessInfo:
    return ProcessInfo(
        pid=row.pid,
        ppid=row.ppid,
        start_ticks=row.start_ticks,
        name=_name(row, role),
        state=_STATES.get(row.state, row.state),
        rss_bytes=row.rss_pages * _PAGE,
        cpu_seconds=row.cpu_ticks / _TICKS,
        started_at=_started(row.start_ticks),
        role=role,
        pgid=row.pgid,
    )


def _name(row: kernel.Process, role: str) -> str:
    """Return the program's name: the file that runs, which a process cannot choose.

    What it calls itself says less: node is `MainThread`. Only our own helpers, all one file of
    Python, are told apart by it.
    """
    if role not in _OURS:
        with suppress(psutil.Error, OSError):
            file = Path(psutil.Process(row.pid).exe()).name
            return os.fsencode(file).decode("utf-8", "replace") or row.name
    return row.name


def ancestors(pid: int) -> list[tuple[int, int]]:
    """Return pid and start ticks of a process and of everything above it, nearest first.

    Empty when the process is gone, or when its line changed at every look.
    """
    for _ in range(_LOOKS):
        out: list[tuple[int, int]] = []
        above = pid
        while above > 0 and (row := kernel.read_process(above)) is not None:
            out.append((above, row.start_ticks))
            above = row.ppid
            if above in (known for known, _ in out):
                break
        # One that died in between has given its children another parent: look again. Where /proc
        # hides other users' processes the line ends at the first of them, which is none of ours.
        if above == 0 or not out or _exists(above):
            return out
    return []


def _exists(pid: int) -> bool:
    try:
        os.getsid(pid)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def marker(pid: int, name: str) -> str:
    """Return an environment variable of a process as it was at its exec; "" if there is none."""
    prefix = name.encode() + b"="
    for word in kernel.read_file(f"/proc/{pid}/environ").split(b"\0"):
        if word.startswith(prefix):
            return word[len(prefix) :].decode("utf-8", "replace")
    return ""


def group(pid: int) -> str:
    """Return the control group that a service manager gave a process; "" where there are none."""
    lines = kernel.read_file(f"/proc/{pid}/cgroup").decode("utf-8", "backslashreplace").split("\n")
    paths = dict(line.split(":", 2)[1:] for line in lines if line.count(":") > 1)
    # Where systemd has a hierarchy of version 1, everybody may be at the top of the other one.
    return paths.get("name=systemd", paths.get("", ""))


def _started(start_ticks: int) -> str:
    at = psutil.boot_time() + start_ticks / _TICKS
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
