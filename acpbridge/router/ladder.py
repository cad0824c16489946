"""The ladder down which a turn is cancelled: ask, close, kill; each if the last was not enough.

Several may be on it for one turn, each at a pace of their own: the agent is asked once, its session
is closed once, and what is told of it is how far any of them had to go.
"""

from collections.abc import Callable
from typing import Final

import anyio
import structlog

from acpbridge.errors import BridgeError
from acpbridge.model.sessions import CancelRung
from acpbridge.router.turns import Turn
from acpbridge.runtimes.base import RuntimeSession
from acpbridge.transport.tasks import background

log = structlog.get_logger(__name__)

# After the kill only the record of the turn's end has to be written. Seconds.
RECORD_WAIT: Final = 5.0


async def ended_within(turn: Turn, seconds: float) -> bool:
    """Wait for a turn's end, and tell whether it came."""
    with anyio.move_on_after(seconds):
        await turn.done.wait()
    return turn.done.is_set()


def ask(turn: Turn, agent: RuntimeSession) -> None:
    """Tell the agent that a turn is cancelled: a notification, once, that nobody waits for."""
    if turn.reach(CancelRung.CANCEL):
        agent.cancel()


async def descend(
    turn: Turn, agent: RuntimeSession, grace: float, leave: Callable[[], None]
) -> CancelRung:
    """End a turn, and return the rung on which it ended, or the last one.

    Args:
        turn: already marked as cancelling, its questions withdrawn.
        agent: that runs it.
        grace: seconds between two rungs.
        leave: called before the second rung: what follows ends the agent's session and process.
    """
    ask(turn, agent)
    if await ended_within(turn, grace):
        return turn.rung
    leave()
    if turn.reach(CancelRung.CLOSE):
        await _close(turn, agent, grace)
    # Its input is closed, and it has the grace to end by itself.
    async with background(lambda: _stop(agent, grace)):
        if await ended_within(turn, grace):
            return turn.rung
    turn.reach(CancelRung.KILL)
    turn.survivors = await agent.stop(0)
    await ended_within(turn, RECORD_WAIT)
    return turn.rung


async def descend_alone(
    turn: Turn, agent: RuntimeSession, grace: float, leave: Callable[[], None]
) -> None:
    """End a turn for which nobody waits here, as the last thing that a task does."""
    try:
        await descend(turn, agent, grace, leave)
    except Exception:
        # The top of a task.
        log.exception("a turn could not be ended", run=turn.run_id)


async def _close(turn: Turn, agent: RuntimeSession, grace: float) -> None:
    """Have the agent free its session, for as long as the turn is not over."""
    with anyio.move_on_after(grace) as scope:

        async def enough() -> None:
            await turn.done.wait()
            scope.cancel()

        async with background(enough):
            try:
                await agent.close()
            except BridgeError as error:
                log.info("the agent refused to close its session", code=error.code)


async def _stop(agent: RuntimeSession, grace: float) -> None:
    await agent.stop(grace)
