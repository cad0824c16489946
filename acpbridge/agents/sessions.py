"""Conversations with agents that are no loops of this process: each is a session of the bridge.

The session is a child of the caller's and persistent: its process stays up between turns. When the
conversation ends it is closed; what the agent itself keeps of it can be resumed by the agent's own
session id. Below is whatever implements `RouterApi`: the router, or a daemon's client.
"""

import json
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from acpbridge.errors import BridgeError
from acpbridge.model.events import TURN_ENDS
from acpbridge.model.inbound import InboundMessage
from acpbridge.model.outbound import OutboundMessage
from acpbridge.model.requesters import Requester
from acpbridge.model.sessions import Outcome
from acpbridge.router.api import (
    RouterApi,
    RunReceipt,
    RunRequest,
    Span,
)
from acpbridge.router.said import read_turn

# To put a run on record; it is seen through, for else nobody would know of what to cancel. Seconds.
ACCEPT_WAIT: Final = 30.0

# Between two rungs of the ladder for a turn that is stopped. Seconds.
GRACE: Final = 2.0

# For the ladder as a whole. Seconds.
CANCEL_WAIT: Final = 8.0

# Whoever closes what is gone already has what he wanted.
_GONE: Final = frozenset({"no_such_session", "session_closed"})


@dataclass(frozen=True, slots=True)
class Sessions:
    """Begins conversations with agents of the bridge, by their ids.

    Attributes:
        api: the router.
        requester: who asks; inside a supervised tree the daemon finds that out for itself.
        cwd: absolute directory of the caller.
        env: the caller's environment. Never stored.
    """

    api: RouterApi
    requester: Requester
    cwd: str
    env: Mapping[str, str] = field(default_factory=dict, repr=False)

    async def open(self, message: InboundMessage) -> "BridgeSession":
        """Begin one; its session is made by the first turn."""
        return BridgeSession(self, message.role_name)


class BridgeSession:
    """A conversation with an agent of the bridge.

    Args:
        where: what it asks.
        agent: id of the agent.

    Attributes:
        key: of the session; "" before the first turn.
    """

    def __init__(self, where: Sessions, agent: str) -> None:
        self._where = where
        self._agent = agent
        self.key = ""

    async def turn(self, message: InboundMessage) -> OutboundMessage:
        """Prompt the agent, and return what it says; cancelled, cancel the agent's turn."""
        where = self._where
        request = RunRequest(
            content=({"type": "text", "text": message.content},),
            agent="" if self.key else self._agent,
            session=self.key,
            caller_cwd=where.cwd,
            env=where.env,
            one_shot=False,
        )
        with anyio.CancelScope(shield=True), anyio.fail_after(ACCEPT_WAIT):
            receipt = await where.api.run(request, where.requester)
        self.key = str(receipt.key)
        try:
            text = await self._said(receipt)
            result = await where.api.wait(receipt.run_id, where.requester)
        except anyio.get_cancelled_exc_class():
            await self._cancel()
            raise
        return OutboundMessage(
            content=text,
            sender=message.recipient,
            recipient=message.sender,
            error=_error(result.outcome, result.error),
        )

    async def _said(self, receipt: RunReceipt) -> str:
        """Return what the agent says last in a turn, without secrets, once that is over."""
        turn: list[tuple[bytes, bytes]] = []
        span = Span(stored=True)
        following = await self._where.api.follow(
            self.key, receipt.after, self._where.requester, span
        )
        async with aclosing(following):
            while lines := await following.read():
                for line in lines:
                    event = json.loads(line)
                    if event["turn"] == receipt.run_id:
                        turn.append((event["type"].encode(), line))
                        if event["type"] in TURN_ENDS:
                            return read_turn(turn).text
        return read_turn(turn).text

    async def _cancel(self) -> None:
        with anyio.CancelScope(shield=True), anyio.move_on_after(CANCEL_WAIT):
            await self._where.api.cancel(self.key, GRACE, self._where.requester)

    async def consolidate(self) -> None:
        """Do nothing: what the agent keeps is its own affair."""

    async def close(self) -> None:
        """Close the session, if there is one that is not closed yet."""
        if not self.key:
            return
        try:
            await self._where.api.close(self.key, self._where.requester)
        except BridgeError as error:
            if error.code not in _GONE:
                raise


def _error(outcome: Outcome, error: Mapping[str, Any] | None) -> BridgeError | None:
    if outcome is Outcome.COMPLETED:
        return None
    if outcome is Outcome.CANCELLED:
        return BridgeError("request_cancelled", "The agent's turn was cancelled.")
    if error is not None:
        return BridgeError.from_json(error)
    return BridgeError("turn_failed", f"The agent's turn ended as {outcome}.")
