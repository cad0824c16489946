"""Ends a turn that runs longer than its caller allows, down the ladder that a cancel takes too."""

from collections.abc import Callable
from typing import Final

import anyio

from acpbridge.router.host import Host
from acpbridge.router.ladder import descend_alone
from acpbridge.router.turns import Turn
from acpbridge.runtimes.base import RuntimeSession

# Between two rungs of the ladder for a turn that ran into its own limit. Seconds.
TIMEOUT_GRACE: Final = 2.0


async def watch_time(
    turn: Turn, agent: RuntimeSession, host: Host, leave: Callable[[], None]
) -> None:
    """End the turn when its own limit has passed; it may have none.

    Args:
        turn: that was prompted now.
        agent: that runs it.
        host: shows that it is being cancelled.
        leave: told before the process is ended.
    """
    if turn.request.timeout is None:
        return
    await anyio.sleep(turn.request.timeout)
    if turn.cancelling:
        return  # somebody was faster
    turn.timed_out = True
    host.mark_cancelling(turn)
    await descend_alone(turn, agent, TIMEOUT_GRACE, leave)
