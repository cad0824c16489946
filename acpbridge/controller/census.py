"""What really runs below each shim, asked from the kernel at call time. Blocks: use a thread.

Nothing is remembered between two calls but a boot time: a status that comes from memory lies.
"""

import os
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import psutil

from acpbridge.transport import keeper as kernel

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
_TICKS: Final = os.sysconf("SC_CLK_TCK")


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


def look(pid: int, start_ticks: int, role: str) -> ProcessInfo | None:
    """Return one process, None if it is gone or its pid is another's by now."""
    try:
        process = psutil.Process(pid)
        row = kernel.read_process(pid)
        if row is None or row.start_ticks != start_ticks:
            return None
        with process.oneshot():
            times = process.cpu_times()
            return ProcessInfo(
                pid=pid,
                ppid=row.ppid,
                start_ticks=row.start_ticks,
                name=process.name(),
                state=_STATES.get(row.state, row.state),
                rss_bytes=process.memory_info().rss,
                cpu_seconds=times.user + times.system,
                started_at=_started(row.start_ticks),
                role=role,
            )
    except psutil.Error:
        return None


def tree(shim: tuple[int, int], agent: tuple[int, int]) -> list[ProcessInfo]:
    """Return a shim and all that lives below it, parents first, zombies included.

    Args:
        shim: pid and start ticks of the shim.
        agent: pid and start ticks of the agent.
    """
    found = look(*shim, "shim")
    if found is None:
        return []
    rows = kernel.tree_of(shim[0])
    infos = [
        look(row.pid, row.start_ticks, "agent" if (row.pid, row.start_ticks) == agent else "child")
        for row in rows
    ]
    return [found, *(info for info in infos if info is not None)]


def ancestors(pid: int) -> list[tuple[int, int]]:
    """Return pid and start ticks of a process and of everything above it, nearest first."""
    out: list[tuple[int, int]] = []
    while pid > 1:
        row = kernel.read_process(pid)
        if row is None or (pid, row.start_ticks) in out:
            break
        out.append((pid, row.start_ticks))
        pid = row.ppid
    return out


def marker(pid: int, name: str) -> str:
    """Return an environment variable of a process as it was at its exec; "" if there is none."""
    prefix = name.encode() + b"="
    for word in kernel.read_file(f"/proc/{pid}/environ").split(b"\0"):
        if word.startswith(prefix):
            return word[len(prefix) :].decode("utf-8", "replace")
    return ""


def _started(start_ticks: int) -> str:
    at = psutil.boot_time() + start_ticks / _TICKS
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
