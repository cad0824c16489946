"""Says so when a turn has been silent for a while: an agent may be thinking, or retrying unseen.

Some agents retry a refused login or an overloaded server for minutes without a word, which looks
like work. Nothing is ended for it: a person is told once for each silence, with what to check.
"""

from typing import Final

from acpbridge.model.events import Fact
from acpbridge.router.host import Host
from acpbridge.router.services import Services
from acpbridge.router.turns import Turn
from acpbridge.runtimes.base import RuntimeSession

# Models that think say something within seconds; the silent retries that were seen took 25 s to
# over a minute. Shorter would speak up in healthy turns, longer would come too late to be of use.
SILENCE: Final = 20.0

_ALWAYS: Final = "The model may be thinking, or the agent may be retrying without saying so."


async def watch_silence(
    turn: Turn, agent: RuntimeSession, host: Host, services: Services, hint: str
) -> None:
    """Tell of every silence of a turn, once each, until cancelled.

    Args:
        turn: that was prompted now.
        agent: that runs it.
        host: takes the notice.
        services: clock and sleep.
        hint: what to check, as it is known for the program.
    """
    since = began = services.clock.monotonic()
    told: float | None = None
    while True:
        await services.sleep(max(0.0, since + SILENCE - services.clock.monotonic()))
        now = services.clock.monotonic()
        last = max(began, turn.last_update)
        if _expected(turn, agent) or last == told:
            since = now  # look again in a while
        elif now - last < SILENCE:
            since = last
        else:
            told, since = last, now
            host.emit(_notice(now - last, hint))


def _expected(turn: Turn, agent: RuntimeSession) -> bool:
    """Tell whether it is no wonder that nothing comes: somebody else is at work, or it is over."""
    return bool(agent.tool_running or turn.open_questions or turn.cancelling or turn.outcome)


def _notice(seconds: float, hint: str) -> Fact:
    message = f"nothing has come from the agent for {seconds:.0f} s. {hint or _ALWAYS}"
    return Fact("notice", {"kind": "silent", "seconds": round(seconds), "message": message})
