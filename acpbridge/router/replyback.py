"""Two peers speak of a reply: at most five turns in all, in turn, and then the receiver announces.

Only where the sender speaks for somebody on a channel: who is asked from within, gets the reply
once, and nothing more begins of it. Every turn is accepted like any other, waits in its own
session's queue, and goes by the envelope of the message: it is no further hop. Above is `send`.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

import structlog
from anyio.abc import TaskGroup

from acpbridge.errors import BridgeError
from acpbridge.model.events import Fact
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.model.sessions import Outcome
from acpbridge.router.api import RunReceipt, RunRequest
from acpbridge.router.authorize import Action
from acpbridge.router.envelope import Envelope, channel
from acpbridge.router.hearing import Hearing
from acpbridge.router.services import Services

log = structlog.get_logger(__name__)

Accept = Callable[[RunRequest, Requester, Action], Awaitable[RunReceipt]]

# Turns of both together.
TURNS: Final = 5

# Answers that end it: exactly these words.
REPLY_SKIP: Final = "REPLY_SKIP"
ANNOUNCE_SKIP: Final = "ANNOUNCE_SKIP"

# Of what was asked, in the prompt for the announcement. Characters.
QUOTED: Final = 2000

_BRIDGE: Final = Requester(Role.SYSTEM, client_id="send")


@dataclass(frozen=True, slots=True)
class Exchange:
    """What two sessions speak of.

    Attributes:
        envelope: of the message.
        message: that was sent.
        reply: that came back.
    """

    envelope: Envelope
    message: str
    reply: str


def talks(envelope: Envelope, *, below: bool) -> bool:
    """Tell whether sender and receiver go on to speak of a reply.

    Args:
        envelope: of the message.
        below: whether the sender has spawned the receiver.
    """
    return not (envelope.sub_agent or below) and channel(envelope.source) is not None


class Replying:
    """Has them speak.

    Args:
        accept: accepts a turn.
        hearing: waits for its end.
        services: the log.
        tasks: outlive whoever sent the message.
    """

    def __init__(
        self, accept: Accept, hearing: Hearing, services: Services, tasks: TaskGroup
    ) -> None:
        self._accept = accept
        self._hearing = hearing
        self._services = services
        self._tasks = tasks

    def begin(self, exchange: Exchange) -> None:
        """Have them speak until one has nothing to add, and the receiver announce."""
        self._tasks.start_soon(self._go_on, exchange)

    async def _go_on(self, exchange: Exchange) -> None:
        try:
            await self._talk(exchange)
        except BridgeError as error:
            # One of them is gone, or has too much to do: what was said is in both logs.
            log.info("two sessions stopped speaking", code=error.code)
        except Exception:
            # The top of a task.
            log.exception("two sessions could not go on speaking")

    async def _talk(self, exchange: Exchange) -> None:
        envelope, said = exchange.envelope, exchange.reply
        both = (envelope.source, envelope.target)
        for number in range(TURNS):
            answer = await self._turn(both[number % 2], envelope, _prompt(envelope, number, said))
            if answer is None or answer.strip() in ("", REPLY_SKIP):
                break
            said = answer
        text = _announcing(exchange, said)
        announced = await self._turn(envelope.target, envelope, text)
        where = channel(envelope.target)
        if where is None or announced is None or announced.strip() in ("", ANNOUNCE_SKIP):
            return
        values = {"kind": "channel_announce", "channel": where, "message": announced}
        self._services.log.append(envelope.target, None, Fact("notice", values))

    async def _turn(self, key: SessionKey, envelope: Envelope, text: str) -> str | None:
        """Return what a session's agent says to a prompt; None if its turn did not end well."""
        request = RunRequest(
            content=({"type": "text", "text": envelope.text(text)},),
            session=str(key),
            detached=True,
            correlation_id=envelope.correlation_id,
            provenance=envelope.provenance(),
            task=text,
        )
        receipt = await self._accept(request, _BRIDGE, Action.SEND)
        result = await self._hearing.whole(receipt)
        if result.outcome is not Outcome.COMPLETED:
            return None
        return await self._hearing.reply(receipt)


def _prompt(envelope: Envelope, number: int, said: str) -> str:
    other, role = (
        (envelope.target, "the requester") if number % 2 == 0 else (envelope.source, "the target")
    )
    head = f"Agent-to-agent reply step. You are {role}. Turn {number + 1} of {TURNS}."
    how = f"Answer {other}, or exactly {REPLY_SKIP} if there is nothing to add. It said:"
    return f"{head} {how}\n\n{said}"


def _announcing(exchange: Exchange, said: str) -> str:
    asked = exchange.message[:QUOTED]
    head = "Agent-to-agent announce step. You are the target."
    how = f"Say what the people of your channel should read of it, or exactly {ANNOUNCE_SKIP}."
    return f"{head} {how} You were asked:\n\n{asked}\n\nThe last word was:\n\n{said}"
