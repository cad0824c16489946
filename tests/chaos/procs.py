"""The kernel's table of processes, read by this package's own code, and signals by pidfd."""

import os
import signal
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

Who = tuple[int, int]  # pid and start ticks
PAUSE = 0.005


@dataclass(frozen=True, slots=True)
class Row:
    """One process at one moment."""

    pid: int
    ppid: int
    start: int
    state: str
    name: str

    @property
    def who(self) -> Who:
        return self.pid, self.start

    @property
    def argv(self) -> bytes:
        return _read(self.pid, "cmdline")

    @property
    def environ(self) -> bytes:
        return _read(self.pid, "environ")


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""


def row(pid: int) -> Row | None:
    stat = _read(pid, "stat")
    if not stat:
        return None
    head, _, tail = stat.rpartition(b")")
    fields = tail.split()
    name = head.partition(b" (")[2].decode(errors="replace")
    return Row(pid, int(fields[1]), int(fields[19]), fields[0].decode(), name)


def table() -> dict[int, Row]:
    names = (entry.name for entry in Path("/proc").iterdir())
    found = (row(int(name)) for name in names if name.isdecimal())
    return {one.pid: one for one in found if one is not None}


def below(root: int, rows: Mapping[int, Row]) -> list[Row]:
    """Return all that is below a process, zombies included."""
    children: dict[int, list[Row]] = {}
    for one in rows.values():
        children.setdefault(one.ppid, []).append(one)
    found = list(children.pop(root, []))
    for one in found:
        found += children.pop(one.pid, [])
    return found


def send(one: Row, number: int) -> bool:
    """Signal a process through a pidfd, if it is still the one that was seen."""
    try:
        fd = os.pidfd_open(one.pid)
    except OSError:
        return False
    try:
        now = row(one.pid)
        if now is None or now.start != one.start:
            return False
        signal.pidfd_send_signal(fd, number)
    except OSError:
        return False
    else:
        return True
    finally:
        os.close(fd)


def alive(who: Who) -> bool:
    now = row(who[0])
    return now is not None and now.start == who[1] and now.state not in "ZX"


def wait_dead(those: Iterable[Who], limit: float) -> list[Who]:
    """Wait until processes are dead; return those that are not."""
    left = list(those)
    deadline = time.monotonic() + limit
    while (left := [who for who in left if alive(who)]) and time.monotonic() < deadline:
        time.sleep(PAUSE)
    return left
