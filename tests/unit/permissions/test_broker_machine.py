"""The broker against a plain model: any order of requests, answers, ends, reloads and faults."""

import asyncio
import json
import shutil
import tempfile
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from structlog.testing import capture_logs

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
from acpbridge.permissions import policy
from acpbridge.permissions.audit import Audit, verify
from acpbridge.permissions.broker import PermissionBroker
from acpbridge.permissions.grants import Grants
from acpbridge.permissions.judging import combined
from acpbridge.permissions.policy import still_valid
from acpbridge.permissions.verdict import NO_MATCH, Ruling, Verdict
from tests.unit.permissions.gatemodel import (
    COMMANDS,
    DEADLINE,
    GRANTED,
    IN_ALL,
    PER_SESSION,
    Model,
    command_of,
)

SESSIONS = [SessionKey.main(AgentId(name)) for name in ("one", "two")]
TURNS = ["t1", "t2", None]
ALLOW = Option("allow", "Allow", OptionKind.ALLOW_ONCE)
ALWAYS = Option("always", "Always", OptionKind.ALLOW_ALWAYS)
REJECT = Option("reject", "Reject", OptionKind.REJECT_ONCE)
ODD = Option("odd", "Odd", OptionKind.UNKNOWN, "strange")
OPTIONS = [
    (ALWAYS, ALLOW, REJECT),
    (ODD, ALLOW, REJECT),
    (ALWAYS, REJECT),
    (ALLOW,),
    (),
    (ALLOW, ALLOW),
]
ROLES = [Role.OPERATOR, Role.EDITOR, Role.OPERATOR, Role.AGENT]
# A seed for each step: hypothesis chooses and takes away steps, and within one all is as likely.
CHANCE = st.randoms(use_true_random=True)
SAID = [
    "allow",
    "always",
    "always",
    "reject",
    "odd",
    "odd!odd",
    "odd!yes",
    "nothing",
    *Effect.__members__,
]


class Skewed(asyncio.SelectorEventLoop):
    """An event loop whose monotonic clock a test moves on."""

    skew = 0.0

    def time(self) -> float:
        return super().time() + self.skew


def a_request(chance: Random, id: str) -> PermissionRequest:
    """Something to be asked: mostly in a turn, left to people, with options to choose from."""
    raw = {"command": chance.choice(COMMANDS)}
    subject = ToolSubject("call", "", ToolKind.EXECUTE, known_kind=True, raw_input=raw)
    ask = PermissionAsk(subject, chance.choice([*OPTIONS[:1] * 6, *OPTIONS]))
    run_rule = chance.choice([OnPermission.ASK] * 8 + [*OnPermission])
    turn = chance.choice(["t1", "t1", *TURNS])
    return PermissionRequest(id, chance.choice(SESSIONS), turn, run_rule, ask)


