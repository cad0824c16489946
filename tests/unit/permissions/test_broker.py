"""Questions: asked once, answered once, recorded before anybody acts, denied by default."""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import anyio.from_thread
import anyio.lowlevel
import pytest

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
    Question,
    Reason,
    ToolKind,
    ToolSubject,
)
from acpbridge.model.requesters import Requester, Role
from acpbridge.permissions import recorder, settled
from acpbridge.permissions.audit import Audit, verify
from acpbridge.permissions.broker import PermissionBroker
from acpbridge.permissions.policy import still_valid

OPTIONS = (
    Option("always", "Always", OptionKind.ALLOW_ALWAYS),
    Option("allow", "Allow", OptionKind.ALLOW_ONCE),
    Option("reject", "Reject", OptionKind.REJECT_ONCE),
)
SUBJECT = ToolSubject("call-1", "Run\ttests", ToolKind.EXECUTE, known_kind=True)
ONE, TWO = SessionKey.main(AgentId("one")), SessionKey.main(AgentId("two"))
OPERATOR = Requester(Role.OPERATOR, pid=7, uid=1000, client_id="terminal")
OTHER = Requester(Role.OPERATOR, pid=8, uid=1000, client_id="inbox")


@dataclass
class SteppedClock:
    now: datetime = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    def wall(self) -> datetime:
        return self.now

    def monotonic(self) -> float:
        return 10.0


def request(
    id: str = "q1",
    session: SessionKey = ONE,
    rule: OnPermission = OnPermission.ASK,
    *,
    options: tuple[Option, ...] = OPTIONS,
    subject: ToolSubject = SUBJECT,
    turn: str | None = "turn-1",
) -> PermissionRequest:
    ask = PermissionAsk(subject, options, wire_id="5", raw_sha256="ab" * 32, agent_pid=42)
    return PermissionRequest(id, session, turn, rule, ask)


@dataclass
class Desk:
    """A broker with a real audit, the tasks that ask it, and all that it said."""

    broker: PermissionBroker
    tasks: anyio.abc.TaskGroup
    path: Path
    audit: Audit
    clock: SteppedClock
    asked: list[Question] = field(default_factory=list)
    decided: list[tuple[str, Decision]] = field(default_factory=list)
    returned: dict[str, Decision] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    at_point: Callable[[str], None] | None = None

    def faults(self, point: str) -> None:
        self.log.append(point)
        if self.at_point is not None:
            self.at_point(point)

    async def ask(self, request: PermissionRequest) -> None:
        decision = await self.broker.ask(request)
        assert still_valid(request.ask, decision)
        assert request.id not in self.returned
        self.returned[request.id] = decision
        self.log.append(f"returned {request.id}")

    async def open(self, *requests: PermissionRequest) -> None:
        for one in requests:
            self.tasks.start_soon(self.ask, one)
        await anyio.wait_all_tasks_blocked()

    async def answer(self, id: str = "q1", by: Requester = OPERATOR, **how: Any) -> Decision:
        decision = await self.broker.answer(id, requester=by, **how)
        self.log.append(f"answered {id}")
        return decision

    async def fails(self, id: str = "q1", by: Requester = OPERATOR, **how: Any) -> BridgeError:
        with pytest.raises(BridgeError) as caught:
            await self.answer(id, by, **how)
        return caught.value

    def open_ids(self) -> list[str]:
        return [question.request.id for question in self.broker.questions()]

    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_bytes().splitlines()]


@asynccontextmanager
async def desk(path: Path, **limits: Any) -> AsyncIterator[Desk]:
    clock, path = SteppedClock(), path / "audit.jsonl"
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            found: list[Desk] = []
            audit = Audit.open(
                path, boot_id="b", clock=clock, faults=lambda point: found[0].faults(point)
            )
            broker = PermissionBroker(
                audit,
                clock,
                on_asked=lambda question: found[0].asked.append(question),
                on_decided=lambda request, decision: found[0].decided.append(
                    (request.id, decision)
                ),
                faults=lambda point: found[0].faults(point),
                **limits,
            )
            found.append(Desk(broker, tasks, path, audit, clock))
            yield found[0]
            broker.stop()
    audit.close()
    assert broker.questions() == []
    assert verify(path)[1] is None
    ids = [id for id, _ in found[0].decided]
    assert len(ids) == len(set(ids))


