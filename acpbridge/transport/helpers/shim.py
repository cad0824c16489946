"""The shim: starts one agent on the daemon's own pipes, watches it, and ends its whole tree.

Above is the keeper, which forks it. It ends the tree when the daemon says so on its channel, when
the channel closes, or when it is told to by a signal; its last word is the receipt.
"""

import _socket
import errno
import os
import select
import signal
import time
from collections.abc import Mapping, Sequence

from acpbridge.transport.helpers.cgroup import Cgroup
from acpbridge.transport.helpers.kernel import Process, descends_from, read_process
from acpbridge.transport.helpers.killing import KillLoop, signal_all
from acpbridge.transport.helpers.namespace import Init, enter_namespaces, known_inside_as
from acpbridge.transport.helpers.role import Wakeups, become, fork, reap, spawn_agent, tree_below_me
from acpbridge.transport.helpers.wire import Order, channel_of, encode_pids, hear, tell


class Shim:
    """Starts one agent, watches it, and ends its whole tree; one process for each agent."""

    def __init__(self, fds: Sequence[int], keeper: int) -> None:
        self._stdio = list(fds[:3])
        self._channel = channel_of(fds[3])
        self._order_fd = fds[4]
        self._keeper = keeper
        self._agent = 0
        self._cgroup: Cgroup | None = None
        self._init = 0  # of the agent's pid namespace, where it has one
        self._report: _socket.socket | None = None  # from it
        self._linger = 0.0
        self._seen: set[int] = set()
        self._deadline: float | None = None

    def run(self) -> None:
        """Live through it all: start, watch, end, report."""
        in_time = become(b"acpb-shim", self._keeper)
        wakeups = Wakeups()
        order = Order.decode(_read_order(self._order_fd))
        self._linger = order.linger
        if not in_time or not self._start(order):
            tell(self._channel, b"gone - -")
            return
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        poll.register(wakeups.fd, select.POLLIN)
        if self._report is not None:
            poll.register(self._report, select.POLLIN)
        going_on = True
        while going_on:
            poll.poll(self._patience())
            told_to_end = wakeups.told_to_end()
            going_on = self._reap() and self._obey() and not told_to_end and self._patience() != 0
        loop = KillLoop(lambda: tree_below_me() if self._reap() else [], at_once=self._kill_at_once)
        loop.run()
        if self._cgroup is not None and not loop.survivors:
            self._cgroup.remove()
        dead = (self._seen | loop.killed).difference(loop.survivors)
        tell(self._channel, b"gone %b %b" % (encode_pids(dead), encode_pids(loop.survivors)))

    def _start(self, order: Order) -> bool:
        step = b"cwd"
        try:
            os.chdir(order.cwd)
            if hear(self._channel) is not None:
                return False  # closed, or told to kill before there was anything
            if order.cgroup:
                step = b"cgroup"
                self._cgroup = Cgroup(order.cgroup)
                self._cgroup.enter()
            try:
                step = b"pidns" if order.pidns else b"exec"
                if order.pidns:
                    enter_namespaces()
                    self._start_in_namespace(order)
                else:
                    self._agent = spawn_agent(order, self._stdio)
            finally:
                self._leave_cgroup()
            if self._agent == 0:
                return False
        except OSError as error:
            tell(self._channel, b"failed %b %d" % (step, error.errno or 0))
            return False
        # No EOF can come out of the agent's pipes while a copy of their ends is open here.
        for fd in (*self._stdio, self._order_fd):
            os.close(fd)
        os.chdir("/")
        me, agent = read_process(os.getpid()), read_process(self._agent)
        if me is None or agent is None:
            raise RuntimeError("no /proc")
        ids = (me.pid, me.start_ticks, agent.pid, agent.start_ticks)
        tell(self._channel, b"started %d %d %d %d" % ids)
        return True

    def _leave_cgroup(self) -> None:
        try:
            if self._cgroup is not None:
                self._cgroup.leave()
        except OSError:
            return  # a group with the shim in it is not killed at once: see `_kill_at_once`

    def _start_in_namespace(self, order: Order) -> None:
        """Start the first process of the namespace, and have it start the agent; OSError."""
        self._report, far = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET, 0)
        fd = far.fileno()
        self._init = fork(lambda: Init(order, self._stdio, fd).run(), [*self._stdio, fd])
        far.close()
        word, *rest = self._report.recv(256).split(b" ")
        if word == b"started":
            agent = known_inside_as(int(rest[0]), self._init)
            self._agent = 0 if agent is None else agent.pid
            self._report.send(b"seen")
        elif word == b"failed":
            tell(self._channel, b"failed %b %b" % (rest[0], rest[1]))
        else:
            raise OSError(errno.ECHILD, "")

    def _kill_at_once(self, members: list[Process]) -> None:
        """Have the kernel kill the whole control group, if no stranger was moved into it."""
        if self._cgroup is None:
            return
        known = {member.pid for member in members}
        mine = os.getpid()
        if all(r.pid in known or descends_from(r.pid, mine) for r in self._cgroup.rows()):
            self._cgroup.kill()

    def _patience(self) -> int | None:
        """Return the milliseconds that what the agent left behind may still live, if it exited."""
        if self._deadline is None:
            return None
        return max(0, int((self._deadline - time.monotonic()) * 1000 + 1))

    def _reap(self) -> bool:
        """Collect the dead, report the agent's exit, and say whether anybody is left."""
        dead, children = reap()
        code = (
            self._exit_code(dead) if self._deadline is None else None
        )  # its number may come again
        if code is not None:
            tell(self._channel, b"exit %d" % code)
            self._deadline = time.monotonic() + self._linger
            self._mark()
        return children

    def _exit_code(self, dead: Mapping[int, int]) -> int | None:
        """Return how the agent ended, None if it has not; a signal is negative."""
        if self._report is None:
            return os.waitstatus_to_exitcode(dead[self._agent]) if self._agent in dead else None
        told = hear(self._report)
        if told:
            return int(told.split(b" ")[1])
        return -signal.SIGKILL if self._init in dead else None

    def _obey(self) -> bool:
        """Do what the daemon says; False when that is to end everything."""
        while (word := hear(self._channel)) is not None:
            if word == b"term":
                # A stopped process does not see the TERM before it goes on.
                members = self._mark()
                signal_all(members, signal.SIGTERM)
                signal_all(members, signal.SIGCONT)
            elif word == b"mark":
                self._mark()
            else:
                tell(self._channel, b"killing")
                return False
        return True

    def _mark(self) -> list[Process]:
        """Remember who is there when the end begins: the receipt names them, however they die."""
        members = tree_below_me()
        self._seen.update([self._agent], [member.pid for member in members])
        return members


def _read_order(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    blob = b""
    while len(blob) < size:
        blob += os.pread(fd, size - len(blob), len(blob))
    return blob
