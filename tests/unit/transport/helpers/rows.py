"""Rows of a process table that is made up."""

from acpbridge.transport.helpers.kernel import Process

FIELDS = b"%b %d 7 7 0 -1 4194560 111 0 0 0 30 12 0 0 20 0 %d 0 %d 4096 321 18446744073709551615"


def row(pid: int, ppid: int, ticks: int = 500, state: bytes = b"S", threads: int = 1) -> Process:
    return Process(b"%d (x) " % pid + FIELDS % (state, ppid, threads, ticks))


def table(*rows: Process) -> dict[int, Process]:
    return {process.pid: process for process in rows}
