"""A request is judged while it can already be taken back; a judge that fails allows nothing."""

from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acpbridge.model.permission import Decision, Effect, OnPermission, PermissionRequest, Reason
from acpbridge.permissions.verdict import Ruling, Verdict
from tests.unit.permissions.test_broker import ONE, TWO, desk, request


class Judge:
    """A judge that says what it is told to, once it is let go."""

    def __init__(self, effect: Ruling = Ruling.ALLOW) -> None:
        self.verdict = Verdict(effect, "policy:1")
        self.go = anyio.Event()
        self.seen: list[str] = []
        self.deaf = False

    async def __call__(self, request: PermissionRequest) -> Verdict:
        self.seen.append(request.id)
        with anyio.CancelScope(shield=self.deaf):
            await self.go.wait()
        return self.verdict


@pytest.mark.parametrize(
    ("ruling", "decision"),
    [
        (Ruling.ALLOW, Decision(Effect.ALLOW, "allow", Reason.RULE, "policy:1")),
        (Ruling.DENY, Decision(Effect.DENY, "reject", Reason.RULE, "policy:1")),
    ],
)
async def test_row_01_what_the_judge_says_decides_and_is_on_record(
    tmp_path: Path, ruling: Ruling, decision: Decision
) -> None:
    judge = Judge(ruling)
    judge.go.set()
    async with desk(tmp_path, judge=judge) as at:
        await at.ask(request(rule=OnPermission.ASK))
        assert at.returned["q1"] == decision
        assert (at.records()[0]["rule_id"], at.records()[0]["reason"]) == ("policy:1", "rule")


async def test_what_the_judge_leaves_open_is_asked_with_its_rule(tmp_path: Path) -> None:
    judge = Judge(Ruling.ASK)
    async with desk(tmp_path, judge=judge) as at:
        await at.open(request())
        assert at.open_ids() == []
        judge.go.set()
        await anyio.wait_all_tasks_blocked()
        assert at.open_ids() == ["q1"]
        await at.answer(option_id="allow")
        assert at.records()[0]["rule_id"] == "policy:1"


async def test_row_22_what_is_still_judged_cannot_be_answered(tmp_path: Path) -> None:
    judge = Judge(Ruling.ASK)
    async with desk(tmp_path, judge=judge) as at:
        await at.open(request())
        assert (await at.fails(option_id="allow")).code == "no_such_question"
        assert at.returned == {}


@pytest.mark.parametrize("deaf", [False, True])
@pytest.mark.parametrize("reason", [Reason.CANCELLED, Reason.STOPPING, Reason.WITHDRAWN])
async def test_g19_what_is_taken_back_while_it_is_judged_is_never_allowed(
    tmp_path: Path, reason: Reason, *, deaf: bool
) -> None:
    """A judge that says `allow` after all is not heard (rows 15, 34 and 38)."""
    judge = Judge()
    judge.deaf = deaf
    async with desk(tmp_path, judge=judge) as at:
        await at.open(request())
        if reason is Reason.CANCELLED:
            assert at.broker.withdraw(ONE, reason, "turn-1") == ["q1"]
        elif reason is Reason.STOPPING:
            at.broker.stop()
        else:
            assert at.broker.withdraw_one("q1", reason)
        judge.go.set()
        while "q1" not in at.returned:
            await anyio.lowlevel.checkpoint()
        assert at.returned["q1"] == Decision(Effect.CANCEL, None, reason)
        assert [record["decision"] for record in at.records()] == ["cancel"]
        assert at.asked == []


async def test_a_call_that_goes_away_while_it_is_judged_is_on_record_as_withdrawn(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path, judge=Judge()) as at:
        async with anyio.create_task_group() as agent:
            agent.start_soon(at.ask, request())
            await anyio.wait_all_tasks_blocked()
            agent.cancel_scope.cancel()
        assert at.returned == {}
        assert at.decided == [("q1", Decision(Effect.CANCEL, None, Reason.WITHDRAWN))]


@pytest.mark.parametrize("error", [RuntimeError("broken"), TimeoutError(), KeyError("effect")])
async def test_row_31_a_judge_that_raises_has_denied(tmp_path: Path, error: Exception) -> None:
    async def judge(request: PermissionRequest) -> Verdict:
        raise error

    async with desk(tmp_path, judge=judge) as at:
        await at.ask(request(rule=OnPermission.ALLOW))
        assert at.returned["q1"] == Decision(Effect.DENY, "reject", Reason.JUDGE_FAILED)
        assert at.records()[0]["reason"] == "judge_failed"
        assert at.asked == []


async def test_row_20_a_judge_that_hangs_ends_with_the_deadline(tmp_path: Path) -> None:
    async with desk(tmp_path, judge=Judge(), deadline=0.05) as at:
        await at.ask(request())
        assert at.returned["q1"] == Decision(Effect.DENY, "reject", Reason.DEADLINE)


async def test_row_20_a_judges_time_counts(tmp_path: Path) -> None:
    judge = Judge(Ruling.ASK)
    async with desk(tmp_path, judge=judge, deadline=60) as at:
        await at.open(request())
        at.clock.now = at.clock.now.replace(minute=59)
        judge.go.set()
        await anyio.wait_all_tasks_blocked()
        assert at.asked[0].asked_at == "2026-01-02T03:04:05+00:00"
        assert at.asked[0].expires_at == "2026-01-02T03:05:05+00:00"


async def test_row_33_what_is_judged_counts_among_those_that_wait(tmp_path: Path) -> None:
    judge = Judge(Ruling.ASK)
    flood = Decision(Effect.DENY, "reject", Reason.FLOOD)
    async with desk(tmp_path, judge=judge, per_session=2, in_all=3) as at:
        await at.open(request("q1"), request("q2"), request("q3"), request("q4", TWO))
        assert at.returned == {"q3": flood}
        await at.open(request("q5", TWO))
        assert at.returned == {"q3": flood, "q5": flood}
        assert judge.seen == ["q1", "q2", "q4"]
        judge.go.set()
        await anyio.wait_all_tasks_blocked()
        assert at.open_ids() == ["q1", "q2", "q4"]


@pytest.mark.parametrize("how", [{"options": ()}, {"options": request().ask.options * 2}])
async def test_rows_05_06_what_is_malformed_is_not_judged(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    judge = Judge()
    judge.go.set()
    async with desk(tmp_path, judge=judge) as at:
        await at.ask(request(**how))
        assert at.returned["q1"].reason is Reason.MALFORMED
        assert judge.seen == []
