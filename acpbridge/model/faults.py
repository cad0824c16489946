"""The fault points: every place at which a write, a commit, a rename or a send may be cut off.

A table, compared with the source by a test. What happens at a point is decided by whoever handed
in the `Faults`: nothing, but in a daemon that a test has armed (`acpbridge.daemon.arming`).
"""

from enum import StrEnum
from typing import Final, Protocol


class Kind(StrEnum):
    """What a point stands at."""

    BEFORE = "before"  # something that can fail: an error may be raised here
    WRITE = "write"  # the same, and only a part of the bytes may be written
    AFTER = "after"  # it has happened: nothing but a kill makes sense here


POINTS: Final[dict[str, Kind]] = {
    # The lock of the state directory, and what a kill past a frozen daemon has left for it.
    "lock.write": Kind.WRITE,
    "lock.written": Kind.AFTER,
    "killed.note": Kind.WRITE,
    "killed.forget": Kind.BEFORE,
    # A SQLite file of ours: made, or made anew from a damaged one.
    "store.create": Kind.BEFORE,
    "store.upgrade": Kind.BEFORE,
    "store.rescued": Kind.BEFORE,
    "store.aside": Kind.BEFORE,
    "store.replace": Kind.BEFORE,
    # The ledger, and the events of an agent.
    "ledger.before_commit": Kind.BEFORE,
    "ledger.after_commit": Kind.AFTER,
    "log.before_commit": Kind.BEFORE,
    "log.after_commit": Kind.AFTER,
    "log.forget": Kind.BEFORE,
    "log.reclaim": Kind.BEFORE,
    # The audit.
    "audit.recover": Kind.BEFORE,
    "audit.write": Kind.WRITE,
    "audit.written": Kind.AFTER,
    "audit.sync": Kind.BEFORE,
    "audit.synced": Kind.AFTER,
    "audit.cut": Kind.BEFORE,
    "audit.link": Kind.BEFORE,
    "audit.replace": Kind.BEFORE,
    "permission.record": Kind.BEFORE,
    "permission.recorded": Kind.BEFORE,
    # A file that is written for an agent.
    "file.write": Kind.WRITE,
    "file.sync": Kind.BEFORE,
    "file.rename": Kind.BEFORE,
    "file.renamed": Kind.AFTER,
    # The journal of processes.
    "journal.write": Kind.WRITE,
    "journal.rename": Kind.BEFORE,
    "journal.renamed": Kind.AFTER,
    # What a detached daemon says of itself.
    "logfile.write": Kind.WRITE,
    "logfile.turn": Kind.BEFORE,
    # To a client, and to an agent; and what comes before the latter.
    "socket.send": Kind.WRITE,
    "socket.sent": Kind.AFTER,
    "agent.send": Kind.WRITE,
    "agent.sent": Kind.AFTER,
    "supervisor.spawned": Kind.AFTER,
    "session.before_prompt": Kind.BEFORE,
}


class Faults(Protocol):
    """Named points at which a test may fail or kill the process."""

    def __call__(self, point: str) -> int | None:
        """Pass the point, or do to this process what a test asked for.

        Returns:
            How many bytes the write at this point gets done, None for all of them.

        Raises:
            OSError: which the disk, the descriptors or the memory would give.
        """
        ...


def no_faults(point: str) -> None:
    """Pass every fault point."""
