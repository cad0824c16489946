"""In a pid namespace of its own, where numbers can be chosen: strangers with the numbers of ours.

Run as a file by `test_pid_reuse`. Prints how often a number came again, and who was hit by mistake.
"""

import json
import os
import signal
import time
from pathlib import Path

from acpbridge.controller.journal import Entry, Tree
from acpbridge.daemon import frozen
from acpbridge.transport.helpers import kernel, killing
from acpbridge.transport.tree import ProcessId

ROUNDS = 12
LAST_PID = Path("/proc/sys/kernel/ns_last_pid")


def idle() -> int:
    pid = os.fork()
    if pid == 0:
        while True:
            signal.pause()
    return pid


def row_of(pid: int) -> kernel.Process:
    row = kernel.read_process(pid)
    assert row is not None
    return row


def stranger_with(pid: int, ticks: int) -> int | None:
    """Start a process with a number, later than the one that had it; None if another got it."""
    while time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK") < ticks + 2:
        pass  # the kernel tells start times in ticks of 10 ms
    LAST_PID.write_text(str(pid - 1), encoding="ascii")
    got = idle()
    if got == pid:
        return got
    end(got)
    return None


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def ways(old: kernel.Process) -> dict[str, bool]:
    """Signal the one that is gone in every way there is; return which said that they did."""
    meant, entry = ProcessId(old.pid, old.start_ticks), Entry(old.pid, old.start_ticks)
    looks = iter([[old]])
    loop = killing.KillLoop(lambda: next(looks, []))
    loop.run()
    (receipt,) = frozen.end_trees({"gone": Tree(entry, entry, (entry,))})
    return {
        "send_signal": killing.send_signal(old.pid, old.start_ticks, signal.SIGKILL),
        "with a parent": killing.send_signal(old.pid, old.start_ticks, signal.SIGKILL, old.ppid),
        "ProcessId": meant.signal(signal.SIGKILL) or meant.alive(),
        "Entry": entry.alive(),
        "kill loop": bool(loop.killed or loop.survivors),
        "frozen": bool(receipt["survivors"]),
    }


def main() -> None:
    reused, wrong = 0, []
    for _ in range(ROUNDS):
        old = row_of(idle())
        end(old.pid)
        stranger = stranger_with(old.pid, old.start_ticks)
        if stranger is None:
            continue
        reused += 1
        wrong += [way for way, did in ways(old).items() if did]
        if os.waitpid(stranger, os.WNOHANG)[0]:
            wrong.append("dead")
        else:
            end(stranger)
    print(json.dumps({"reused": reused, "wrong": wrong}))


if __name__ == "__main__":
    main()
