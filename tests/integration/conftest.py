"""What every integration test is held to, and an observer that trusts no report of ours."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import anyio
import pytest

PROC = Path("/proc")


def open_files() -> Counter[str]:
    """Return what this process has open, and how often."""
    found: Counter[str] = Counter()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            found[str(entry.readlink())] += 1
        except OSError:
            continue  # the one that listed the directory
    return found


def descendants(root: int) -> dict[int, str]:
    """Return everything below a process, zombies included: the stat line of each."""
    rows: dict[int, tuple[int, str]] = {}
    for entry in PROC.iterdir():
        if entry.name.isdecimal():
            try:
                stat = (entry / "stat").read_text(errors="replace", encoding="utf-8")
            except OSError:
                continue
            rows[int(entry.name)] = int(stat.rpartition(")")[2].split()[1]), stat[:80]
    below = {root}
    size = 0
    while size != len(below):
        size = len(below)
        below |= {pid for pid, (ppid, _) in rows.items() if ppid in below}
    return {pid: rows[pid][1] for pid in below - {root}}


class Observer:
    """Finds the processes of one test, by a marker in their arguments or environment."""

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def alive(self) -> dict[int, str]:
        """Look at all of /proc; return pid and command of whoever carries the marker."""
        needle = self.marker.encode()
        found = {}
        for entry in PROC.iterdir():
            if not entry.name.isdecimal() or int(entry.name) == os.getpid():
                continue
            try:
                command = (entry / "cmdline").read_bytes()
                if needle in command or needle in (entry / "environ").read_bytes():
                    found[int(entry.name)] = command.replace(b"\0", b" ").decode()[-80:]
            except OSError:
                continue  # gone between the two looks
        return found

    async def wait_gone(self) -> None:
        """Return when nobody carries the marker any more; the caller sets the limit."""
        while pids := self.alive():
            for pid in pids:
                try:
                    fd = os.pidfd_open(pid)
                except ProcessLookupError:
                    continue
                try:
                    await anyio.wait_readable(fd)
                finally:
                    os.close(fd)


@pytest.fixture
def observer() -> Iterator[Observer]:
    """Give the test a marker of its own, and hold it to an empty table at its end."""
    observer = Observer(f"marker-{uuid4().hex}")
    yield observer
    assert observer.alive() == {}


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """After each test: no process below this one, zombies included, and no more open files."""
    before = open_files()
    yield
    assert descendants(os.getpid()) == {}
    assert open_files() - before == Counter()
