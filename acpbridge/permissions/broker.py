"""The broker: every permission request is decided once, by a rule, a person or the deadline.

Above are sessions, which ask, and faces, which answer. `policy` says what an answer comes to, the
audit has it before anybody acts on it. The task that asks is the one that settles: a decision is
claimed synchronously, by whoever is first, and then recorded and returned by that task alone.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import anyio
import structlog

from acpbridge.errors import BridgeError
from acpbridge.model.faults import Faults, no_faults
from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import (
    Decision,
    Effect,
    Lasts,
    PermissionRequest,
    Question,
    Reason,
)
from acpbridge.model.ports import Clock
from acpbridge.model.requesters import Requester, Role
from acpbridge.permissions import policy
from acpbridge.permissions.answers import Answer, always, answered
from acpbridge.permissions.audit import Audit
from acpbridge.permissions.entries import Claim, Entry
from acpbridge.permissions.granting import Granting
from acpbridge.permissions.grants import Ended, Grant, Grants, is_grant
from acpbridge.permissions.record import decision_fields, place_fields, resolved_fields
from acpbridge.permissions.recorder import Recorder
from acpbridge.permissions.refusals import Refusals
from acpbridge.permissions.settled import Settled, too_late
from acpbridge.permissions.verdict import NO_MATCH, Ruling, Verdict

log = structlog.get_logger(__name__)

# Those who may answer. Agents never approve agents, nor does the bridge itself.
_PEOPLE: Final = frozenset({Role.OPERATOR, Role.EDITOR})


class PermissionBroker:
    """Decides permission requests and keeps those that wait for a person.

    Args:
        audit: has every decision before it is returned.
        clock: its wall time is shown, its monotonic time is recorded.
        judge: says what the rules want of a request; None: the run's own rule, and grants. If it
            fails, the request is denied; what it says of one that was taken back meanwhile counts
            for nothing.
        grants: those in force; None: those that are made here.
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
        judge: Callable[[PermissionRequest], Awaitable[Verdict]] | None = None,
        grants: Grants | None = None,
        deadline: float = 300.0,
        per_session: int = 32,
        in_all: int = 256,
        on_asked: Callable[[Question], None],
        on_decided: Callable[[PermissionRequest, Decision], None],
        faults: Faults = no_faults,
    ) -> None:
        self._clock = clock
        self._judge = judge or self._by_run_rule
        self._grants = Grants(clock) if grants is None else grants
        self._recorder = Recorder(audit, faults)
        self._granting = Granting(self._grants, self._recorder)
        self._refusals = Refusals(self._recorder, clock)
        self._deadline = deadline
        self._bounds = (per_session, in_all)
        self._on_asked = on_asked
        self._on_decided = on_decided
        self._entries: dict[str, Entry] = {}
        self._settled = Settled()
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
        assert entry.question is not None
        decision = answered(entry.question, requester, Answer(option_id, effect, note, confirm))
        entry.decide(Claim(decision, self._now(), requester, option_id))
        await entry.settled.wait()
        await self._granting.tell()
        assert entry.final is not None
        return entry.final

    def withdraw(self, session: SessionKey, reason: Reason, turn: str | None = None) -> list[str]:
        """Take back what a session asks, or one turn of it; return the ids.

        A decision that is still being recorded is taken back too: its agent gets `cancelled`.
        Without a turn it is the end of the session or of its agent: what was granted ends too.
        """
        if turn is None:
            self._grants.end(session, Ended.DIED if reason is Reason.AGENT_DIED else Ended.SESSION)
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

    def grants(self) -> list[Grant]:
        """Return the grants that are in force, the oldest first."""
        return self._grants.listed()

    async def revoke(self, ids: list[str], requester: Requester) -> list[Grant]:
        """End grants at once; see `Granting.revoke`."""
        return await self._granting.revoke(ids, requester)

    async def tell(self) -> None:
        """Record what nobody waited for: grants that are over, refusals that were only counted."""
        await self._granting.tell()
        await self._refusals.tell()

    def stop(self) -> None:
        """Cancel everything that is open, and from now on every request at once."""
        self._stopping = True
        self._grants.end(None, Ended.SESSION)
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
        if is_grant(verdict.rule) and not self._grants.holds(verdict.rule):
            # It is over since the judge looked.
            verdict = replace(verdict, effect=NO_MATCH.effect, rule=NO_MATCH.rule)
        entry.rule, entry.facts = verdict.rule, verdict.facts
        entry.policy_sha256 = verdict.policy_sha256
        choice = policy.choose(entry.request.ask, verdict.effect)
        if choice.effect is not None:
            reason = verdict.reason if choice.reason is Reason.RULE else choice.reason
            decision = Decision(choice.effect, choice.option_id, reason, verdict.rule)
            entry.decide(Claim(decision, self._now()))

    async def _by_run_rule(self, request: PermissionRequest) -> Verdict:
        verdict = policy.judge(request)
        granted = self._grants.verdict(request) if verdict.rule == policy.RUN_ASK else None
        return granted or verdict

    def _question(self, entry: Entry) -> Question:
        expires = (entry.came + timedelta(seconds=self._deadline)).isoformat()
        entry.scope, offer = self._granting.offered(entry)
        lasts = always(entry.request, granted=offer is not None)
        return Question(entry.request, entry.came.isoformat(), expires, offer, lasts)

    async def _settle(self, entry: Entry) -> None:
        """Record the decision of an entry and make it final, whoever cancels this task."""
        assert entry.claim is not None
        decision = await self._commit(entry, entry.claim)
        if decision.lasts is Lasts.SESSION and entry.claim.requester is not None:
            decision = await self._granting.made(entry, decision, entry.claim.requester)
        if not self._still_granted(entry, decision):
            # It was revoked, or expired, while that was written, and nothing is sent yet.
            decision = await self._commit(entry, self._denied(entry.request, Reason.GRANT_ENDED))
        # Withdrawn while it was written: the audit gets a second word, the agent `cancelled`.
        if entry.withdrawn is not None and decision.effect is not Effect.CANCEL:
            decision = await self._commit(entry, entry.withdrawn)
        entry.final = decision
        if self._entries.get(entry.request.id) is entry:
            del self._entries[entry.request.id]
            self._settled.remember(entry.request.id, decision, entry.claim.at)
        entry.settled.set()
        self._on_decided(entry.request, decision)

    def _still_granted(self, entry: Entry, decision: Decision) -> bool:
        """Tell whether a decision stands; by a grant it does while one for the same is in force."""
        if decision.effect is not Effect.ALLOW or not is_grant(decision.by):
            return True
        return self._grants.verdict(entry.request, entry.facts) is not None

    async def _commit(self, entry: Entry, claim: Claim) -> Decision:
        """Return the decision once the audit has it; an allow that it has not is a denial."""
        decision, request = claim.decision, entry.request

        def fields() -> dict[str, Any]:
            latency = self._clock.monotonic() - entry.started
            sha256 = entry.policy_sha256
            who = claim.requester
            said = decision_fields(request, entry.rule, sha256, decision, who, latency)
            return said | {"picked": claim.picked} | resolved_fields(entry.facts)

        allows, recorded = decision.effect is Effect.ALLOW, True
        if allows and claim.requester is None and is_grant(entry.rule):
            recorded = await self._granting.used(entry.rule, request)
        if recorded:
            recorded = await self._recorder.recorded("permission_decided", fields, durable=allows)
        if recorded or not allows:
            return decision
        # Said once more, if that is possible: a write that was given up may still come to be.
        denial = policy.denial(request.ask, Reason.AUDIT_FAILED)
        return await self._commit(entry, Claim(denial, claim.at, claim.requester))

    async def _refuse(self, question_id: str, requester: Requester) -> None:
        entry = self._entries.get(question_id)
        place = {"request_uid": question_id} if entry is None else place_fields(entry.request)
        await self._refusals.record(place, requester)
        raise BridgeError("permission_denied", f"{requester.label()} may not answer questions.")

    def _gone(self, question_id: str, entry: Entry | None) -> BridgeError:
        if entry is not None and entry.claim is not None:
            return too_late(question_id, entry.claim.decision, entry.claim.at)
        return self._settled.gone(question_id)

    def _now(self) -> str:
        return self._clock.wall().isoformat()

    def _cancelled(self, reason: Reason) -> Claim:
        return Claim(policy.cancellation(reason), self._now())

    def _denied(self, request: PermissionRequest, reason: Reason) -> Claim:
        return Claim(policy.denial(request.ask, reason), self._now())
