"""The guard: starts the keeper, outlives it, and ends what it left behind."""

import os
import select
import signal

from acpbridge.transport.helpers.keeper import Keeper
from acpbridge.transport.helpers.kernel import read_process
from acpbridge.transport.helpers.killing import KillLoop, send_signal
from acpbridge.transport.helpers.role import Wakeups, become, fork, look_below_me, reap
from acpbridge.transport.helpers.wire import channel_of, encode_pids, hear, tell


def guard(control_fd: int, guard_fd: int, daemon: int) -> None:
    """Start the keeper and outlive it: what it leaves behind comes here, and dies here.

    With it any two of daemon, keeper and shim may be killed in the same instant: there is always
    one left to which the orphans fall, however well they hide.
    """
    in_time = become(b"acpb-guard", daemon)
    wakeups = Wakeups()
    channel = channel_of(guard_fd)
    if not in_time:
        return
    me = os.getpid()
    pid = fork(lambda: Keeper(control_fd, me).run(), [control_fd])
    keeper = read_process(pid)
    start_ticks = keeper.start_ticks if keeper is not None else 0
    os.close(control_fd)
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    poll.register(wakeups.fd, select.POLLIN)
    watching = True
    while pid not in reap()[0]:
        poll.poll()
        if wakeups.told_to_end():
            send_signal(pid, start_ticks, signal.SIGTERM)
        if watching and hear(channel) == b"":
            # The daemon is gone. The keeper knows by itself, unless somebody stopped it.
            send_signal(pid, start_ticks, signal.SIGCONT)
            poll.unregister(channel)
            watching = False
    loop = KillLoop(look_below_me)
    loop.run()
    receipt = encode_pids(loop.killed), encode_pids(loop.survivors)
    tell(channel, b"swept * %b %b" % receipt)