class BrokerMachine(RuleBasedStateMachine):
    """Its `monotonic` and `wall` are the clock; the time of day stands still."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.loop = Skewed()
        self.model = Model()
        self.tasks: dict[str, asyncio.Task[Decision]] = {}
        self.decided: dict[str, Decision] = {}

    def wall(self) -> datetime:
        return datetime(2026, 1, 2, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.model.now

    def run(self, step: Coroutine[Any, Any, None]) -> None:
        """Take a step, then go on until only what waits is left to wait for."""

        async def all_of_it() -> None:
            await step
            tasks = [self.tasks[id] for id, one in self.model.asked.items() if one.fate is not None]
            if tasks:
                await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
            for _ in range(3):
                await asyncio.sleep(0)

        with capture_logs():  # to print what a judge raised takes longer than all else
            self.loop.run_until_complete(all_of_it())

    def faults(self, point: str) -> None:
        if self.model.full_disk and point == "audit.write":
            raise OSError(28, "No space left on device")

    def heard(self, request: PermissionRequest, decision: Decision) -> None:
        assert request.id not in self.decided  # at most one answer
        self.decided[request.id] = decision

    async def judge(self, request: PermissionRequest) -> Verdict:
        how = self.model.asked[request.id].judge
        if how == "raises":
            raise RuntimeError("a rule is broken")
        if how == "is slow":
            await self.news.wait()
        ruling = self.model.rules.get(command_of(request))
        found = [
            policy.judge(request) if request.run_rule is not OnPermission.ASK else NO_MATCH,
            NO_MATCH if ruling is None else Verdict(ruling, "policy:1"),
            self.grants.verdict(request) or NO_MATCH,
        ]
        return combined(request, found)

    @initialize()
    def start(self) -> None:
        async def start() -> None:
            self.news = asyncio.Event()
            self.audit = Audit.open(
                self.directory / "audit", boot_id="b", clock=self, faults=self.faults
            )
            self.grants = Grants(self, lambda: GRANTED)
            self.broker = PermissionBroker(
                self.audit,
                self,
                judge=self.judge,
                grants=self.grants,
                deadline=DEADLINE,
                per_session=PER_SESSION,
                in_all=IN_ALL,
                on_asked=lambda question: None,
                on_decided=self.heard,
            )

        self.run(start())

    def teardown(self) -> None:
        for task in self.tasks.values():
            task.cancel()

        async def rest() -> None:
            await asyncio.gather(*self.tasks.values(), return_exceptions=True)
            await self.loop.shutdown_asyncgens()

        self.loop.run_until_complete(rest())
        assert set(self.decided) == set(self.tasks)
        self.audit.close()
        self.loop.close()
        assert verify(self.directory / "audit")[1] is None
        shutil.rmtree(self.directory)

    # What may happen.

    def ask(self, chance: Random) -> None:
        """Some requests at once."""

        async def step() -> None:
            for _ in range(chance.randint(1, 3)):
                request = a_request(chance, f"q{len(self.tasks)}")
                judge = chance.choice(["is quick"] * 9 + ["is slow", "is slow", "raises"])
                self.model.ask(request, judge)
                self.tasks[request.id] = self.loop.create_task(self.broker.ask(request))
            await asyncio.sleep(0)

        self.with_disk(step(), full=chance.random() < 0.1)

    def answer(self, chance: Random) -> None:
        """One or two people answer the same question; one who leaves has answered all the same."""
        ids = [one.request.id for one in self.model.open()]
        late = not ids or chance.random() < 0.15
        id = chance.choice(list(self.tasks) if late else ids)
        leaves = chance.random() < 0.15

        async def step() -> None:
            tasks = []
            for _ in range(chance.randint(1, 2)):
                role, said = chance.choice(ROLES), chance.choice(SAID)
                error = self.error_of(id, role, said)
                tasks.append(self.loop.create_task(self.one_answer(id, role, said, error)))
            if leaves:
                await asyncio.sleep(0)
                for task in tasks:
                    task.cancel()
            found = await asyncio.gather(*tasks, return_exceptions=leaves)
            assert not [error for error in found if isinstance(error, AssertionError)]

        self.with_disk(step(), full=chance.random() < 0.1)

    # Each run goes without some of its rules: these are there several times, so as to be in most.
    ask_1, ask_2, ask_3, ask_4 = (rule(chance=CHANCE)(ask) for ask in [ask] * 4)
    answer_1, answer_2, answer_3, answer_4 = (
        precondition(lambda self: self.tasks)(rule(chance=CHANCE)(answer))
        for answer in [answer] * 4
    )

    def with_disk(self, step: Coroutine[Any, Any, None], *, full: bool) -> None:
        self.model.full_disk = full
        self.run(step)
        self.model.full_disk = False

    def error_of(self, id: str, role: Role, said: str) -> str:
        if role is Role.AGENT:
            return "permission_denied"
        return self.model.answer(self.model.asked[id], said)

    async def one_answer(self, id: str, role: Role, said: str, error: str) -> None:
        name, _, confirm = said.partition("!")
        effect = Effect.__members__.get(name)
        found, decision = "", None
        try:
            decision = await self.broker.answer(
                id,
                requester=Requester(role, client_id="c"),
                option_id=name if effect is None else None,
                effect=effect,
                confirm=confirm or None,
            )
        except BridgeError as caught:
            found = caught.code
        assert found == error
        if decision is not None:
            assert (decision.effect, decision.reason) == self.model.asked[id].fate

    @rule(chance=CHANCE)
    def turn_is_cancelled_or_session_ends(self, chance: Random) -> None:
        session, turn = chance.choice(SESSIONS), chance.choice(TURNS)
        reason = chance.choice([Reason.CANCELLED, Reason.AGENT_DIED, Reason.KILLED])
        hit = [
            one
            for one in self.model.waiting()
            if one.request.session == session and turn in (None, one.request.turn)
        ]
        self.model.take_back(hit, reason)
        if turn is None:
            self.model.end(session)

        async def step() -> None:
            ids = self.broker.withdraw(session, reason, turn)
            assert ids == [one.request.id for one in hit]

        self.run(step())

    @precondition(lambda self: self.model.waiting())
    @rule(chance=CHANCE)
    def call_goes_away(self, chance: Random) -> None:
        one, first = chance.choice(self.model.waiting()), chance.random() < 0.5
        self.model.take_back([one], Reason.WITHDRAWN)

        async def step() -> None:
            if first:
                self.broker.withdraw_one(one.request.id, Reason.WITHDRAWN)
            self.tasks[one.request.id].cancel()

        self.run(step())

    @rule(seconds=st.sampled_from([100.0, 300.0]))
    def time_passes(self, seconds: float) -> None:
        self.model.pass_time(seconds)

        async def step() -> None:
            self.loop.skew += seconds

        self.run(step())

    @rule(chance=CHANCE)
    def policy_is_reloaded(self, chance: Random) -> None:
        command, ruling = chance.choice(COMMANDS), chance.choice([None, None, None, *Ruling])
        self.model.rules.pop(command, None)
        if ruling is not None:
            self.model.rules[command] = ruling

    @precondition(lambda self: len(self.model.open()) < len(self.model.waiting()))
    @rule()
    def slow_judges_are_done(self) -> None:
        for one in self.model.waiting():
            if not one.judged:
                self.model.judge(one)

        async def step() -> None:
            self.news.set()
            self.news = asyncio.Event()

        self.run(step())

    @precondition(lambda self: self.model.grants)
    @rule(chance=CHANCE)
    def grant_is_revoked(self, chance: Random) -> None:
        where = chance.choice(list(self.model.grants))
        id, _ = self.model.grants.pop(where)

        async def step() -> None:
            revoked = await self.broker.revoke([id], Requester(Role.OPERATOR))
            assert [grant.id for grant in revoked] == [id]

        self.run(step())

    @precondition(lambda self: len(self.tasks) > 40 and not self.model.stopped)
    @rule()
    def stop(self) -> None:
        self.model.take_back(self.model.waiting(), Reason.STOPPING)
        self.model.end(None)
        self.model.stopped = True

        async def step() -> None:
            self.broker.stop()

        self.run(step())

    # What must hold after each step.

    @invariant()
    def what_is_open_and_what_is_granted_is_what_the_model_says(self) -> None:
        """Whoever attaches now is shown this: what is pending, and what an "always" comes to."""
        if hasattr(self, "broker"):
            shown = [(q.request.id, q.always) for q in self.broker.questions()]
            model = self.model
            assert shown == [(one.request.id, model.always(one)) for one in model.open()]
            granted = {grant.id for grant in self.broker.grants()}
            assert granted == {id for id, _ in model.grants.values()}

    @invariant()
    def g19_g20_g21_every_decision_is_the_models_and_an_allow_has_its_reasons(self) -> None:
        path = self.directory / "audit"
        records = [json.loads(line) for line in path.read_bytes().splitlines()]
        lines = {r["request_uid"]: r for r in records if r["kind"] == "permission_decided"}
        made = {r["grant"] for r in records if r["kind"] == "grant_made"}
        used = {(r["grant"], r["request_uid"]) for r in records if r["kind"] == "grant_used"}
        for id, decision in self.decided.items():
            one = self.model.asked[id]
            assert (decision.effect, decision.reason) == one.fate
            assert still_valid(one.request.ask, decision)
            if decision.effect is not Effect.ALLOW:
                assert id not in lines or lines[id]["decision"] != "allow"
                continue
            assert decision.option_id in {o.option_id for o in one.request.ask.options}
            assert (lines[id]["decision"], lines[id]["option_id"]) == ("allow", decision.option_id)
            if decision.reason is Reason.OPERATOR:
                assert one.human
            else:
                assert decision.option_id == "allow"
                assert decision.by in ("run:allow", "policy:1") or decision.by.startswith("grant:")
            if decision.by.startswith("grant:"):
                grant = decision.by.removeprefix("grant:")
                assert grant in made
                assert (grant, id) in used


TestBroker = BrokerMachine.TestCase
TestBroker.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
