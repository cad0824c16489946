"""The registry of an agent that the bridge runs: its roles are made known to the router.

Whatever carries a call there is handed in: the router itself, or a client of the daemon's socket.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio

from acpbridge.agents.calls import InnerCall, InnerTurn
from acpbridge.errors import BridgeError
from acpbridge.logline import Logger
from acpbridge.model.sessions import Outcome
from acpbridge.router.inner_requests import TEXT_LIMIT, InnerRequest, InnerWait
from acpbridge.router.toolcall import ToolRequest
from acpbridge.transport.tasks import background

log = Logger(__name__)

Call = Callable[[ToolRequest], Awaitable[dict[str, Any]]]
"""Has a call of a tool served; raises what the router raises."""

# A router that does not hear of an end finds it out by itself, when the agent ends. Seconds.
TELL_WAIT: Final = 5.0

# The router has ended it already, or the daemon is about to end everything.
_GONE: Final = frozenset({"no_such_session", "session_closed", "daemon_stopping"})


@dataclass(frozen=True, slots=True)
class Registered:
    """Makes roles known; see `RunRegistry`."""

    call: Call

    async def open(self, call: InnerCall) -> "RegisteredRole":
        """Give a role its key."""
        asked = InnerRequest(action="open", parent_key=call.parent, role=call.role, path=call.path)
        told = await self.call(asked)
        return RegisteredRole(self.call, told["sessionKey"])


class RegisteredRole:
    """A role that the router knows; see `InnerSession`."""

    def __init__(self, call: Call, key: str) -> None:
        self._call = call
        self.key = key

    @asynccontextmanager
    async def turn(self, task: str, cancel: Callable[[], None]) -> AsyncIterator[InnerTurn]:
        """Have a run on record for as long as the block lasts."""
        begun = await self._call(InnerRequest(action="turn", session_key=self.key, task=task))
        turn = _Turn()
        run_id = begun["runId"]

        async def watch() -> None:
            told = await self._call(InnerWait(session_key=self.key, run_id=run_id))
            if told["unwanted"]:
                cancel()

        try:
            async with background(watch):
                yield turn
        finally:
            await self._tell(turn.told(self.key, run_id))

    async def close(self) -> None:
        """Say that there will be no further run."""
        await self._tell(InnerRequest(action="close", session_key=self.key))

    async def _tell(self, request: InnerRequest) -> None:
        with anyio.CancelScope(shield=True), anyio.move_on_after(TELL_WAIT) as limit:
            try:
                await self._call(request)
            except BridgeError as error:
                if error.code not in _GONE:
                    log.warning("the router was not told of a role", code=error.code)
        if limit.cancelled_caught:
            log.warning("the router was not told of a role in time")


class _Turn:
    """How a run ended, until the router is told."""

    def __init__(self) -> None:
        self._outcome = Outcome.FAILED
        self._error: Exception | None = None
        self._text = ""

    def end(self, outcome: Outcome, error: Exception | None = None, text: str = "") -> None:
        self._outcome, self._error, self._text = outcome, error, text

    def told(self, key: str, run_id: str) -> InnerRequest:
        code, message = "", ""
        if isinstance(self._error, BridgeError):
            code, message = self._error.code, self._error.message
        elif self._error is not None:
            message = type(self._error).__name__
        return InnerRequest(
            action="end",
            session_key=key,
            run_id=run_id,
            outcome=self._outcome,
            text=self._text[:TEXT_LIMIT],
            error_code=code,
            error=message,
        )
