"""The ladder down which a turn is cancelled: ask, close, kill; each if the last was not enough."""

import anyio
import structlog

from acpbridge.errors import BridgeError
from acpbridge.model.sessions import CancelRung
from acpbridge.router.turns import Turn
from acpbridge.runtimes.base import RuntimeSession

log = structlog.get_logger(__name__)


async def ended_within(turn: Turn, seconds: float) -> bool:
    """Wait for a turn's end, and tell whether it came."""
    with anyio.move_on_after(seconds):
        await turn.done.wait()
    return turn.done.is_set()


async def descend(turn: Turn, agent: RuntimeSession, grace: float) -> CancelRung:
    """End a turn, and return the rung on which it ended, or the last one.

    Args:
        turn: already marked as cancelling, its questions withdrawn.
        agent: that runs it.
        grace: seconds between two rungs.
    """
    agent.cancel()
    if await ended_within(turn, grace):
        return CancelRung.CANCEL
    with anyio.move_on_after(grace):
        try:
            await agent.close()
        except BridgeError as error:
            log.info("the agent refused to close its session", code=error.code)
    if await ended_within(turn, grace):
        return CancelRung.CLOSE
    await agent.stop(0)
    await ended_within(turn, grace)
    return CancelRung.KILL
