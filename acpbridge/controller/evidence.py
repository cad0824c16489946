"""Whose a process is that nobody owns: proven to be an earlier daemon's, in doubt, or a stranger's.

Three kinds of evidence, none of them a guess. The journal: a pid counts with the start ticks that
were written down in this boot, by this user, in this state directory. The marker in a process's
environment, with the state directory beside it: a copy of it proves nothing, so it counts only for
an orphan, younger than the daemon whose journal is there, in nobody else's session, and in or
below that daemon's control group: a service manager that an agent has handed its environment to
gives it to whatever it starts. And what is below one of those. Never touched: another user's
process, this process, a daemon that is alive, and all above and below them. Above is the sweep;
below is the kernel's table of processes.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from acpbridge.config.environment import HOME, MARK
from acpbridge.controller import census
from acpbridge.controller.journal import Entry, Journal
from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.transport.helpers import kernel

Table = Mapping[int, kernel.Process]

# What the router puts behind the session's key.
_RANDOM: Final = re.compile(r"[0-9a-f]{32}")

# Who is given orphans whoever it is: the first process, and one outside this pid namespace.
_ADOPTERS: Final = (0, 1)


@dataclass(frozen=True, slots=True)
class Doubt:
    """A process that may be ours.

    Attributes:
        entry: who it is.
        reason: what speaks for it and what against it, for people.
    """

    entry: Entry
    reason: str


@dataclass(frozen=True, slots=True)
class Findings:
    """What one look came to: the living that are proven ours, and those in doubt."""

    ours: tuple[kernel.Process, ...]
    doubts: tuple[Doubt, ...]


def judge(table: Table, journal: Journal | None, home: str) -> Findings:
    """Say of each process whether it is proven to be left of the daemon of a journal.

    Args:
        table: all processes.
        journal: of the daemon that is gone, or of this one after the loss of its helpers.
        home: the state directory.
    """
    return _Look(table, journal, home).findings()


class _Look:
    def __init__(self, table: Table, journal: Journal | None, home: str) -> None:
        known = journal is not None and journal.of_this_boot()
        self._table = table
        self._home = home
        self._recorded = journal.entries() if known and journal is not None else set()
        # A copy of another directory's journal names processes that are another daemon's.
        self._journal = journal if known and journal and journal.home in ("", home) else None
        self._spared = _spared(journal if known else None, table)
        self._adopters = _adopters(self._journal, table)
        self._tops: dict[int, kernel.Process] = {}
        self._doubts: dict[int, Doubt] = {}

    def findings(self) -> Findings:
        # Parents first: what is below one of ours needs no evidence of its own.
        for row in sorted(self._table.values(), key=lambda row: (row.start_ticks, row.pid)):
            if row.pid not in self._spared and row.alive:
                self._weigh(row)
        found = dict(self._tops)
        for pid in self._tops:
            below = kernel.tree_of(pid, self._table, skip=self._spared)
            found |= {row.pid: row for row in below}
        for row in list(found.values()):
            if row.pid in self._spared:
                del found[row.pid]
            elif _owner(row.pid) != os.getuid():
                del found[row.pid]
                self._doubt(row, "was left by a daemon that was killed, but runs as another user")
        doubts = (doubt for pid, doubt in self._doubts.items() if pid not in found)
        return Findings(tuple(found.values()), tuple(doubts))

    def _weigh(self, row: kernel.Process) -> None:
        if (row.pid, row.start_ticks) in self._recorded:
            if self._journal is not None:
                self._tops[row.pid] = row
            else:
                self._doubt(
                    row, "stands in the process journal, but another state directory wrote that"
                )
            return
        session = _marked(row, self._home)
        if session:
            against = self._against(row)
            if against:
                self._doubt(row, f"bears the marker of {session}, but {against}")
            else:
                self._tops[row.pid] = row

    def _against(self, row: kernel.Process) -> str:
        """Return what keeps a marker from being a proof; "" if nothing does."""
        if self._journal is None:
            return "no process journal of this boot says that a daemon left it"
        if row.start_ticks < self._journal.daemon.start_ticks:
            return "is older than the daemon that was killed"
        if row.ppid in self._tops:
            return ""
        if row.ppid not in self._adopters:
            # One who is missing died during this look: the next one finds who has it now.
            parent = self._table.get(row.ppid)
            return f"{_named(parent) if parent else f'pid {row.ppid}'} has started it"
        if not _within(census.group(row.pid), self._journal.group):
            return "it is in another control group than the daemon was"
        leader = self._foreign_leader(row)
        return "" if leader is None else f"it is in the session of {_named(leader)}"

    def _foreign_leader(self, row: kernel.Process) -> kernel.Process | None:
        """Return who leads its session, if that is a living stranger.

        Orphans of an agent are in the session that their shim made, or in one of their own.
        """
        leader = self._table.get(_session(row.pid))
        if leader is None or leader.pid in {row.pid, *self._tops} or not leader.alive:
            return None
        return leader if leader.start_ticks <= row.start_ticks else None  # else its number is new

    def _doubt(self, row: kernel.Process, reason: str) -> None:
        self._doubts[row.pid] = Doubt(Entry(row.pid, row.start_ticks), reason)


def _spared(journal: Journal | None, table: Table) -> set[int]:
    """Return who is never touched: this process and a living daemon, all above and all below."""
    spared = {1}
    tops = [os.getpid()]
    if journal is not None and _lives(journal.daemon, table):
        tops.append(journal.daemon.pid)
    for top in tops:
        spared |= {below.pid for below in kernel.tree_of(top, table)}
        spared.update(_upwards(top, table))
    return spared


def _upwards(pid: int, table: Table) -> list[int]:
    line: list[int] = []
    while pid in table and pid not in line:
        line.append(pid)
        pid = table[pid].ppid
    return line


def _adopters(journal: Journal | None, table: Table) -> set[int]:
    """Return who may have been given a dead daemon's orphans."""
    above = () if journal is None else journal.above
    if not above:  # an older daemon did not write it down: ours were started from the same place
        return {*_ADOPTERS, *_upwards(os.getpid(), table)}
    return {*_ADOPTERS, *(entry.pid for entry in above if _lives(entry, table))}


def _lives(entry: Entry, table: Table) -> bool:
    row = table.get(entry.pid)
    return row is not None and row.start_ticks == entry.start_ticks and row.alive


def _within(group: str, top: str) -> bool:
    """Tell whether a control group is another one or below it; where it is not known it may be."""
    return not top or not group or f"{group}/".startswith(f"{top.rstrip('/')}/")


def _named(row: kernel.Process) -> str:
    return f"{row.name} (pid {row.pid})"


def _marked(row: kernel.Process, home: str) -> str:
    """Return the key of the session whose marker a process of ours bears; "" for none."""
    if _owner(row.pid) != os.getuid() or census.marker(row.pid, HOME) != home:
        return ""
    name, _, random = census.marker(row.pid, MARK).rpartition(".")
    try:
        key = SessionKey.parse(name)
    except BridgeError:
        return ""
    return str(key) if _RANDOM.fullmatch(random) else ""


def _owner(pid: int) -> int:
    """Return the real user of a process, -1 for one that is gone.

    Not the owner of its directory in /proc: that is root for one which lets nobody look into it.
    """
    _, _, rest = kernel.read_file(f"/proc/{pid}/status").partition(b"\nUid:\t")
    return int(rest.split()[0]) if rest else -1


def _session(pid: int) -> int:
    try:
        return os.getsid(pid)
    except OSError:
        return 0
