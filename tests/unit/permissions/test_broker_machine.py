"""The broker against a plain model: any order of requests, answers, cancels, deaths and faults."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from acpbridge.errors import BridgeError
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.permission import (
    Decision,
    Effect,
    OnPermission,
    Option,
    OptionKind,
    PermissionAsk,
    PermissionRequest,
    Reason,
    ToolKind,
    ToolSubject,
)
from acpbridge.model.requesters import Requester, Role
from acpbridge.permissions.audit import Audit, verify
from acpbridge.permissions.broker import PermissionBroker
from acpbridge.permissions.policy import still_valid

SESSIONS = [SessionKey.main(AgentId(name)) for name in ("one", "two")]
TURNS = ["t1", "t2", None]
PER_SESSION, IN_ALL, DEADLINE = 3, 5, 300.0
ALLOW = Option("allow", "Allow", OptionKind.ALLOW_ONCE)
ALWAYS = Option("always", "Always", OptionKind.ALLOW_ALWAYS)
REJECT = Option("reject", "Reject", OptionKind.REJECT_ONCE)
OPTIONS = [(ALLOW, REJECT), (ALWAYS, ALLOW, REJECT), (ALWAYS, REJECT), (ALLOW,), (), (ALLOW, ALLOW)]


class Skewed(asyncio.SelectorEventLoop):
    """An event loop whose monotonic clock a test moves on."""

    skew = 0.0

    def time(self) -> float:
        return super().time() + self.skew


class WallClock:
    def wall(self) -> datetime:
        return datetime(2026, 1, 2, tzinfo=UTC)

    def monotonic(self) -> float:
        return 0.0


@dataclass
class Asked:
    """What the model knows of one request."""

    request: PermissionRequest
    task: asyncio.Task[Decision]
    expected: tuple[Effect, Reason] | None = None  # None: open
    human: bool = False


class BrokerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.loop = Skewed()
        self.broken = self.stopped = False
        self.asked: dict[str, Asked] = {}
        self.decided: dict[str, Decision] = {}

    def run(self, step: Coroutine[Any, Any, None]) -> None:
        """Take a step, then go on until only open questions are left to wait for."""

        async def all_of_it() -> None:
            await step
            tasks = [one.task for one in self.asked.values() if one.expected is not None]
            if tasks:
                await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)

        self.loop.run_until_complete(all_of_it())

    def faults(self, point: str) -> None:
        if self.broken and point == "audit.write":
            raise OSError(28, "No space left on device")

    def heard(self, request: PermissionRequest, decision: Decision) -> None:
        assert request.id not in self.decided
        self.decided[request.id] = decision

    @initialize()
    def start(self) -> None:
        async def start() -> None:
            clock = WallClock()
            self.audit = Audit.open(
                self.directory / "audit", boot_id="b", clock=clock, faults=self.faults
            )
            self.broker = PermissionBroker(
                self.audit,
                clock,
                deadline=DEADLINE,
                per_session=PER_SESSION,
                in_all=IN_ALL,
                on_asked=lambda question: None,
                on_decided=self.heard,
            )

        self.run(start())

    def teardown(self) -> None:
        for one in self.asked.values():
            one.task.cancel()

        async def rest() -> None:
            tasks = [one.task for one in self.asked.values()]
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.loop.shutdown_asyncgens()

        self.loop.run_until_complete(rest())
        assert set(self.decided) == set(self.asked)
        self.audit.close()
        self.loop.close()
        assert verify(self.directory / "audit")[1] is None
        shutil.rmtree(self.directory)

    # The model: what must become of a request.

    def open(self) -> list[Asked]:
        return [one for one in self.asked.values() if one.expected is None]

    def allowed(self, reason: Reason) -> tuple[Effect, Reason]:
        if self.broken:
            return Effect.DENY, Reason.AUDIT_FAILED
        return Effect.ALLOW, reason

    def fate(self, request: PermissionRequest) -> tuple[Effect, Reason] | None:
        options, turn = request.ask.options, request.turn
        if self.stopped:
            return Effect.CANCEL, Reason.STOPPING
        if not options:
            return Effect.CANCEL, Reason.MALFORMED
        if options == (ALLOW, ALLOW):
            return Effect.DENY, Reason.MALFORMED
        same = [one for one in self.open() if one.request.session == request.session]
        if len(same) >= PER_SESSION or len(self.open()) >= IN_ALL:
            return Effect.DENY, Reason.FLOOD
        if request.run_rule is OnPermission.DENY:
            return Effect.DENY, Reason.RULE
        if request.run_rule is OnPermission.ALLOW and turn is not None and ALLOW in options:
            return self.allowed(Reason.RULE)
        return None

    # What may happen.

    @rule(
        session=st.sampled_from(SESSIONS),
        turn=st.sampled_from(TURNS),
        run_rule=st.sampled_from([OnPermission.ASK, OnPermission.ASK, *OnPermission]),
        options=st.sampled_from([*OPTIONS[:2], *OPTIONS]),
    )
    def ask(
        self,
        session: SessionKey,
        turn: str | None,
        run_rule: OnPermission,
        options: tuple[Option, ...],
    ) -> None:
        subject = ToolSubject("call", "", ToolKind.EDIT, known_kind=True)
        ask = PermissionAsk(subject, options)
        request = PermissionRequest(f"q{len(self.asked)}", session, turn, run_rule, ask)
        expected = self.fate(request)

        async def step() -> None:
            task = self.loop.create_task(self.broker.ask(request))
            self.asked[request.id] = Asked(request, task, expected)
            await asyncio.sleep(0)

        self.run(step())

    @precondition(lambda self: self.asked)
    @rule(
        data=st.data(),
        by=st.lists(
            st.sampled_from([Role.OPERATOR, Role.EDITOR, Role.AGENT]), min_size=1, max_size=2
        ),
        how=st.lists(
            st.sampled_from(["allow", "always", "reject", "nothing", *Effect]),
            min_size=2,
            max_size=2,
        ),
    )
    def answer(self, data: st.DataObject, by: list[Role], how: list[str | Effect]) -> None:
        one = data.draw(st.sampled_from(list(self.asked.values())), "question")
        answers = [self.one_answer(one, *answer) for answer in zip(by, how, strict=False)]

        async def both() -> None:
            await asyncio.gather(*answers)

        self.run(both())

    async def one_answer(self, one: Asked, role: Role, how: str | Effect) -> None:
        options = one.request.ask.options
        by_effect = isinstance(how, Effect)
        valid = how in {option.option_id for option in options} if not by_effect else True
        if how is Effect.ALLOW and ALLOW not in options:
            valid = False
        error = ""
        if role is Role.AGENT:
            error = "permission_denied"
        elif one.expected is not None:
            error = "already_resolved"
        elif not valid:
            error = "invalid_option"
        else:
            one.human = True
            one.expected = (Effect.DENY, Reason.OPERATOR)
            if how in ("allow", "always", Effect.ALLOW):
                one.expected = self.allowed(Reason.OPERATOR)
            elif how is Effect.CANCEL:
                one.expected = (Effect.CANCEL, Reason.OPERATOR)
        who = Requester(role, client_id="c")
        effect = how if isinstance(how, Effect) else None
        option_id = None if isinstance(how, Effect) else str(how)
        try:
            decision = await self.broker.answer(
                one.request.id, requester=who, option_id=option_id, effect=effect
            )
        except BridgeError as caught:
            found = caught.code
        else:
            found = ""
            assert (decision.effect, decision.reason) == one.expected
        assert found == error

    @rule(
        session=st.sampled_from(SESSIONS),
        turn=st.sampled_from(TURNS),
        reason=st.sampled_from([Reason.CANCELLED, Reason.AGENT_DIED]),
    )
    def withdraw(self, session: SessionKey, turn: str | None, reason: Reason) -> None:
        hit = [
            one
            for one in self.open()
            if one.request.session == session and turn in (None, one.request.turn)
        ]

        async def step() -> None:
            ids = self.broker.withdraw(session, reason, turn)
            assert ids == [one.request.id for one in hit]

        for one in hit:
            one.expected = (Effect.CANCEL, reason)
        self.run(step())

    @precondition(lambda self: self.open())
    @rule(data=st.data(), first=st.booleans())
    def call_goes_away(self, data: st.DataObject, first: bool) -> None:
        one = data.draw(st.sampled_from(self.open()), "question")
        one.expected = (Effect.CANCEL, Reason.WITHDRAWN)

        async def step() -> None:
            if first:
                self.broker.withdraw_one(one.request.id, Reason.WITHDRAWN)
            one.task.cancel()

        self.run(step())

    @rule()
    def deadline_passes(self) -> None:
        for one in self.open():
            one.expected = (Effect.DENY, Reason.DEADLINE)

        async def step() -> None:
            self.loop.skew += DEADLINE

        self.run(step())

    @rule()
    def disk_fills_or_is_freed(self) -> None:
        self.broken = not self.broken

    @precondition(lambda self: len(self.asked) > 8 and not self.stopped)
    @rule()
    def stop(self) -> None:
        for one in self.open():
            one.expected = (Effect.CANCEL, Reason.STOPPING)
        self.stopped = True

        async def step() -> None:
            self.broker.stop()

        self.run(step())

    # What must hold after each step.

    @invariant()
    def only_what_the_model_has_open_is_open(self) -> None:
        if hasattr(self, "broker"):
            ids = [question.request.id for question in self.broker.questions()]
            assert ids == [one.request.id for one in self.open()]

    @invariant()
    def g19_g21_every_decision_is_the_models_and_an_allow_has_its_reasons(self) -> None:
        lines: dict[str, dict[str, Any]] = {}
        path = self.directory / "audit"
        for line in path.read_bytes().splitlines() if path.exists() else ():
            record = json.loads(line)
            if record["kind"] == "permission_decided":
                lines[record["request_uid"]] = record
        for id, decision in self.decided.items():
            one = self.asked[id]
            assert (decision.effect, decision.reason) == one.expected
            assert still_valid(one.request.ask, decision)
            if decision.effect is Effect.ALLOW:
                assert decision.option_id in {o.option_id for o in one.request.ask.options}
                assert one.human or one.request.run_rule is OnPermission.ALLOW
                assert lines[id]["decision"] == "allow"
                assert lines[id]["option_id"] == decision.option_id
            elif id in lines:
                assert lines[id]["decision"] != "allow"


TestBroker = BrokerMachine.TestCase
TestBroker.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
