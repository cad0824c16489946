"""An agent whose children hide, refuse or strike back; run as a file, standard library only.

`evil.py MARKER KIND...`: each child says `kind pid` on stdout once it is in place, and so does the
agent. What it is told on stdin, a line each: `strike shim`, `strike keeper`, `strike guard`,
`exit N`. It ignores TERM, HUP and INT, and the end of its input.
"""

import ctypes
import fcntl
import os
import platform
import signal
import sys
import termios
import threading
from collections.abc import Callable
from pathlib import Path

PTRACE_TRACEME = 0
CHAIN = 3  # processes that wait for one another in a vfork
SYS_EXIT = {"x86_64": 60}.get(platform.machine(), 93)  # asm/unistd.h: only this thread ends


def say(kind: str) -> None:
    os.write(1, f"{kind} {os.getpid()}\n".encode())


def idle(kind: str) -> None:
    say(kind)
    while True:
        signal.pause()


def fork(work: Callable[[], None]) -> int:
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def double() -> None:
    """Leaves its session and its parent."""
    os.setsid()
    fork(lambda: idle("double"))


def bare() -> None:
    """Leaves its environment too; its arguments still name the marker, for the test alone."""
    os.setsid()
    code = "import os, signal\nos.write(1, b'bare %d\\n' % os.getpid())\nwhile 1: signal.pause()"
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, "-I", "-S", "-c", code, sys.argv[1]], {})


def deaf() -> None:
    """Ignores whatever can be ignored."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, 32, 33}:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    idle("deaf")


def stopped() -> None:
    """Is stopped before anybody can do it."""
    say("stopped")
    os.kill(os.getpid(), signal.SIGSTOP)
    idle("stopped")


def vforked() -> None:
    """A chain of parents that sleep in the kernel until their child ends: state D."""
    vfork = ctypes.CDLL(None).vfork
    for _ in range(CHAIN):
        if vfork() != 0:
            os._exit(0)
    idle("vforked")


def traced() -> None:
    """Is stopped by a tracer that never lets it go on."""

    def tracee() -> None:
        ctypes.CDLL(None).ptrace(PTRACE_TRACEME, 0, None, None)
        say("traced")
        os.kill(os.getpid(), signal.SIGUSR1)
        idle("traced")

    os.waitid(os.P_PID, fork(tracee), os.WSTOPPED | os.WNOWAIT)
    while True:
        signal.pause()


def renamed() -> None:
    """Calls itself what reads like a dead child of process 1."""
    Path("/proc/self/comm").write_text(") Z 1 1 (", encoding="utf-8")
    os.setsid()
    idle("renamed")


def headless() -> None:
    """Its first thread has ended, a second one lives on: a zombie that runs code."""

    def live() -> None:
        say("headless")
        threading.Event().wait()

    threading.Thread(target=live).start()
    ctypes.CDLL(None).syscall(SYS_EXIT, 0)


def terminal() -> None:
    """Leads a session with a controlling terminal of its own, and has a job in the background."""
    os.setsid()
    _, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    fork(job)
    idle("terminal")


def job() -> None:
    """What a shell with job control puts in the background."""
    os.setpgid(0, 0)
    idle("job")


def respawner() -> None:
    """Starts another of itself whenever that one is gone."""
    os.setsid()
    say("respawner")
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    while True:
        os.waitpid(fork(signal.pause), 0)


def bomb() -> None:
    """Every one of them forks, and leaves for a session of its own; 300 in all."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.write(write, b"." * 300)
    say("bomb")
    while True:
        try:
            os.read(read, 1)
        except BlockingIOError:
            signal.pause()
        if os.fork() == 0:
            os.setsid()


def frozen() -> None:
    """Freezes its own control group, and everybody in it."""
    group = Path("/sys/fs/cgroup")
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        if " - cgroup2 " in line:
            group = Path(line.split(" ")[4])
    own = Path("/proc/self/cgroup").read_text(encoding="utf-8").rpartition("0::")[2].strip()
    say("frozen")
    sys.stdin.readline()
    (group / own.lstrip("/") / "cgroup.freeze").write_text("1", encoding="utf-8")
    idle("frozen")


KINDS = {
    work.__name__: work
    for work in (
        *(double, bare, deaf, stopped, vforked, traced, renamed, headless, terminal, respawner),
        *(bomb, frozen),
    )
}


def above(pid: int) -> int:
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return int(stat.rpartition(")")[2].split()[1])


def strike(role: str) -> None:
    """Kill who holds us, by going up from ourselves: shim, keeper, guard."""
    target = above(os.getpid())
    for _ in range(("shim", "keeper", "guard").index(role)):
        target = above(target)
    os.kill(target, signal.SIGKILL)


def main() -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    for kind in sys.argv[2:]:
        fork(KINDS[kind])
    say("agent")
    if "frozen" in sys.argv:
        idle("agent")
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        if word == "strike":
            strike(rest)
        elif word == "exit":
            os._exit(int(rest))
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
