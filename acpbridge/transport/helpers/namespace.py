"""An agent's own pid namespace: how a shim makes it, and its first process.

When that process ends, the kernel kills whatever is left in the namespace.
"""

import os
import signal
from collections.abc import Sequence

from acpbridge.transport.helpers.kernel import Process, children_of, lines_of, write_file
from acpbridge.transport.helpers.libc import (
    CLONE_NEWNS,
    CLONE_NEWPID,
    CLONE_NEWUSER,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_REC,
    PR_SET_NAME,
    PR_SET_PDEATHSIG,
    call,
    prctl,
)
from acpbridge.transport.helpers.role import spawn_agent
from acpbridge.transport.helpers.wire import Order, channel_of


def enter_namespaces() -> None:
    """Have the next child of this process be the first one of a pid namespace; OSError.

    The user namespace is what lets somebody who is not root do so. In it one user and one group
    are known, and they are the same as outside.
    """
    uid, gid = os.geteuid(), os.getegid()
    call("unshare", CLONE_NEWUSER | CLONE_NEWPID)
    write_file("/proc/self/setgroups", b"deny")  # user_namespaces(7): else no gid may be mapped
    write_file("/proc/self/uid_map", b"%d %d 1" % (uid, uid))
    write_file("/proc/self/gid_map", b"%d %d 1" % (gid, gid))


def known_inside_as(number: int, init: int) -> Process | None:
    """Return the child of a namespace's first process that has this number in there."""
    for row in children_of(init):
        for line in lines_of(b"/proc/%d/status" % row.pid):
            if line.startswith(b"NSpid:") and int(line.split()[-1]) == number:
                return row
    return None


class Init:
    """Process 1 of an agent's pid namespace: starts the agent, reaps, and takes all along.

    When it ends, by its shim's death too, the kernel kills whatever is left in the namespace.
    """

    def __init__(self, order: Order, stdio: Sequence[int], report_fd: int) -> None:
        self._order = order
        self._stdio = list(stdio)
        self._report = channel_of(report_fd)

    def run(self) -> None:
        """Start the agent and live until nobody else does."""
        prctl(PR_SET_NAME, b"acpb-init")
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        step = b"pidns"
        try:
            call("unshare", CLONE_NEWNS)
            call("mount", b"none", b"/", None, MS_REC | MS_PRIVATE, None)
            call("mount", b"proc", b"/proc", b"proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, None)
            step = b"exec"
            agent = spawn_agent(self._order, self._stdio)
        except OSError as error:
            self._report.send(b"failed %b %d" % (step, error.errno or 0))
            return
        # Raises if the shim died before its death was a signal for us: all ends with us.
        self._report.send(b"started %d" % agent)
        for fd in self._stdio:
            os.close(fd)
        os.chdir("/")
        self._report.recv(16)  # not reaped before the shim has found it by its number out there
        told = False
        while True:
            try:
                pid, status = os.waitpid(-1, 0)
            except ChildProcessError:
                return
            if pid == agent and not told:  # its number may come again
                self._report.send(b"exit %d" % os.waitstatus_to_exitcode(status))
                told = True
