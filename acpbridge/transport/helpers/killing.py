"""Signals that cannot reach a stranger, and the one kill loop; both also for the daemon."""

import os
import signal
import time
from collections.abc import Callable, Iterable

from acpbridge.transport.helpers.kernel import NOT_THERE, Process, read_process

KILL_LIMIT = 5.0  # seconds after which the kill loop reports what is left: uninterruptible sleepers
ROUND_PAUSE = 0.003  # between two looks: a killed process needs about a millisecond to be gone
EMPTY_LOOKS = 2  # one look at /proc is not atomic: a fork can slip past it, but not past the next
# What the keeper grants its shims at the end: their loop, and a margin.
END_LIMIT = KILL_LIMIT + 2.0


def send_signal(pid: int, start_ticks: int, number: int, ppid: int | None = None) -> bool:
    """Signal a process if it is still the one that is meant, and say whether it was sent.

    The pidfd pins whoever has the number now; only then is it asked when it started (and, if
    given, who its parent is: a look that is not atomic may have hung a stranger into our tree).

    Raises:
        OSError: it could not be looked at; nothing was sent.
    """
    if pid <= 0:
        return False
    try:
        fd = os.pidfd_open(pid)
    except NOT_THERE:
        return False
    try:
        now = read_process(pid)
        if now is None or now.start_ticks != start_ticks or ppid not in {None, now.ppid}:
            return False
        signal.pidfd_send_signal(fd, number)
    except NOT_THERE:
        return False
    else:
        return True
    finally:
        os.close(fd)


def signal_all(processes: Iterable[Process], number: int) -> list[int]:
    """Signal each of a tree, and return the pids of those that were reached."""
    return [
        process.pid
        for process in processes
        if send_signal(process.pid, process.start_ticks, number, process.ppid)
    ]


class KillLoop:
    """The last step: STOP all, KILL all, look again, until two looks in a row find nobody.

    Args:
        look: returns who is to die and still lives, parents first.
        limit: seconds after which it gives up and `survivors` names who is left.
        at_once: kills in one step whom it can, given who was found; the signals follow anyway.
    """

    def __init__(
        self,
        look: Callable[[], list[Process]],
        limit: float = KILL_LIMIT,
        at_once: Callable[[list[Process]], None] = lambda _: None,
    ) -> None:
        self.killed: set[int] = set()
        self.survivors: list[int] = []
        self._look = look
        self._limit = limit
        self._at_once = at_once
        self._empty = 0
        self.again()

    def again(self) -> None:
        """Begin anew, with the whole limit: there is more to kill than when it began."""
        self._empty = 0
        self._deadline = time.monotonic() + self._limit

    def round(self) -> bool:
        """Do one round, a few milliseconds, and say whether it was the last."""
        members = self._look()
        if not members:
            self._empty += 1
            return self._empty >= EMPTY_LOOKS
        self._empty = 0
        if time.monotonic() > self._deadline:
            self.survivors = [member.pid for member in members]
            self.killed.difference_update(self.survivors)
            return True
        self._at_once(members)
        signal_all(members, signal.SIGSTOP)
        # Leaves first: a parent's death gives its children another parent, and nobody is
        # signalled whose parent is not the one that was seen.
        self.killed.update(signal_all(reversed(members), signal.SIGKILL))
        return False

    def run(self) -> None:
        """Do rounds until the last; blocks for at most the limit."""
        while not self.round():
            time.sleep(ROUND_PAUSE)
