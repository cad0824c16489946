"""Ends a turn from which nothing has come for as long as `limits.stallSeconds` allows.

A tool that runs and a person who is asked may take as long as they like (case 123), and so may a
log that holds up what the agent says. Time is counted by the monotonic clock and while this process
runs: one that was stopped has not listened, and listens for the whole time once more. `silence`
only tells; both are beside a prompt.
"""

from collections.abc import Callable
from typing import Final

import structlog

from acpbridge.errors import BridgeError
from acpbridge.model.sessions import WaitsFor
from acpbridge.router.host import Host
from acpbridge.router.ladder import descend_alone
from acpbridge.router.services import Services
from acpbridge.router.turns import Turn
from acpbridge.runtimes.base import RuntimeSession

log = structlog.get_logger(__name__)

# Between two rungs of the ladder for a turn that has stalled. Seconds.
STALL_GRACE: Final = 2.0

# Who wakes so much later than asked was stopped, or starved: it has not listened. Seconds.
OVERSLEPT: Final = 1.0


async def watch_stall(
    turn: Turn, agent: RuntimeSession, host: Host, services: Services, leave: Callable[[], None]
) -> None:
    """Fail a turn with `turn_stalled` when nothing has come for too long; until cancelled.

    Args:
        turn: that was prompted now.
        agent: that runs it.
        host: gives the turn its outcome.
        services: the limit, clock and sleep.
        leave: as for `descend`.
    """
    limit = services.stall()
    if limit <= 0:
        return
    seconds = await _stalled(turn, agent, host, services, limit)
    if seconds is None:
        return
    turn.verdict = _error(seconds, limit)
    log.warning("a turn has stalled", key=str(host.key), run=turn.run_id, seconds=round(seconds))
    host.mark_cancelling(turn)
    await descend_alone(turn, agent, STALL_GRACE, leave)


async def _stalled(
    turn: Turn, agent: RuntimeSession, host: Host, services: Services, limit: float
) -> float | None:
    """Return for how long nothing came, once that is too long; None if it ends otherwise."""
    since = began = services.clock.monotonic()
    while True:
        due = since + limit
        # Never negative: the time may have come since it was looked at.
        await services.sleep(max(0.0, due - services.clock.monotonic()))
        now = services.clock.monotonic()
        if turn.cancelling or turn.outcome is not None:
            return None  # somebody was faster
        last = max(began, since, turn.last_update)
        if agent.tool_running or turn.open_questions or host.held_up or now - due > OVERSLEPT:
            since = now  # what ends that is an update, or the time begins anew
        elif now - last < limit:
            since = last
        else:
            return now - last


def _error(seconds: float, limit: float) -> BridgeError:
    message = f"Nothing came from the agent for {seconds:.0f} s; limits.stallSeconds is {limit:g}."
    return BridgeError("turn_stalled", message, data={"waitsFor": WaitsFor.MODEL})
