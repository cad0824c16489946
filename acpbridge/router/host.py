"""A session's side of the seam: what happens in a turn, who decides in it, and its one outcome.

It is the `SessionHost` that a runtime sees. Every event goes through here into the log; a turn's
outcome is on record before anybody is told that the turn is over.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import anyio
import structlog

from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.events import Event, Fact, Update
from acpbridge.model.permission import (
    Decision,
    Effect,
    OnPermission,
    PermissionAsk,
    PermissionRequest,
    Reason,
)
from acpbridge.model.sessions import Outcome, SessionRecord, TurnState
from acpbridge.protocol.content import without_bytes
from acpbridge.router.modes import ModeAudit
from acpbridge.router.services import Services
from acpbridge.router.turns import Turn, completion_of
from acpbridge.router.watching import SPOKEN_TO, asker, by_person, news_of
from acpbridge.runtimes.base import TurnResult

log = structlog.get_logger(__name__)

# A turn's end waits so long for its questions to be settled, and for its events to be on disk:
# neither a slow audit nor a full disk keeps anybody from hearing of it for ever. Seconds.
ANSWERS_WAIT: Final = 2.0
COMMIT_WAIT: Final = 5.0


@dataclass(frozen=True, slots=True)
class _Ending:
    """How a turn ends: for the record, and as the event that tells of it."""

    outcome: Outcome
    event: Fact
    stop_reason: str | None = None
    error: BridgeError | None = None
    usage: Any = None


class Host:
    """The host of one session's runtime.

    Args:
        record: of the session, as it was made.
        services: what it works with.
        definition: says what a person may let the agent do.

    Attributes:
        key: of the session.
        turn: the turn under way; None between two.
        closing: whether the session is being ended, so that nothing is allowed any more.
        leaving: whether its process is being ended here, so that the end of that is no death.
        because: why it is being ended, told with the turn that ends with it; None is not told.
    """

    def __init__(
        self,
        record: SessionRecord,
        services: Services,
        definition: AgentDefinition,
    ) -> None:
        self.key = record.key
        self._parent = record.lineage.parent
        self._roots = (record.cwd, *record.additional_directories)
        self._services = services
        # Something is to be removed with its end; see `archiving`.
        self._archived = record.cleanup == "delete" or record.runtime == RuntimeKind.PYTHON
        self._modes = ModeAudit(services, record.key)
        self._definition = definition
        self.turn: Turn | None = None
        self.closing = False
        self.leaving = False
        self.because: str | None = None
        self._held_up = 0

    # ---- What a runtime asks ----

    def emit(self, event: Event) -> None:
        """Record an event in the turn under way."""
        turn = self.turn
        if isinstance(event, Update):
            if event.late:
                turn = None  # of a turn that is over, whichever is under way now (case 31)
            elif turn is not None:
                self._touch(turn)
        else:
            self._modes.tell(None if turn is None else turn.run_id, event)
        self._append(turn, event)

    async def room(self) -> None:
        """Wait until the log can take more."""
        self._held_up += 1
        try:
            await self._services.log.room()
        finally:
            self._held_up -= 1

    @property
    def held_up(self) -> bool:
        """Whether the log holds up what the agent says: that nothing comes is no fault of its."""
        return self._held_up > 0

    async def ask(self, ask: PermissionAsk) -> Decision:
        """Have a permission decided; a turn that is being cancelled gets `cancelled` (row 15)."""
        turn = self.turn
        if self._unwanted(turn):
            return Decision(Effect.CANCEL, None, Reason.CANCELLED)
        if ask.outside_turn:
            turn = None
        request = PermissionRequest(
            id=str(self._services.ids.uuid4())[:8],
            session=self.key,
            turn=None if turn is None else turn.run_id,
            # Outside a turn no rule applies (row 14).
            run_rule=OnPermission.ASK if turn is None else turn.request.on_permission,
            ask=ask,
            allow_bypass=self._definition.allow_bypass,
            forward_always=self._definition.forward_always,
            roots=self._roots,
            offered=self._services.attended(self.key),
        )
        if turn is None:
            return await self._services.broker.ask(request, self._why_withdrawn)
        turn.asked()
        try:
            decision = await self._services.broker.ask(request, self._why_withdrawn)
        finally:
            turn.answered()
            self._touch(turn)
        if self._unwanted(turn):
            # It was decided just before somebody wanted the turn ended.
            return Decision(Effect.CANCEL, None, Reason.CANCELLED)
        return decision

    def lost(self) -> None:
        """Take back what an agent asks that has died: nobody waits for the answer (row 35)."""
        if not (self.closing or self.leaving):
            reason = self._why_withdrawn()
            died = Reason.AGENT_DIED if reason is Reason.WITHDRAWN else reason
            self._services.broker.withdraw(self.key, died)

    def _why_withdrawn(self) -> Reason:
        """Return why a question lost its agent: by its wish, or killed past this frozen daemon."""
        if self._services.killed_past(str(self.key)) is not None:
            return Reason.KILLED
        return Reason.WITHDRAWN

    def _unwanted(self, turn: Turn | None) -> bool:
        return self.closing or (turn is not None and turn.cancelling)

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

    def take(self, turn: Turn) -> None:
        """Make this the turn under way; it may still have to wait for a place."""
        self.turn = turn

    def begin(self, turn: Turn) -> None:
        """Record that the turn under way is really worked on."""
        if turn.state is not TurnState.QUEUED:
            return
        turn.state = TurnState.RUNNING
        turn.started_at = self._services.now()
        if turn.errand is not None:
            turn.errand.began.set()
        self._touch(turn)
        request = turn.request
        values = {
            "runId": turn.run_id,
            "prompt": [without_bytes(block) for block in request.content],
            "origin": request.origin or request.requester.label(),
            "provenance": dict(request.provenance),
            "correlationId": request.correlation_id,
        }
        self.emit(Fact("turn_started", values))
        if by_person(request):
            self._services.watching.changed(self.key, SPOKEN_TO, parent=self._parent)

    def prompt_of(self, turn: Turn) -> tuple[Mapping[str, Any], ...]:
        """Return what the agent is sent for a turn: what was asked, and what it is to be told."""
        content, news = self._services.remarks.behind(self.key, turn, turn.request.content)
        if news:
            what = "a question was" if news == 1 else f"{news} questions were"
            message = f"with this prompt the agent is told why {what} denied"
            self.emit(Fact("notice", {"kind": "reasons_told", "message": message}))
        content, notes = self._services.notes.behind(self.key, turn, content)
        for note in notes:
            message = "with this prompt the agent is told what was sent to it"
            values = {"kind": "note_told", "message": message, "notificationId": note.id}
            self.emit(Fact("notice", {**values, "provenance": dict(note.provenance)}))
        return content

    async def announce(self, turn: Turn) -> None:
        """Put on record what a turn tells its session of, just before the prompt is sent.

        Raises:
            BridgeError: `request_cancelled`, when nobody is to be told any more; `store_full`.
        """
        if turn.request.going_out is not None:
            await turn.request.going_out()
            if self._unwanted(turn):
                raise BridgeError("request_cancelled", "The turn was cancelled.")
        if turn.errand is None:
            return
        try:
            await turn.errand.go(self._services.ledger, lambda: self._unwanted(turn))
        except BridgeError as error:
            turn.cancelling = turn.cancelling or error.code == "request_cancelled"
            raise
        self.emit(Fact("announce", {"state": "sent", **turn.request.provenance}))

    async def complete(self, turn: Turn, result: TurnResult) -> None:
        """End a turn that the agent answered. Only `end_turn` counts as completed."""
        reason = result.stop_reason
        if turn.timed_out or turn.verdict is not None:
            await self.fail(turn, None)
            return
        if not reason and not turn.cancelling:
            message = "The agent ended the turn without a stop reason."
            await self.fail(turn, BridgeError("turn_failed", message))
            return
        outcome = Outcome.COMPLETED if reason == "end_turn" else Outcome.FAILED
        if turn.cancelling or reason == "cancelled":
            # A turn that we cancelled is cancelled, whatever the agent answers (case 30).
            reason, outcome = "cancelled", Outcome.CANCELLED
        fields: dict[str, Any] = {"stopReason": reason, "result": dict(result.raw)}
        if "usage" in result.raw:
            fields["usage"] = result.raw["usage"]
        if outcome is Outcome.CANCELLED:
            fields |= self._why_cancelled()
        usage = result.raw.get("usage")
        ending = _Ending(outcome, Fact("turn_ended", fields), reason, usage=usage)
        await self._finish(turn, ending)

    async def fail(self, turn: Turn, error: BridgeError | None) -> None:
        """End a turn with an error, or as cancelled or timed out if that is why it has none."""
        if turn.timed_out:
            outcome = Outcome.TIMED_OUT
            message = f"The turn did not end in {turn.request.timeout:g} s."
            error = BridgeError("prompt_timeout", message)
        elif turn.verdict is not None:
            outcome, error = Outcome.FAILED, turn.verdict
        elif turn.cancelling or (error is None and self.closing):
            await self.cancelled(turn)
            return
        else:
            outcome = Outcome.FAILED
            error = error or BridgeError("agent_died", "The agent is gone.")
        error = self._services.clean(error)
        event = Fact("turn_failed", {"error": error.to_json()})
        await self._finish(turn, _Ending(outcome, event, error=error))

    async def cancelled(self, turn: Turn) -> None:
        """End a turn as cancelled, whether it ever ran or not."""
        turn.cancelling = True
        values = {"stopReason": "cancelled", "result": {}, **self._why_cancelled()}
        event = Fact("turn_ended", values)
        await self._finish(turn, _Ending(Outcome.CANCELLED, event, "cancelled"))

    def _why_cancelled(self) -> dict[str, str]:
        """Return what a turn was cancelled with, where it was more than the turn."""
        return {"because": self.because} if self.closing and self.because else {}

    def mark_cancelling(self, turn: Turn) -> None:
        """From now on the turn's outcome is `cancelled`, and so is all that it asks (row 15)."""
        turn.cancelling = True
        turn.state = TurnState.CANCELLING
        self._services.broker.withdraw(self.key, Reason.CANCELLED, turn.run_id)

    async def _finish(self, turn: Turn, ending: "_Ending") -> None:
        """Give a turn its one outcome: on record first, then in the log, then told."""
        if turn.outcome is not None:
            with anyio.CancelScope(shield=True):
                await turn.done.wait()
            return
        turn.outcome, turn.stop_reason = ending.outcome, ending.stop_reason
        turn.error = error = ending.error
        died = error is not None and error.code == "agent_died"
        reason = Reason.AGENT_DIED if died else Reason.CANCELLED
        try:
            with anyio.CancelScope(shield=True):
                self._services.broker.withdraw(self.key, reason, turn.run_id)
                if turn.request.delivery:
                    # What it said is on disk before anybody is to hear of it, whoever dies then.
                    with anyio.move_on_after(COMMIT_WAIT):
                        await self._services.log.committed(self.key)
                await self._store(turn, ending)
                with anyio.move_on_after(ANSWERS_WAIT):
                    await turn.all_answered()
                if self.turn is turn:
                    self.turn = None  # what the agent says from here on is nobody's (case 31)
                self._append(turn, ending.event)
                self._tell_others(turn, ending.outcome)
                with anyio.move_on_after(COMMIT_WAIT):
                    await self._services.log.committed(self.key)
        finally:
            if self.turn is turn:
                self.turn = None
            turn.done.set()
            if turn.request.delivery or turn.errand is not None or self._archived:
                self._services.tidings.tell()

    def _tell_others(self, turn: Turn, outcome: Outcome) -> None:
        """Keep for those who watch the session how its turn ended; what that carried is told."""
        self._services.notes.over(self.key, turn)
        news, by = news_of(turn.run_id, outcome), asker(turn.request)
        self._services.watching.changed(self.key, news, by=by)

    async def _store(self, turn: Turn, ending: "_Ending") -> None:
        """Put the outcome into the ledger: now, or once the ledger can be written again."""
        error = None if ending.error is None else ending.error.to_json()
        ended_at = self._services.now()
        delivery = completion_of(turn, ending.outcome)
        settled = None if turn.errand is None else turn.errand.settled(ending.error, ended_at)

        async def store() -> None:
            await self._services.ledger.finish_run(
                turn.run_id,
                ending.outcome,
                ending.stop_reason,
                error,
                ended_at,
                usage=ending.usage if isinstance(ending.usage, Mapping) else None,
                started_at=turn.started_at,
                delivery=delivery,
                settled=settled,
            )
            turn.stored = True
            if turn.done.is_set() and delivery is not None:
                self._services.tidings.tell()  # later than it should have been

        try:
            await store()
        except BridgeError as failure:
            log.warning("an outcome is not stored yet", run=turn.run_id, code=failure.code)
            self._services.scribe.put(store)

    def _append(self, turn: Turn | None, event: Event) -> None:
        self._services.log.append(self.key, None if turn is None else turn.run_id, event)

    def _touch(self, turn: Turn) -> None:
        turn.last_update = self._services.clock.monotonic()
        turn.last_update_at = self._services.now()
