"""The keeper: forks a shim for each order of the daemon, and sweeps up after one that died.

Above is the guard, which forks it and outlives it.
"""

import _socket
import os
import select
import signal
import sys
import time
from collections.abc import Sequence

from acpbridge.transport.helpers.kernel import Process, process_table, read_process, tree_of
from acpbridge.transport.helpers.killing import END_LIMIT, ROUND_PAUSE, KillLoop, send_signal
from acpbridge.transport.helpers.role import Wakeups, become, fork, look_below_me, reap
from acpbridge.transport.helpers.shim import Shim
from acpbridge.transport.helpers.wire import channel_of, encode_pids, tell

FDS_PER_ORDER = 5  # the agent's stdin, stdout, stderr; the shim's channel; the order itself


class Keeper:
    """Forks the shims, reaps them, and sweeps up after one that did not finish its work."""

    def __init__(self, control_fd: int, guard: int) -> None:
        self._control = channel_of(control_fd)
        self._guard = guard
        self._shims: dict[int, tuple[bytes, int]] = {}  # pid -> the daemon's name for it, ticks
        self._lost: list[bytes] = []
        self._sweep = KillLoop(self._orphans)

    def run(self) -> None:
        """Serve until the daemon's end of the channel closes, then end all shims."""
        become(b"acpb-keeper", self._guard)
        wakeups = Wakeups()
        me = read_process(os.getpid())
        if me is None:
            raise RuntimeError("no /proc")
        tell(self._control, b"hello %d %d" % (me.pid, me.start_ticks))
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(wakeups.fd, select.POLLIN)
        serving = True
        while serving:
            poll.poll(ROUND_PAUSE * 1000 if self._lost else None)
            serving = not wakeups.told_to_end() and self._serve()
            self._tidy()
        poll.unregister(self._control)
        for pid, (_, start_ticks) in self._shims.items():
            send_signal(pid, start_ticks, signal.SIGTERM)
            send_signal(pid, start_ticks, signal.SIGCONT)
        deadline = time.monotonic() + END_LIMIT
        while (self._shims or self._lost) and time.monotonic() < deadline:
            poll.poll(ROUND_PAUSE * 1000 if self._lost else 100)
            wakeups.told_to_end()
            self._tidy()
        KillLoop(look_below_me).run()

    def _serve(self) -> bool:
        """Carry out one order of the daemon; False when there is no daemon any more."""
        space = _socket.CMSG_SPACE(FDS_PER_ORDER * 4)
        flags = _socket.MSG_DONTWAIT | _socket.MSG_CMSG_CLOEXEC
        try:
            name, ancillary, _, _ = self._control.recvmsg(256, space, flags)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not name:
            return False
        fds = []
        for _, _, data in ancillary:
            fds += [
                int.from_bytes(data[i : i + 4], sys.byteorder) for i in range(0, len(data) - 3, 4)
            ]
        try:
            if len(fds) == FDS_PER_ORDER:
                self._start_shim(name, fds)
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def _start_shim(self, name: bytes, fds: Sequence[int]) -> None:
        me = os.getpid()
        try:
            pid = fork(lambda: Shim(fds, me).run(), fds)
        except OSError as error:
            channel = channel_of(os.dup(fds[3]))
            tell(channel, b"failed fork %d" % (error.errno or 0))
            channel.close()
            return
        shim = read_process(pid)
        self._shims[pid] = (name, shim.start_ticks if shim is not None else 0)

    def _tidy(self) -> None:
        """Reap, and do one round of the sweep if a shim left its tree behind."""
        dead, _ = reap()
        for pid, status in dead.items():
            name, _ = self._shims.pop(pid, (b"", 0))
            if name and status != 0:
                self._lost.append(name)
                self._sweep.again()
        if self._lost and self._sweep.round():
            names = b",".join(self._lost)
            receipt = encode_pids(self._sweep.killed), encode_pids(self._sweep.survivors)
            tell(self._control, b"swept %b %b %b" % (names, *receipt))
            self._lost.clear()
            self._sweep = KillLoop(self._orphans)

    def _orphans(self) -> list[Process]:
        return tree_of(os.getpid(), process_table(), skip=self._shims)
