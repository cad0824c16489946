"""A session's side of the seam: what happens in a turn, who decides in it, and its one outcome.

It is the `SessionHost` that a runtime sees. Every event goes through here into the log; a turn's
outcome is on record before anybody is told that the turn is over.
"""

from typing import Any

import anyio

from acpbridge.errors import BridgeError
from acpbridge.model.events import Event, Fact, Update
from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import (
    Decision,
    Effect,
    OnPermission,
    PermissionAsk,
    PermissionRequest,
    Reason,
)
from acpbridge.model.sessions import Outcome, TurnState
from acpbridge.router.services import Services
from acpbridge.router.turns import Turn
from acpbridge.runtimes.base import TurnResult


class Host:
    """The host of one session's runtime.

    Attributes:
        turn: the turn under way; None between two.
        closing: whether the session is being ended, so that nothing is allowed any more.
    """

    def __init__(self, key: SessionKey, services: Services) -> None:
        self._key = key
        self._services = services
        self.turn: Turn | None = None
        self.closing = False

    # ---- What a runtime asks ----

    def emit(self, event: Event) -> None:
        """Record an event in the turn under way."""
        turn = self.turn
        if turn is not None and isinstance(event, Update):
            self._touch(turn)
        self._append(turn, event)

    async def room(self) -> None:
        """Wait until the log can take more."""
        await self._services.log.room()

    async def ask(self, ask: PermissionAsk) -> Decision:
        """Have a permission decided; a turn that is being cancelled gets `cancelled` (row 15)."""
        turn = self.turn
        if self.closing or (turn is not None and turn.cancelling):
            return Decision(Effect.CANCEL, None, Reason.CANCELLED)
        request = PermissionRequest(
            id=str(self._services.ids.uuid4())[:8],
            session=self._key,
            turn=None if turn is None else turn.run_id,
            # Outside a turn no rule applies (row 14).
            run_rule=OnPermission.ASK if turn is None else turn.request.on_permission,
            ask=ask,
        )
        if turn is None:
            return await self._services.broker.ask(request)
        turn.open_questions += 1
        turn.state = TurnState.WAITING
        try:
            return await self._services.broker.ask(request)
        finally:
            turn.open_questions -= 1
            if not turn.open_questions and turn.state is TurnState.WAITING:
                turn.state = TurnState.RUNNING
            self._touch(turn)

    async def call(self, method: str, params: Any) -> Any:
        """Refuse what was never advertised (rows 36 and 39).

        Raises:
            BridgeError: `method_not_found`.
        """
        del params
        raise BridgeError("method_not_found", f"acpbridge does not serve {method}.")

    # ---- Turns ----

    def queue(self, turn: Turn, position: int) -> None:
        """Record that a turn was accepted."""
        self._append(turn, Fact("turn_queued", {"position": position}))

    def begin(self, turn: Turn) -> None:
        """Make this the turn under way."""
        self.turn = turn
        if turn.state is not TurnState.QUEUED:
            return
        turn.state = TurnState.RUNNING
        turn.started_at = self._services.now()
        self._touch(turn)
        request = turn.request
        values = {
            "runId": turn.run_id,
            "prompt": [dict(block) for block in request.content],
            "origin": request.origin or request.requester.label(),
            "provenance": dict(request.provenance),
            "correlationId": request.correlation_id,
        }
        self.emit(Fact("turn_started", values))

    async def complete(self, turn: Turn, result: TurnResult) -> None:
        """End a turn that the agent answered. Only `end_turn` counts as completed."""
        if turn.timed_out:
            await self.fail(turn, None)
            return
        turn.stop_reason = result.stop_reason
        outcome = Outcome.COMPLETED if result.stop_reason == "end_turn" else Outcome.FAILED
        if turn.cancelling or result.stop_reason == "cancelled":
            # A turn that we cancelled is cancelled, whatever the agent answers.
            turn.stop_reason, outcome = "cancelled", Outcome.CANCELLED
        fields: dict[str, Any] = {"stopReason": turn.stop_reason, "result": dict(result.raw)}
        if "usage" in result.raw:
            fields["usage"] = result.raw["usage"]
        await self._finish(turn, outcome, Fact("turn_ended", fields))

    async def fail(self, turn: Turn, error: BridgeError | None) -> None:
        """End a turn with an error, or as cancelled or timed out if that is why it has none."""
        if turn.timed_out:
            outcome = Outcome.TIMED_OUT
            message = f"The turn did not end in {turn.request.timeout:g} s."
            error = BridgeError("prompt_timeout", message)
        elif turn.cancelling or (error is None and self.closing):
            await self.cancelled(turn)
            return
        else:
            outcome = Outcome.FAILED
            error = error or BridgeError("agent_died", "The agent is gone.")
        turn.error = error
        await self._finish(turn, outcome, Fact("turn_failed", {"error": error.to_json()}))

    async def cancelled(self, turn: Turn) -> None:
        """End a turn as cancelled, whether it ever ran or not."""
        turn.cancelling = True
        turn.stop_reason = "cancelled"
        event = Fact("turn_ended", {"stopReason": "cancelled", "result": {}})
        await self._finish(turn, Outcome.CANCELLED, event)

    async def _finish(self, turn: Turn, outcome: Outcome, event: Fact) -> None:
        """Give a turn its one outcome: on record first, then in the log, then told."""
        if turn.outcome is not None:
            return
        turn.outcome = outcome
        error = turn.error.to_json() if turn.error else None
        services = self._services
        with anyio.CancelScope(shield=True):
            services.broker.withdraw(self._key, Reason.CANCELLED, turn.run_id)
            await services.ledger.finish_run(
                turn.run_id, outcome, turn.stop_reason, error, services.now()
            )
            self._append(turn, event)
            await services.log.committed(self._key)
        if self.turn is turn:
            self.turn = None
        turn.done.set()

    def _append(self, turn: Turn | None, event: Event) -> None:
        self._services.log.append(self._key, None if turn is None else turn.run_id, event)

    def _touch(self, turn: Turn) -> None:
        turn.last_update = self._services.clock.monotonic()
        turn.last_update_at = self._services.now()
