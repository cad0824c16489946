"""The broker: every permission request is decided once, by a rule, a person or the deadline.

Above are sessions, which ask, and faces, which answer. `policy` says what an answer comes to, the
audit has it before anybody acts on it. The task that asks is the one that settles: a decision is
claimed synchronously, by whoever is first, and then recorded and returned by that task alone.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

import anyio

from acpbridge.errors import BridgeError
from acpbridge.model.faults import Faults, no_faults
from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import Decision, Effect, PermissionRequest, Question, Reason
from acpbridge.model.ports import Clock
from acpbridge.model.requesters import Requester, Role
from acpbridge.permissions import policy
from acpbridge.permissions.audit import Audit
from acpbridge.permissions.record import decision_fields, place_fields, requester_fields

# So many settled questions are remembered, to say by whom and when to one who comes too late.
REMEMBERED: Final = 1024
# Longest time for a record to be written; a disk that takes longer counts as one that fails.
AUDIT_SECONDS: Final = 5.0
# Those who may answer. Agents never approve agents, nor does the bridge itself.
_PEOPLE: Final = frozenset({Role.OPERATOR, Role.EDITOR})


@dataclass(frozen=True, slots=True)
class _Claim:
    """A decision that won, with who made it and when; it is not in the audit yet."""

    decision: Decision
    at: str
    requester: Requester | None = None


@dataclass(slots=True, eq=False)
class _Entry:
    """A request from when it came in until it is settled.

    Attributes:
        rule: id of the rule that decided it, or that sent it to a person.
        started: monotonic.
        question: what people see; None if nobody needs to be asked.
        claim: the decision, once there is one.
        withdrawn: set if the request was withdrawn while its decision was being recorded.
        final: what was returned.
    """

    request: PermissionRequest
    rule: str
    started: float
    question: Question | None = None
    claim: _Claim | None = None
    withdrawn: _Claim | None = None
    final: Decision | None = None
    claimed: anyio.Event = field(default_factory=anyio.Event)
    settled: anyio.Event = field(default_factory=anyio.Event)

    def decide(self, claim: _Claim) -> bool:
        """Claim the request; the first one wins."""
        if self.claim is not None:
            return False
        self.claim = claim
        self.claimed.set()
        return True

    def withdraw(self, claim: _Claim) -> bool:
        """Take the request back, even from a decision that is still being recorded."""
        if self.claim is None:
            return self.decide(claim)
        gone = self.withdrawn is not None or self.claim.decision.effect is Effect.CANCEL
        if gone or self.final is not None:
            return False
        self.withdrawn = claim
        return True


class PermissionBroker:
    """Decides permission requests and keeps those that wait for a person.

    Args:
        audit: has every decision before it is returned.
        clock: its wall time is shown, its monotonic time is recorded.
        deadline: seconds until a question that nobody answered is denied.
        per_session: most open questions of one session; the next one is denied.
        in_all: most open questions of all sessions.
        on_asked: told of each question that waits for a person. Cannot block, cannot fail.
        on_decided: told of each request that was settled. Cannot block, cannot fail.
        faults: points at which a test may fail.
    """

    def __init__(  # noqa: PLR0913 -- limits and callbacks, all by keyword
        self,
        audit: Audit,
        clock: Clock,
        *,
        deadline: float = 300.0,
        per_session: int = 32,
        in_all: int = 256,
        on_asked: Callable[[Question], None],
        on_decided: Callable[[PermissionRequest, Decision], None],
        faults: Faults = no_faults,
    ) -> None:
        self._audit = audit
        self._clock = clock
        self._deadline = deadline
        self._bounds = (per_session, in_all)
        self._on_asked = on_asked
        self._on_decided = on_decided
        self._faults = faults
        self._entries: dict[str, _Entry] = {}
        self._resolved: OrderedDict[str, str] = OrderedDict()
        self._stopping = False

    async def ask(
        self,
        request: PermissionRequest,
        withdrawn: Callable[[], Reason] = lambda: Reason.WITHDRAWN,
    ) -> Decision:
        """Have a request decided; return only what the audit has, or a denial.

        Cancelling the call withdraws its question.

        Args:
            request: what is asked.
            withdrawn: asked why, when that happens.
        """
        entry = self._enter(request)
        try:
            if entry.question is not None:
                await self._wait(entry, entry.question)
        except BaseException:
            entry.withdraw(self._cancelled(withdrawn()))
            raise
        finally:
            await self._settle(entry)
        assert entry.final is not None
        return entry.final

    def questions(self) -> list[Question]:
        """Return the open questions, the oldest first."""
        return [
            entry.question
            for entry in self._entries.values()
            if entry.question is not None and entry.claim is None
        ]

    async def answer(
        self,
        question_id: str,
        *,
        requester: Requester,
        option_id: str | None = None,
        effect: Effect | None = None,
        note: str = "",
    ) -> Decision:
        """Answer a question with an offered option or with an effect; the first answer wins.

        Returns:
            What the question came to once it was recorded: the answer, or a denial if it could
            not be recorded, or `cancelled` if the agent's call went away meanwhile.

        Raises:
            BridgeError: `permission_denied` for one who may not answer, `no_such_question`,
                `already_resolved`, or `invalid_option`, after which the question is still open.
        """
        if requester.role not in _PEOPLE:
            await self._refuse(question_id, requester)
        entry = self._entries.get(question_id)
        if entry is None or entry.claim is not None:
            raise self._gone(question_id, entry)
        decision = _answered(entry.request, requester, option_id, effect, note)
        entry.decide(_Claim(decision, self._now(), requester))
        await entry.settled.wait()
        assert entry.final is not None
        return entry.final

    def withdraw(self, session: SessionKey, reason: Reason, turn: str | None = None) -> list[str]:
        """Take back what a session asks, or one turn of it; return the ids.

        A decision that is still being recorded is taken back too: its agent gets `cancelled`.
        """
        return [
            entry.request.id
            for entry in self._entries.values()
            if entry.request.session == session
            and turn in (None, entry.request.turn)
            and entry.withdraw(self._cancelled(reason))
        ]

    def withdraw_one(self, question_id: str, reason: Reason) -> bool:
        """Take back one request; tell whether it was still there."""
        entry = self._entries.get(question_id)
        return entry is not None and entry.withdraw(self._cancelled(reason))

    def stop(self) -> None:
        """Cancel everything that is open, and from now on every request at once."""
        self._stopping = True
        for entry in self._entries.values():
            entry.withdraw(self._cancelled(Reason.STOPPING))

    def _enter(self, request: PermissionRequest) -> _Entry:
        """Judge a request: its entry is decided already, or has a question."""
        verdict = policy.judge(request)
        entry = _Entry(request, verdict.rule, self._clock.monotonic())
        choice = policy.choose(request.ask, verdict.effect)
        if self._stopping:
            entry.decide(self._cancelled(Reason.STOPPING))
        elif request.id in self._entries:
            entry.decide(self._denied(request, Reason.MALFORMED))
        elif choice.effect is not None:
            by = entry.rule if choice.reason is Reason.RULE else ""
            decision = Decision(choice.effect, choice.option_id, choice.reason, by)
            entry.decide(_Claim(decision, self._now()))
        elif self._is_full(request.session):
            entry.decide(self._denied(request, Reason.FLOOD))
        else:
            asked = self._clock.wall()
            expires = asked + timedelta(seconds=self._deadline)
            entry.question = Question(request, asked.isoformat(), expires.isoformat())
        self._entries.setdefault(request.id, entry)
        return entry

    def _is_full(self, session: SessionKey) -> bool:
        waiting = [entry for entry in self._entries.values() if entry.question is not None]
        of_session = sum(entry.request.session == session for entry in waiting)
        per_session, in_all = self._bounds
        return of_session >= per_session or len(waiting) >= in_all

    async def _wait(self, entry: _Entry, question: Question) -> None:
        self._on_asked(question)
        with anyio.move_on_after(self._deadline):
            await entry.claimed.wait()
        # An answer that came just before the deadline has claimed it; then this does nothing.
        entry.decide(self._denied(entry.request, Reason.DEADLINE))

    async def _settle(self, entry: _Entry) -> None:
        """Record the decision of an entry and make it final, whoever cancels this task."""
        assert entry.claim is not None
        decision = await self._commit(entry, entry.claim)
        # Withdrawn while it was written: the audit gets a second word, the agent `cancelled`.
        if entry.withdrawn is not None and decision.effect is not Effect.CANCEL:
            decision = await self._commit(entry, entry.withdrawn)
        entry.final = decision
        if self._entries.get(entry.request.id) is entry:
            del self._entries[entry.request.id]
            self._remember(entry.request.id, _by_whom(decision, entry.claim.at))
        entry.settled.set()
        self._on_decided(entry.request, decision)

    async def _commit(self, entry: _Entry, claim: _Claim) -> Decision:
        """Return the decision once the audit has it; an allow that it has not is a denial."""
        decision, request = claim.decision, entry.request

        def fields() -> dict[str, Any]:
            latency = self._clock.monotonic() - entry.started
            return decision_fields(request, entry.rule, decision, claim.requester, latency)

        allows = decision.effect is Effect.ALLOW
        recorded = await self._recorded("permission_decided", fields, durable=allows)
        if recorded or not allows:
            return decision
        # Said once more, if that is possible: a write that was given up may still come to be.
        denial = policy.denial(request.ask, Reason.AUDIT_FAILED)
        return await self._commit(entry, _Claim(denial, claim.at, claim.requester))

    async def _recorded(
        self, kind: str, fields: Callable[[], dict[str, Any]], *, durable: bool
    ) -> bool:
        """Tell whether the audit has a record: shielded from cancellation, bounded in time."""
        with anyio.move_on_after(AUDIT_SECONDS, shield=True):
            try:
                self._faults("permission.record")
                await self._audit.record(kind, fields(), durable=durable)
                self._faults("permission.recorded")
            except Exception:  # noqa: BLE001 -- the boundary of a call: whatever it was, deny
                return False
            return True
        return False

    async def _refuse(self, question_id: str, requester: Requester) -> None:
        entry = self._entries.get(question_id)
        place = {"request_uid": question_id} if entry is None else place_fields(entry.request)
        fields = {**place, "requester": requester_fields(requester)}
        await self._recorded("permission_refused", lambda: fields, durable=False)
        raise BridgeError("permission_denied", f"{requester.label()} may not answer questions.")

    def _gone(self, question_id: str, entry: _Entry | None) -> BridgeError:
        if entry is not None and entry.claim is not None:
            how = _by_whom(entry.claim.decision, entry.claim.at)
        elif question_id in self._resolved:
            how = self._resolved[question_id]
        else:
            return BridgeError("no_such_question", f"There is no question {question_id!r}.")
        return BridgeError("already_resolved", f"Question {question_id} is already {how}.")

    def _remember(self, question_id: str, how: str) -> None:
        self._resolved[question_id] = how
        while len(self._resolved) > REMEMBERED:
            self._resolved.popitem(last=False)

    def _now(self) -> str:
        return self._clock.wall().isoformat()

    def _cancelled(self, reason: Reason) -> _Claim:
        return _Claim(policy.cancellation(reason), self._now())

    def _denied(self, request: PermissionRequest, reason: Reason) -> _Claim:
        return _Claim(policy.denial(request.ask, reason), self._now())


def _answered(
    request: PermissionRequest,
    requester: Requester,
    option_id: str | None,
    effect: Effect | None,
    note: str,
) -> Decision:
    """Return the decision that a person's answer comes to."""
    ask, by = request.ask, requester.label()
    if (option_id is None) == (effect is None):
        raise policy.invalid_option(ask, "Answer with either an option or an effect.")
    if option_id is not None:
        option = policy.pick(ask, option_id, allow_bypass=request.allow_bypass)
        effect = policy.effect_of(option)
        return Decision(effect, option.option_id, Reason.OPERATOR, by, note)
    if effect is Effect.DENY:
        return policy.denial(ask, Reason.OPERATOR, by=by, note=note)
    if effect is Effect.CANCEL:
        return policy.cancellation(Reason.OPERATOR, by=by, note=note)
    allow = policy.the_allow_once(ask)
    if allow is None:
        raise policy.invalid_option(ask, "There is not exactly one option that allows once.")
    return Decision(Effect.ALLOW, allow.option_id, Reason.OPERATOR, by, note)


def _by_whom(decision: Decision, at: str) -> str:
    by = decision.by or decision.reason
    return f"decided by {by} at {at}: {decision.effect}"
