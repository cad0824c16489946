"""Tells whoever follows a turn that the daemon itself does not answer any more.

A frozen daemon sends nothing, which looks like an agent that thinks. It is only told: a daemon that
goes on after a while has lost nothing, and neither has the turn.
"""

from collections.abc import Awaitable, Callable
from typing import Final

import anyio

from acpbridge.cli.output import command_line
from acpbridge.daemon.client import DaemonClient
from acpbridge.errors import BridgeError

# Between two questions whether it is there. Seconds.
PACE: Final = 5.0

# So many in a row: the first may have gone unheard because we were stopped ourselves.
MISSED: Final = 2


async def tell_when_frozen(
    client: DaemonClient, say: Callable[[str], Awaitable[None]], key: str, home: str | None
) -> None:
    """Say when the daemon stops to answer, and when it answers again, until it is gone.

    Args:
        client: connected to it.
        say: says a line to the person.
        key: the session that is followed.
        home: the state directory as it was given.
    """
    missed = 0
    while True:
        await anyio.sleep(PACE)
        try:
            answered = await client.answers()
        except BridgeError:
            return  # it is gone, which the events tell
        if answered and missed >= MISSED:
            await say("the daemon answers again")
        missed = 0 if answered else missed + 1
        if missed == MISSED:
            how = command_line(home, "kill", key)
            await say(
                f"the daemon does not answer and may be frozen; end the session past it: {how}"
            )