def disk_full(point: str) -> None:
    if point == "audit.write":
        raise OSError(28, "No space left on device")


async def test_row_01_a_rule_is_recorded_and_asks_nobody(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.ask(request(rule=OnPermission.ALLOW))
        assert at.returned["q1"] == Decision(Effect.ALLOW, "allow", Reason.RULE, "run:allow")
        assert at.asked == []
        assert at.records()[0]["rule_id"] == "run:allow"


async def test_a_rule_that_denies_is_recorded_too(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.ask(request(rule=OnPermission.DENY))
        assert at.returned["q1"] == Decision(Effect.DENY, "reject", Reason.RULE, "run:deny")
        assert at.records()[0]["decision"] == "deny"


async def test_a_record_holds_the_evidence_and_no_contents(tmp_path: Path) -> None:
    raw = {"command": ["pytest", "-q"], "cwd": "/src", "content": "THE CONTENT", "path": 5}
    subject = replace(SUBJECT, raw_input=raw, locations=("/src/a", "/src"))
    async with desk(tmp_path) as at:
        await at.open(request(subject=subject))
        await at.answer(option_id="allow", note="go\non")
        [record] = at.records()
        assert "THE CONTENT" not in at.path.read_text(encoding="utf-8")
        assert record["argv"] == ["pytest", "-q"]
        assert record["paths"] == ["/src/a", "/src"]
        assert record["title"] == "Run⟨U+0009⟩tests"
        assert record["note"] == "go⟨U+000A⟩on"
        assert record["decided_by"] == {
            "client_id": "terminal",
            "uid": 1000,
            "pid": 7,
            "role": "operator",
            "session": None,
        }
        assert record["options"][0] == {"id": "always", "kind": "allow_always"}
        expected = {
            "kind": "permission_decided",
            "request_uid": "q1",
            "agent": "one",
            "agent_pid": 42,
            "session": "agent:one:main",
            "turn": "turn-1",
            "jsonrpc_id": "5",
            "tool_call_id": "call-1",
            "tool_kind": "execute",
            "raw_sha256": "ab" * 32,
            "rule_id": "run:ask",
            "decision": "allow",
            "option_id": "allow",
            "reason": "operator",
            "latency_ms": 0.0,
        }
        assert {name: record[name] for name in expected} == expected


async def test_a_command_line_in_one_string_and_no_arguments_are_evidence(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        for id, raw in (("q1", {"command": "ls -l"}), ("q2", None), ("q3", {"x": 1})):
            subject = replace(SUBJECT, raw_input=raw, known_kind=False)
            await at.ask(request(id, rule=OnPermission.DENY, subject=subject))
        assert [record["argv"] for record in at.records()] == [["ls -l"], None, None]
        assert at.records()[0]["tool_kind"] == "unknown"


@pytest.mark.parametrize(
    ("options", "effect", "option_id"),
    [
        ((), Effect.CANCEL, None),
        ((Option("x", "X", OptionKind.UNKNOWN, "x"),), Effect.CANCEL, None),
        ((*OPTIONS, OPTIONS[0]), Effect.DENY, "reject"),
    ],
)
async def test_rows_04_05_06_what_is_malformed_is_settled_at_once(
    tmp_path: Path, options: tuple[Option, ...], effect: Effect, option_id: str | None
) -> None:
    async with desk(tmp_path) as at:
        await at.ask(request(options=options))
        assert at.returned["q1"] == Decision(effect, option_id, Reason.MALFORMED)
        assert at.asked == []
        assert at.records()[0]["reason"] == "malformed"


async def test_row_02_a_doubtful_allow_is_asked(tmp_path: Path) -> None:
    options = (OPTIONS[0], OPTIONS[2])
    async with desk(tmp_path) as at:
        await at.open(request(rule=OnPermission.ALLOW, options=options))
        assert at.open_ids() == ["q1"]


async def test_row_17_the_same_call_asked_twice_is_two_questions(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.open(request("q1"), request("q2"))
        await at.answer("q1", option_id="allow")
        await anyio.wait_all_tasks_blocked()
        assert at.open_ids() == ["q2"]
        assert list(at.returned) == ["q1"]


async def test_a_question_shows_when_it_was_asked_and_when_it_ends(tmp_path: Path) -> None:
    async with desk(tmp_path, deadline=60.0) as at:
        await at.open(request())
        [question] = at.broker.questions()
        assert at.asked == [question]
        assert question.asked_at == "2026-01-02T03:04:05+00:00"
        assert question.expires_at == "2026-01-02T03:05:05+00:00"


async def test_g22_row_18_without_anybody_a_question_is_held_then_denied(tmp_path: Path) -> None:
    async with desk(tmp_path, deadline=0.05) as at:
        await at.open(request())
        assert at.open_ids() == ["q1"]
        assert at.returned == {}
        while "q1" not in at.returned:
            await anyio.lowlevel.checkpoint()
        assert at.returned["q1"] == Decision(Effect.DENY, "reject", Reason.DEADLINE)
        assert at.records()[0]["reason"] == "timed_out"
        assert at.records()[0]["decided_by"] is None


async def test_row_19_a_client_that_goes_away_takes_no_question_with_it(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.open(request())
        with anyio.CancelScope() as client:
            client.cancel()
            await anyio.lowlevel.checkpoint()
            await at.answer(option_id="reject")
        assert at.open_ids() == ["q1"]
        assert (await at.answer(by=OTHER, option_id="allow")).by == "operator:inbox"


async def test_row_19_an_answer_given_before_its_client_went_away_counts(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.open(request())
        with anyio.CancelScope() as client:
            client.cancel()
            await at.answer(option_id="allow")
        await at.audit.note("mark", {})
        await anyio.wait_all_tasks_blocked()
        assert at.returned["q1"].effect is Effect.ALLOW


async def test_g27_row_20_a_jump_of_the_wall_clock_moves_no_deadline(tmp_path: Path) -> None:
    async with desk(tmp_path, deadline=0.05) as at:
        await at.open(request("q1"))
        at.clock.now -= timedelta(days=1)
        await at.open(request("q2"))
        while len(at.returned) < 2:
            await anyio.lowlevel.checkpoint()
        assert {decision.reason for decision in at.returned.values()} == {Reason.DEADLINE}
    async with desk(tmp_path, deadline=60) as at:
        await at.open(request("q3"))
        at.clock.now += timedelta(days=1)
        await anyio.wait_all_tasks_blocked()
        assert at.open_ids() == ["q3"]


async def test_row_20_a_denial_without_a_reject_option_is_cancelled(tmp_path: Path) -> None:
    async with desk(tmp_path, deadline=0.01) as at:
        await at.ask(request(options=OPTIONS[:2]))
        assert at.returned["q1"] == Decision(Effect.DENY, None, Reason.DEADLINE)


async def test_g21_row_21_of_two_answers_the_first_wins(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.open(request())
        outcome: list[str] = []

        async def one(by: Requester, option_id: str) -> None:
            try:
                decision = await at.answer(by=by, option_id=option_id)
                outcome.append(f"{by.client_id}: {decision.option_id}")
            except BridgeError as error:
                outcome.append(f"{by.client_id}: {error.code}: {error.message}")

        async with anyio.create_task_group() as both:
            both.start_soon(one, OPERATOR, "reject")
            both.start_soon(one, OTHER, "allow")
        late, won = sorted(outcome)
        assert won == "terminal: reject"
        assert late.startswith("inbox: already_resolved: ")
        assert late.endswith("decided by operator:terminal at 2026-01-02T03:04:05+00:00: deny.")
        assert [record["decision"] for record in at.records()] == ["deny"]


async def test_g21_whoever_is_late_is_told_by_whom_and_when(tmp_path: Path) -> None:
    """For answers, time-outs, cancels and rules alike; what nobody answered has expired."""
    at_once = "2026-01-02T03:04:05+00:00"
    async with desk(tmp_path, deadline=0.02) as at:
        await at.open(request("answered"), request("cancelled", turn="t2"))
        await at.answer("answered", by=OTHER, option_id="reject")
        at.broker.withdraw(ONE, Reason.CANCELLED, "t2")
        await at.ask(request("timed-out"))
        await at.ask(request("ruled", rule=OnPermission.ALLOW))
        at.clock.now += timedelta(hours=1)
        expected = {
            "answered": ("operator:inbox", "operator", "deny", False),
            "cancelled": ("turn_cancelled", "turn_cancelled", "cancel", True),
            "timed-out": ("timed_out", "timed_out", "deny", True),
            "ruled": ("run:allow", "rule", "allow", False),
        }
        for id, (by, reason, effect, expired) in expected.items():
            error = await at.fails(id, option_id="allow")
            assert error.code == "already_resolved"
            assert error.data == {
                "by": by,
                "at": at_once,
                "effect": effect,
                "reason": reason,
                "expired": expired,
            }
            what = f"has expired: {by}" if expired else f"is already decided by {by}"
            assert error.message == f"Question {id} {what} at {at_once}: {effect}."


async def test_row_22_answers_to_what_is_not_open_are_errors(tmp_path: Path) -> None:
    async with desk(tmp_path, deadline=0.01) as at:
        assert (await at.fails("nothing", option_id="allow")).code == "no_such_question"
        await at.ask(request("expired"))
        error = await at.fails("expired", option_id="allow")
        assert error.code == "already_resolved"
        assert "timed_out" in error.message
        await at.ask(request("ruled", rule=OnPermission.ALLOW))
        assert "run:allow" in (await at.fails("ruled", option_id="allow")).message


async def test_row_22_only_so_many_settled_questions_are_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settled, "REMEMBERED", 2)
    async with desk(tmp_path) as at:
        for id in ("q1", "q2", "q3"):
            await at.ask(request(id, rule=OnPermission.DENY))
        assert (await at.fails("q1", option_id="allow")).code == "no_such_question"
        assert (await at.fails("q2", option_id="allow")).code == "already_resolved"


@pytest.mark.parametrize(
    "how",
    [
        {"option_id": "Allow"},
        {"option_id": ""},
        {"option_id": None},
        {"option_id": 0},
        {},
        {"option_id": "allow", "effect": Effect.ALLOW},
    ],
)
async def test_row_23_a_wrong_answer_leaves_the_question_open(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    async with desk(tmp_path) as at:
        await at.open(request())
        error = await at.fails(**how)
        assert error.code == "invalid_option"
        assert "`allow` (allow_once)" in error.message
        assert at.open_ids() == ["q1"]
        assert at.records() == []


async def test_row_23_allow_needs_exactly_one_option_that_allows_once(tmp_path: Path) -> None:
    twice = (*OPTIONS, Option("allow-2", "Allow", OptionKind.ALLOW_ONCE))
    async with desk(tmp_path) as at:
        await at.open(request("q1"), request("q2", options=twice))
        assert (await at.answer("q1", effect=Effect.ALLOW)).option_id == "allow"
        assert (await at.fails("q2", effect=Effect.ALLOW)).code == "invalid_option"
        assert at.open_ids() == ["q2"]
        decision = await at.answer("q2", effect=Effect.DENY, note="no")
        assert decision == Decision(
            Effect.DENY, "reject", Reason.OPERATOR, "operator:terminal", "no"
        )


@pytest.mark.parametrize("role", [Role.AGENT, Role.CHANNEL, Role.SYSTEM])
async def test_row_24_agents_approve_nothing_and_it_is_recorded(tmp_path: Path, role: Role) -> None:
    by = Requester(role, session=TWO, pid=9, client_id="x")
    async with desk(tmp_path) as at:
        await at.open(request())
        for id in ("q1", "nothing"):
            for effect in Effect:
                assert (await at.fails(id, by, effect=effect)).code == "permission_denied"
        assert at.open_ids() == ["q1"]
        record = at.records()[0]
        assert (record["kind"], record["request_uid"]) == ("permission_refused", "q1")
        assert record["requester"]["session"] == "agent:two:main"
        at.at_point = disk_full
        assert (await at.fails("q1", by, effect=Effect.ALLOW)).code == "permission_denied"


async def test_row_25_an_editor_may_pass_cancelled_on(tmp_path: Path) -> None:
    editor = Requester(Role.EDITOR, client_id="editor")
    async with desk(tmp_path) as at:
        await at.open(request())
        decision = await at.answer(by=editor, effect=Effect.CANCEL)
        assert decision == Decision(Effect.CANCEL, None, Reason.OPERATOR, "editor:editor")


async def test_row_26_always_is_lowered_and_the_answer_says_so(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.open(request())
        assert (await at.answer(option_id="always")).option_id == "allow"


async def test_row_27_a_bypass_needs_to_be_configured(tmp_path: Path) -> None:
    bypass = Option("bypassPermissions", "Yes, all", OptionKind.ALLOW_ALWAYS)
    one = request(options=(*OPTIONS, bypass))
    async with desk(tmp_path) as at:
        await at.open(one, replace(one, id="q2", allow_bypass=True))
        assert (await at.fails("q1", option_id=bypass.option_id)).code == "invalid_option"
        once = await at.fails("q2", option_id=bypass.option_id)
        assert once.code == "confirmation_needed"
        name = bypass.option_id
        assert (await at.answer("q2", option_id=name, confirm=name)).option_id == name
        assert at.open_ids() == ["q1"]


@pytest.mark.parametrize("rule", [OnPermission.ASK, OnPermission.ALLOW])
async def test_g20_an_allow_is_on_disk_before_anybody_hears_of_it(
    tmp_path: Path, rule: OnPermission
) -> None:
    async with desk(tmp_path) as at:
        await at.open(request(rule=rule))
        if rule is OnPermission.ASK:
            await at.answer(option_id="allow")
        while "q1" not in at.returned:
            await anyio.lowlevel.checkpoint()
        written = at.log.index("permission.recorded")
        assert at.log.index("audit.sync") < written < at.log.index("returned q1")
        if rule is OnPermission.ASK:
            assert written < at.log.index("answered q1")


@pytest.mark.parametrize("rule", [OnPermission.ASK, OnPermission.ALLOW])
@pytest.mark.parametrize(
    "point", ["permission.record", "audit.write", "audit.sync", "permission.recorded"]
)
async def test_g20_row_32_an_allow_that_cannot_be_recorded_is_a_denial(
    tmp_path: Path, rule: OnPermission, point: str
) -> None:
    def fail(at_point: str) -> None:
        if at_point == point:
            raise RuntimeError("test")

    async with desk(tmp_path) as at:
        await at.open(request(rule=rule))
        at.at_point = fail
        denied = Decision(Effect.DENY, "reject", Reason.AUDIT_FAILED)
        if rule is OnPermission.ALLOW:
            at.tasks.start_soon(at.ask, request("q2", rule=rule))
        else:
            assert await at.answer(option_id="allow") == denied
        while len(at.returned) < (2 if rule is OnPermission.ALLOW else 1):
            await anyio.lowlevel.checkpoint()
        assert list(at.returned.values())[-1] == denied
        assert at.decided[-1][1] == denied


async def test_a_denial_waits_for_no_disk(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.ask(request(rule=OnPermission.DENY))
        assert "audit.write" in at.log
        assert "audit.sync" not in at.log


async def test_row_32_with_a_full_disk_a_denial_stays_one(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        at.at_point = disk_full
        await at.ask(request("q1", rule=OnPermission.DENY))
        await at.ask(request("q2", rule=OnPermission.ALLOW))
        assert at.returned["q1"].reason is Reason.RULE
        assert at.returned["q2"] == Decision(Effect.DENY, "reject", Reason.AUDIT_FAILED)
        at.at_point = None
        await at.ask(request("q3", rule=OnPermission.ALLOW))
        assert at.returned["q3"].effect is Effect.ALLOW


async def test_row_32_a_disk_that_hangs_counts_as_one_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "AUDIT_SECONDS", 0.05)
    token, release = anyio.lowlevel.current_token(), anyio.Event()

    def hang(point: str) -> None:
        if point == "audit.write":
            anyio.from_thread.run(release.wait, token=token)

    async with desk(tmp_path) as at:
        at.at_point = hang
        await at.ask(request(rule=OnPermission.ALLOW))
        assert at.returned["q1"] == Decision(Effect.DENY, "reject", Reason.AUDIT_FAILED)
        release.set()
        at.at_point = None
        await at.audit.note("mark", {})  # once the write that hung has ended


async def test_row_33_the_newest_of_too_many_is_denied(tmp_path: Path) -> None:
    async with desk(tmp_path, per_session=2, in_all=3) as at:
        await at.open(request("q1"), request("q2"), request("q3"))
        flood = Decision(Effect.DENY, "reject", Reason.FLOOD)
        assert at.returned == {"q3": flood}
        await at.open(request("q4", TWO), request("q5", TWO))
        assert at.returned == {"q3": flood, "q5": flood}
        assert at.open_ids() == ["q1", "q2", "q4"]
        await at.answer("q1", effect=Effect.DENY)
        await at.open(request("q6"))
        assert at.open_ids() == ["q2", "q4", "q6"]
        assert at.records()[0]["reason"] == "too_many_open"


async def test_row_34_a_stop_cancels_what_is_open_and_all_that_comes(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.open(request("q1"), request("q2", TWO))
        at.broker.stop()
        await at.ask(request("q3", rule=OnPermission.ALLOW))
        while len(at.returned) < 3:
            await anyio.lowlevel.checkpoint()
        stopped = Decision(Effect.CANCEL, None, Reason.STOPPING)
        assert set(at.returned.values()) == {stopped}
        assert len(at.records()) == 3


async def test_row_35_the_questions_of_a_dead_agent_are_dropped(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.open(request("q1"), request("q2"), request("q3", TWO))
        assert at.broker.withdraw(ONE, Reason.AGENT_DIED) == ["q1", "q2"]
        assert at.broker.withdraw(ONE, Reason.AGENT_DIED) == []
        assert at.open_ids() == ["q3"]
        assert (await at.fails("q1", option_id="allow")).code == "already_resolved"
        while len(at.decided) < 2:
            await anyio.lowlevel.checkpoint()
        assert {decision.reason for _, decision in at.decided} == {Reason.AGENT_DIED}


async def test_a_cancelled_turn_takes_its_own_questions_only(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.open(request("q1", turn="a"), request("q2", turn="b"), request("q3", turn=None))
        assert at.broker.withdraw(ONE, Reason.CANCELLED, turn="b") == ["q2"]
        assert at.open_ids() == ["q1", "q3"]


async def test_row_38_one_request_can_be_withdrawn(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.open(request("q1"), request("q2"))
        assert at.broker.withdraw_one("q1", Reason.WITHDRAWN)
        assert not at.broker.withdraw_one("q1", Reason.WITHDRAWN)
        assert not at.broker.withdraw_one("nothing", Reason.WITHDRAWN)
        assert at.open_ids() == ["q2"]


async def test_a_cancelled_call_withdraws_its_question_and_records_it(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        async with anyio.create_task_group() as agent:
            agent.start_soon(at.ask, request())
            await anyio.wait_all_tasks_blocked()
            agent.cancel_scope.cancel()
        assert at.open_ids() == []
        assert at.returned == {}
        assert at.decided == [("q1", Decision(Effect.CANCEL, None, Reason.WITHDRAWN))]
        assert at.records()[0]["reason"] == "withdrawn"


async def test_an_answer_to_a_call_that_is_gone_by_then_is_no_allow(tmp_path: Path) -> None:
    answers: list[Decision] = []

    async def answer() -> None:
        answers.append(await at.answer(option_id="allow"))

    async with desk(tmp_path) as at:
        async with anyio.create_task_group() as agent:
            agent.start_soon(at.ask, request())
            await anyio.wait_all_tasks_blocked()
            at.tasks.start_soon(answer)  # claims it after the cancellation, before the call ends
            agent.cancel_scope.cancel()
        while not answers:
            await anyio.lowlevel.checkpoint()
        assert answers == [Decision(Effect.CANCEL, None, Reason.WITHDRAWN)]
        assert at.returned == {}


@pytest.mark.parametrize("point", ["permission.record", "permission.recorded"])
async def test_g19_a_turn_cancelled_while_its_allow_is_written_gets_no_allow(
    tmp_path: Path, point: str
) -> None:
    async with desk(tmp_path) as at:

        def cancel(at_point: str) -> None:
            if at_point == point:
                at.broker.withdraw(ONE, Reason.CANCELLED)

        await at.open(request())
        at.at_point = cancel
        expected = Decision(Effect.CANCEL, None, Reason.CANCELLED)
        assert await at.answer(option_id="allow") == expected
        assert [record["decision"] for record in at.records()] == ["allow", "cancel"]
        await anyio.wait_all_tasks_blocked()
        assert at.returned["q1"] == expected


async def test_an_id_that_is_used_again_is_denied_and_the_first_stays(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        await at.open(request("q1"))
        decision = await at.broker.ask(request("q1", TWO))
        assert decision == Decision(Effect.DENY, "reject", Reason.MALFORMED)
        assert at.open_ids() == ["q1"]
        at.decided.clear()


async def test_a_follower_that_fails_leaves_no_question_behind(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:

        def broken(question: Question) -> None:
            raise RuntimeError(question.request.id)

        at.broker._on_asked = broken
        with pytest.raises(RuntimeError):
            await at.broker.ask(request())
        assert at.decided[0][1].effect is Effect.CANCEL
