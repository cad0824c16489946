"""The broker: every permission request is decided once, by a rule, a person or the deadline.

Above are sessions, which ask, and faces, which answer. `policy` says what an answer comes to, the
audit has it before anybody acts on it. The task that asks is the one that settles: a decision is
claimed synchronously, by whoever is first, and then recorded and returned by that task alone.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Final

import anyio
import structlog

from acpbridge.errors import BridgeError
from acpbridge.model.faults import Faults, no_faults
from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import Decision, Effect, PermissionRequest, Question, Reason
from acpbridge.model.ports import Clock
from acpbridge.model.requesters import Requester, Role
from acpbridge.permissions import policy
from acpbridge.permissions.answers import Answer, answered
from acpbridge.permissions.audit import Audit
from acpbridge.permissions.entries import Claim, Entry
from acpbridge.permissions.record import decision_fields, place_fields, requester_fields
from acpbridge.permissions.verdict import Ruling, Verdict

log = structlog.get_logger(__name__)

# So many settled questions are remembered, to say by whom and when to one who comes too late.
REMEMBERED: Final = 1024
# Longest time for a record to be written; a disk that takes longer counts as one that fails.
AUDIT_SECONDS: Final = 5.0
# Those who may answer. Agents never approve agents, nor does the bridge itself.
_PEOPLE: Final = frozenset({Role.OPERATOR, Role.EDITOR})


async def by_run_rule(request: PermissionRequest) -> Verdict:
    """Judge a request by its run's rule alone."""
    return policy.judge(request)


