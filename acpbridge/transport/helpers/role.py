"""What all helpers do as processes: take up a role, fork the next one, reap, hear signals.

Above are guard, keeper, shim and the first process of a pid namespace.
"""

import os
import signal
from collections.abc import Callable, Iterable, Sequence

from acpbridge.transport.helpers.kernel import Process, names_in, process_table, tree_of
from acpbridge.transport.helpers.libc import (
    PR_SET_CHILD_SUBREAPER,
    PR_SET_NAME,
    PR_SET_PDEATHSIG,
    prctl,
)
from acpbridge.transport.helpers.wire import Order

CRASHED = 70  # EX_SOFTWARE: a shim that ends so has proven nothing, the keeper sweeps after it


def become(name: bytes, parent: int) -> bool:
    """Take up a role: a name, a session, subreaper, woken at the parent's death.

    SIGCONT and not a deadly signal: the end of its channel tells a helper what to do, the signal
    only wakes one that somebody stopped. False if the parent was gone before that was arranged.
    """
    prctl(PR_SET_NAME, name)
    if os.getsid(0) != os.getpid():
        os.setsid()
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGCONT)
    return os.getppid() == parent


class Wakeups:
    """Signals as bytes of a pipe, so that one poll sees them together with the sockets."""

    def __init__(self) -> None:
        self.fd, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(write, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        self._told_to_end = False

    def told_to_end(self) -> bool:
        """Take in what came; say whether one of it, now or earlier, was an order to end."""
        try:
            came = os.read(self.fd, 4096)
        except BlockingIOError:
            return self._told_to_end
        self._told_to_end = self._told_to_end or any(number != signal.SIGCHLD for number in came)
        return self._told_to_end


def reap() -> tuple[dict[int, int], bool]:
    """Collect the dead children: wait statuses by pid, and whether there are children left."""
    dead: dict[int, int] = {}
    try:
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return dead, True
            dead[pid] = status
    except ChildProcessError:
        return dead, False


def tree_below_me() -> list[Process]:
    """Return who lives below this process, parents first."""
    # The lists of children may skip one while siblings exit, or be missing from the kernel.
    return tree_of(os.getpid()) or tree_of(os.getpid(), process_table())


def look_below_me() -> list[Process]:
    """Return who lives below this process; without a look if the kernel knows of no child."""
    _, children = reap()
    return tree_below_me() if children else []


def fork(role: Callable[[], None], keep: Iterable[int]) -> int:
    """Fork a process that does `role` and exits, with its standard streams and `keep` only."""
    # Nobody may be hit by a signal while it still has its parent's handlers and wakeup pipe.
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        pid = os.fork()
        if pid == 0:
            _run_role(role, keep)
        return pid
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _run_role(role: Callable[[], None], keep: Iterable[int]) -> None:
    status = CRASHED
    try:
        signal.set_wakeup_fd(-1)
        close_all_but({0, 1, 2, *keep})
        role()
        status = 0
    finally:
        os._exit(status)  # never back into the loop of the parent


def close_all_but(keep: set[int]) -> None:
    """Close every descriptor of this process that is not to be kept."""
    for name in names_in("/proc/self/fd"):
        if int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:
                continue  # the one that listed the directory


def spawn_agent(order: Order, stdio: Sequence[int]) -> int:
    """Start the agent of an order in the current directory and return its pid; OSError."""
    return os.posix_spawn(
        order.program,
        order.argv,
        order.env,
        file_actions=[(os.POSIX_SPAWN_DUP2, fd, i) for i, fd in enumerate(stdio)],
        setsid=True,
        setsigmask=(),
        setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
    )
