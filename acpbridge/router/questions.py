"""Questions on their way: from the broker into log and ledger, and from people to the broker."""

from typing import Any

from acpbridge.model.agents import RuntimeKind
from acpbridge.model.events import Fact
from acpbridge.model.permission import Decision, Effect, PermissionRequest, Question
from acpbridge.model.requesters import Requester
from acpbridge.permissions.grants import Grant
from acpbridge.router.authorize import Action, Target, authorize
from acpbridge.router.directory import Directory
from acpbridge.router.feed import QuestionFeed, QuestionWatcher
from acpbridge.router.remarks import remarkable
from acpbridge.router.services import Services
from acpbridge.store.records import QuestionRecord


class Questions:
    """What is asked and decided in all sessions.

    Args:
        directory: who may see which session.
        services: broker, log, ledger and scribe.
    """

    def __init__(self, directory: Directory, services: Services) -> None:
        self._directory = directory
        self._services = services
        self._stored: set[str] = set()
        self._feed = QuestionFeed(
            services.broker.questions,
            lambda who, key: directory.may(Action.LIST_QUESTIONS, who, key),
            services.now,
            self._shown,
        )

    @property
    def revision(self) -> int:
        """How often a question was asked or decided so far."""
        return self._feed.revision

    async def changed(self, revision: int) -> None:
        """Wait until more was asked or decided than at a revision."""
        while self._feed.revision == revision:
            await self._feed.news()

    def listed(self, requester: Requester) -> list[dict[str, Any]]:
        """Return the open questions; see `RouterApi.questions`."""
        return [
            self._shown(question)
            for question in self._services.broker.questions()
            if self._directory.may(Action.LIST_QUESTIONS, requester, question.request.session)
        ]

    def watch(self, requester: Requester, key: str = "") -> QuestionWatcher:
        """Return a cursor over the questions; see `RouterApi.watch`."""
        if not key:
            return QuestionWatcher(self._feed, requester)
        top = self._directory.find(key, requester, Action.SEE).key
        return QuestionWatcher(
            self._feed,
            requester,
            lambda one: top == one or top in self._directory.line_above(one),
        )

    def _shown(self, question: Question) -> dict[str, Any]:
        """Return a question, with what started its session, and what started that one."""
        above = self._directory.line_above(question.request.session)
        return {**question.to_json(), "above": [str(key) for key in above]}

    async def answer(
        self,
        question: str,
        requester: Requester,
        *,
        option_id: str | None,
        effect: Effect | None,
        note: str,
        confirm: str | None = None,
    ) -> dict[str, Any]:
        """Answer a question; see `RouterApi.answer`. The broker audits refusals too (row 24)."""
        broker = self._services.broker
        asked = [q.request for q in broker.questions() if q.request.id == question]
        decision = await broker.answer(
            question,
            requester=requester,
            option_id=option_id,
            effect=effect,
            note=note,
            confirm=confirm,
        )
        return {"id": question, **decision.to_json(), **self._told(decision, *asked)}

    def _told(self, decision: Decision, *asked: PermissionRequest) -> dict[str, bool]:
        """Return whether the reason of a decision goes to the agent with its next prompt."""
        if not decision.note:
            return {}
        session = self._directory.get(asked[0].session) if asked else None
        # Code in Python is handed the prompt as it is, and would take the reason for a part of it.
        hears = (
            session is not None
            and not session.closing
            and session.definition.kind is not RuntimeKind.PYTHON
        )
        return {"told": hears and remarkable(decision)}

    async def grants(self, requester: Requester) -> list[dict[str, Any]]:
        """Return the grants in force; see `RouterApi.grants`."""
        authorize(Action.GRANTS, requester, Target())
        await self._services.broker.tell()
        return [self._of(grant) for grant in self._services.broker.grants()]

    async def revoke(self, grants: list[str], requester: Requester) -> list[dict[str, Any]]:
        """End grants; see `RouterApi.revoke`."""
        authorize(Action.GRANTS, requester, Target())
        revoked = await self._services.broker.revoke(grants, requester)
        return [self._of(grant) for grant in revoked]

    def _of(self, grant: Grant) -> dict[str, Any]:
        """Return a grant without the secrets that a command or a path may hold."""
        shown: dict[str, Any] = self._services.redact(grant.to_json())
        return shown

    # ---- What the broker tells ----

    def asked(self, question: Question) -> None:
        """Put an open question into its session's log, and on record."""
        request = question.request
        fact = Fact("permission_asked", self._shown(question))
        self._services.log.append(request.session, request.turn, fact)
        record = QuestionRecord(
            request.id, request.session, request.turn, question.asked_at, question.expires_at
        )
        self._stored.add(request.id)
        self._feed.asked(question)
        self._services.scribe.put(lambda: self._services.ledger.put_question(record))

    def decided(self, request: PermissionRequest, decision: Decision) -> None:
        """Put a decision into its session's log, and on record if anybody was asked."""
        subject = request.ask.subject
        values: dict[str, Any] = {
            "id": request.id,
            "title": subject.title,
            "kind": subject.kind,
            "toolCallId": subject.tool_call_id,
            **decision.to_json(),
            **self._told(decision, request),
        }
        if values.get("told"):
            self._services.remarks.add(request, decision)
        fact = Fact("permission_decided", values)
        self._services.log.append(request.session, request.turn, fact)
        if request.id not in self._stored:
            return
        self._stored.discard(request.id)
        self._feed.decided(request, decision, self._told(decision, request))
        ledger, now = self._services.ledger, self._services.now()
        self._services.scribe.put(lambda: ledger.decide_question(request.id, decision, now))