class PermissionBroker:
    """Decides permission requests and keeps those that wait for a person.

    Args:
        audit: has every decision before it is returned.
        clock: its wall time is shown, its monotonic time is recorded.
        judge: says what the rules want of a request. If it fails, the request is denied; what it
            says of one that was taken back meanwhile counts for nothing.
        deadline: seconds until a request that nobody decided is denied, the judge's time included.
        per_session: most requests of one session that are judged or asked; the next one is denied.
        in_all: most requests of all sessions that are.
        on_asked: told of each question that waits for a person. Cannot block, cannot fail.
        on_decided: told of each request that was settled. Cannot block, cannot fail.
        faults: points at which a test may fail.
    """

    def __init__(  # noqa: PLR0913 -- limits and callbacks, all by keyword
        self,
        audit: Audit,
        clock: Clock,
        *,
        judge: Callable[[PermissionRequest], Awaitable[Verdict]] = by_run_rule,
        deadline: float = 300.0,
        per_session: int = 32,
        in_all: int = 256,
        on_asked: Callable[[Question], None],
        on_decided: Callable[[PermissionRequest, Decision], None],
        faults: Faults = no_faults,
    ) -> None:
        self._audit = audit
        self._clock = clock
        self._judge = judge
        self._deadline = deadline
        self._bounds = (per_session, in_all)
        self._on_asked = on_asked
        self._on_decided = on_decided
        self._faults = faults
        self._entries: dict[str, Entry] = {}
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
            if entry.claim is None:
                await self._wait(entry)
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
            if entry.question is not None and entry.is_open()
        ]

    async def answer(
        self,
        question_id: str,
        *,
        requester: Requester,
        option_id: str | None = None,
        effect: Effect | None = None,
        note: str = "",
        confirm: str | None = None,
    ) -> Decision:
        """Answer a question with an offered option or with an effect; the first answer wins.

        Args:
            question_id: of the request.
            requester: who answers.
            option_id: exact id of an offered option.
            effect: what is wanted, where no option is named.
            note: the person's words, for the audit.
            confirm: the option's id once more, where the choice is doubtful (rows 4 and 27).

        Returns:
            What the question came to once it was recorded: the answer, or a denial if it could
            not be recorded, or `cancelled` if the agent's call went away meanwhile.

        Raises:
            BridgeError: `permission_denied` for one who may not answer, `no_such_question`,
                `already_resolved`; or `invalid_option` or `confirmation_needed`, after which the
                question is still open.
        """
        if requester.role not in _PEOPLE:
            await self._refuse(question_id, requester)
        entry = self._entries.get(question_id)
        if entry is None or not entry.is_open():
            raise self._gone(question_id, entry)
        decision = answered(entry.request, requester, Answer(option_id, effect, note, confirm))
        entry.decide(Claim(decision, self._now(), requester))
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

    def _enter(self, request: PermissionRequest) -> Entry:
        """Put a request among those that can be taken back, before anything is awaited for it."""
        entry = Entry(request, self._clock.wall(), self._clock.monotonic())
        malformed = policy.choose(request.ask, Ruling.ASK)
        if self._stopping:
            entry.decide(self._cancelled(Reason.STOPPING))
        elif request.id in self._entries:
            entry.decide(self._denied(request, Reason.MALFORMED))
        elif malformed.effect is not None:
            decision = Decision(malformed.effect, malformed.option_id, malformed.reason)
            entry.decide(Claim(decision, self._now()))
        elif self._is_full(request.session):
            entry.decide(self._denied(request, Reason.FLOOD))
        self._entries.setdefault(request.id, entry)
        return entry

    def _is_full(self, session: SessionKey) -> bool:
        """Tell whether as many are judged, asked or being answered as may be (row 33)."""
        under_way = [
            entry
            for entry in self._entries.values()
            if entry.claim is None or entry.question is not None
        ]
        of_session = sum(entry.request.session == session for entry in under_way)
        per_session, in_all = self._bounds
        return of_session >= per_session or len(under_way) >= in_all

    async def _wait(self, entry: Entry) -> None:
        """Have a request judged, then answered if need be; return once it is claimed."""
        entry.waiting.deadline = anyio.current_time() + self._deadline
        with entry.waiting:
            await self._judged(entry)
            if entry.claim is None:
                entry.question = self._question(entry)
                self._on_asked(entry.question)
                await anyio.sleep_forever()
        # An answer that came just before the deadline has claimed it; then this does nothing.
        entry.decide(self._denied(entry.request, Reason.DEADLINE))

    async def _judged(self, entry: Entry) -> None:
        """Claim a request by what the judge says of it, unless a person must be asked."""
        try:
            verdict = await self._judge(entry.request)
        except Exception:
            # The boundary of a call: whatever it was, deny.
            log.exception("a request could not be judged", request=entry.request.id)
            entry.decide(self._denied(entry.request, Reason.JUDGE_FAILED))
            return
        if entry.claim is not None:
            return
        entry.rule, entry.policy_sha256 = verdict.rule, verdict.policy_sha256
        choice = policy.choose(entry.request.ask, verdict.effect)
        if choice.effect is not None:
            reason = verdict.reason if choice.reason is Reason.RULE else choice.reason
            decision = Decision(choice.effect, choice.option_id, reason, verdict.rule)
            entry.decide(Claim(decision, self._now()))

    def _question(self, entry: Entry) -> Question:
        expires = entry.came + timedelta(seconds=self._deadline)
        return Question(entry.request, entry.came.isoformat(), expires.isoformat())

    async def _settle(self, entry: Entry) -> None:
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

    async def _commit(self, entry: Entry, claim: Claim) -> Decision:
        """Return the decision once the audit has it; an allow that it has not is a denial."""
        decision, request = claim.decision, entry.request

        def fields() -> dict[str, Any]:
            latency = self._clock.monotonic() - entry.started
            sha256 = entry.policy_sha256
            return decision_fields(request, entry.rule, sha256, decision, claim.requester, latency)

        allows = decision.effect is Effect.ALLOW
        recorded = await self._recorded("permission_decided", fields, durable=allows)
        if recorded or not allows:
            return decision
        # Said once more, if that is possible: a write that was given up may still come to be.
        denial = policy.denial(request.ask, Reason.AUDIT_FAILED)
        return await self._commit(entry, Claim(denial, claim.at, claim.requester))

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

    def _gone(self, question_id: str, entry: Entry | None) -> BridgeError:
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

    def _cancelled(self, reason: Reason) -> Claim:
        return Claim(policy.cancellation(reason), self._now())

    def _denied(self, request: PermissionRequest, reason: Reason) -> Claim:
        return Claim(policy.denial(request.ask, reason), self._now())


def _by_whom(decision: Decision, at: str) -> str:
    by = decision.by or decision.reason
    return f"decided by {by} at {at}: {decision.effect}"
