"""One session with scripted agents: turns in order, one outcome each, ended from anywhere."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from acpbridge.errors import BridgeError
from acpbridge.model.events import Update
from acpbridge.model.faults import no_faults
from acpbridge.model.permission import (
    Decision,
    Effect,
    OnPermission,
    PermissionAsk,
    ToolKind,
    ToolSubject,
)
from acpbridge.model.sessions import CancelRung, CloseReason, Outcome, SessionState, TurnState
from acpbridge.router import overtime
from acpbridge.router.receipts import RestartRequest
from acpbridge.router.turns import INBOX_LIMIT
from acpbridge.runtimes.base import Load, New, Resume
from tests.unit.router.world import ALLOW, OPERATOR, REJECT, World, until, world


def shown(event: dict[str, Any]) -> str:
    """A turn's end in one word."""
    return str(event.get("stopReason") or event["error"]["code"])


async def endings(w: World, key: Any) -> list[tuple[str, str]]:
    return [
        (event["turn"], shown(event))
        for event in await w.events(key)
        if event["type"] in ("turn_ended", "turn_failed")
    ]


# ---- Turns ----


async def test_a_one_shot_run_starts_a_process_and_leaves_none(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, result = await w.done("say hello")
        assert (result.outcome, result.stop_reason) == (Outcome.COMPLETED, "end_turn")
        assert await w.rest(receipt.key) is SessionState.IDLE
        assert not w.runtime.running
        assert await w.types(receipt.key) == [
            "turn_queued",
            "turn_started",
            "process_started",
            "update",
            "turn_ended",
            "process_exited",
        ]
        ended = (await w.events(receipt.key))[-2]
        assert ended["usage"] == {"n": 1}
        assert ended["result"]["stopReason"] == "end_turn"


async def test_prompts_run_in_order_and_one_at_a_time(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        first = await w.run("wait", one_shot=False)
        others = [await w.run(f"say {n}", key=first.key) for n in range(5)]
        await w.diary.has("prompt wait")
        w.agent(first.key).answer("end_turn")
        for receipt in others:
            assert (await w.wait(receipt)).outcome is Outcome.COMPLETED
        prompts = [line for line in w.diary.lines if line.startswith("prompt")]
        assert prompts == ["prompt wait", *(f"prompt say {n}" for n in range(5))]
        assert w.diary.lines.count("start") == 1
        steps = [
            (event["type"], event["turn"])
            for event in await w.events(first.key)
            if event["type"] in ("turn_started", "turn_ended")
        ]
        runs = [first.run_id, *(receipt.run_id for receipt in others)]
        assert steps == [(kind, run) for run in runs for kind in ("turn_started", "turn_ended")]


async def test_an_inbox_holds_twenty_and_then_says_busy(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        first = await w.run("wait")
        await w.diary.has("prompt wait")
        for n in range(INBOX_LIMIT):
            await w.run(f"say {n}", key=first.key)
        with pytest.raises(BridgeError) as caught:
            await w.run("say more", key=first.key)
        assert caught.value.code == "busy"
        assert len(await w.ledger.runs(first.key)) == INBOX_LIMIT + 1


async def test_a_burst_cannot_get_past_the_bound_of_an_inbox(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        first = await w.run("wait")
        await w.diary.has("prompt wait")
        outcomes: list[str] = []

        async def send() -> None:
            try:
                await w.run("say x", key=first.key)
                outcomes.append("")
            except BridgeError as error:
                outcomes.append(error.code)

        async with anyio.create_task_group() as tasks:
            for _ in range(INBOX_LIMIT + 5):
                tasks.start_soon(send)
        assert sorted(outcomes) == [""] * INBOX_LIMIT + ["busy"] * 5


@pytest.mark.parametrize(
    ("reason", "outcome", "told"),
    [
        ("end_turn", Outcome.COMPLETED, "end_turn"),
        ("max_tokens", Outcome.FAILED, "max_tokens"),
        ("refusal", Outcome.FAILED, "refusal"),
        ("frobnicate", Outcome.FAILED, "frobnicate"),
        ("cancelled", Outcome.CANCELLED, "cancelled"),
        ("", Outcome.FAILED, "turn_failed"),
    ],
)
async def test_case_121_only_end_turn_is_completed(
    tmp_path: Path, reason: str, outcome: Outcome, told: str
) -> None:
    async with world(tmp_path) as w:
        receipt, result = await w.done(f"end {reason}")
        assert result.outcome is outcome
        assert await endings(w, receipt.key) == [(receipt.run_id, told)]


async def test_a_turn_that_the_agent_refuses_fails_and_the_process_lives_on(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, result = await w.done("raise", one_shot=False)
        assert result.outcome is Outcome.FAILED
        assert result.error is not None
        assert result.error["code"] == "turn_failed"
        assert (await w.done("say ok", key=receipt.key))[1].outcome is Outcome.COMPLETED
        assert w.diary.lines.count("start") == 1


async def test_a_turn_is_seen_over_only_when_the_state_says_so_too(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say a", one_shot=False)
        session = w.session(receipt.key)
        assert (session.record.state, session.turn) == (SessionState.READY, None)
        record = await w.ledger.run(receipt.run_id)
        assert record is not None
        assert record.outcome is Outcome.COMPLETED


async def test_the_ledger_and_the_log_have_a_turns_end_before_anybody_is_told(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("wait")
        await w.diary.has("prompt wait")
        turn = w.turn(receipt.key)
        passed: list[str] = []

        def pass_point(point: str) -> None:
            assert not turn.done.is_set()
            passed.append(point)

        w.ledger._faults = pass_point
        w.agent(receipt.key).answer("end_turn")
        await turn.done.wait()
        w.ledger._faults = no_faults
        assert "ledger.after_commit" in passed
        assert "turn_ended" in await w.types(receipt.key)


# ---- Cancelling ----


async def test_cancel_ends_a_turn_that_honours_it_and_the_process_stays(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("wait", one_shot=False)
        await w.diary.has("prompt wait")
        cancel = await w.router.cancel(str(receipt.key), 5, OPERATOR)
        assert (cancel.rung, cancel.turn_ended, cancel.stop_reason) == (
            CancelRung.CANCEL,
            True,
            "cancelled",
        )
        assert (await w.wait(receipt)).outcome is Outcome.CANCELLED
        assert (await w.done("say ok", key=receipt.key))[1].outcome is Outcome.COMPLETED
        assert w.diary.lines.count("start") == 1


@pytest.mark.parametrize(
    ("word", "rung"),
    [("deaf", CancelRung.CLOSE), ("leaves", CancelRung.CLOSE), ("stone", CancelRung.KILL)],
)
async def test_case_25_the_ladder_goes_on_and_the_next_prompt_reopens(
    tmp_path: Path, word: str, rung: CancelRung
) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run(word, one_shot=False)
        await w.diary.has(f"prompt {word}")
        cancel = await w.router.cancel(str(receipt.key), 0.05, OPERATOR)
        assert (cancel.rung, cancel.turn_ended) == (rung, True)
        steps = [line for line in w.diary.lines if line in ("cancel", "close", "stop 0.05")]
        assert steps[:3] == ["cancel", "close", "stop 0.05"]
        result = await w.wait(receipt)
        assert (result.outcome, result.error) == (Outcome.CANCELLED, None)
        # We ended it: that is no death.
        assert await w.rest(receipt.key) is SessionState.IDLE
        assert w.session(receipt.key).record.last_error is None
        assert (await w.events(receipt.key))[-1]["died"] is False
        assert (await w.done("say ok", key=receipt.key))[1].outcome is Outcome.COMPLETED
        assert w.diary.lines.count("start") == 2


async def test_cancel_with_no_grace_goes_straight_down_and_says_that_the_turn_ended(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("stone")
        await w.diary.has("prompt stone")
        cancel = await w.router.cancel(str(receipt.key), 0, OPERATOR)
        assert (cancel.rung, cancel.turn_ended) == (CancelRung.KILL, True)


async def test_case_25_cancel_before_the_agent_is_up(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.runtime.script.starts = "hang"
        receipt = await w.run("say a")
        await w.diary.has("start")
        cancel = await w.router.cancel(str(receipt.key), 5, OPERATOR)
        assert (cancel.rung, cancel.turn_ended) == (CancelRung.CANCEL, True)
        assert (await w.wait(receipt)).outcome is Outcome.CANCELLED
        assert await w.rest(receipt.key) is SessionState.IDLE
        w.runtime.script.starts = "ok"
        assert (await w.done("say b", key=receipt.key))[1].outcome is Outcome.COMPLETED
        assert "prompt say a" not in w.diary.lines


async def test_cancel_while_the_agents_session_is_being_opened(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.runtime.script.opens[New] = "hang"
        receipt = await w.run("say a")
        await w.diary.has("open New")
        assert (await w.router.cancel(str(receipt.key), 5, OPERATOR)).turn_ended
        assert await w.rest(receipt.key) is SessionState.IDLE
        assert await endings(w, receipt.key) == [(receipt.run_id, "cancelled")]


async def test_a_cancel_just_before_the_prompt_is_sent_sends_none(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("say a", one_shot=False)
        await w.diary.has("open New")
        await until(lambda: w.session(receipt.key)._life.opened)  # type: ignore[union-attr]
        cancel = await w.router.cancel(str(receipt.key), 5, OPERATOR)
        assert (cancel.rung, cancel.turn_ended) == (CancelRung.CANCEL, True)
        assert "prompt say a" not in w.diary.lines
        assert (await w.done("say b", key=receipt.key))[1].outcome is Outcome.COMPLETED


async def test_case_32_what_is_queued_does_not_start_after_a_cancel(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        first = await w.run("wait", one_shot=False)
        await w.diary.has("prompt wait")
        queued = [await w.run(f"say {n}", key=first.key) for n in range(3)]
        await w.router.cancel(str(first.key), 5, OPERATOR)
        for receipt in (first, *queued):
            assert (await w.wait(receipt)).outcome is Outcome.CANCELLED
        await w.is_ready(first.key)
        assert [line for line in w.diary.lines if line.startswith("prompt")] == ["prompt wait"]


async def test_a_prompt_that_is_queued_and_cancelled_at_once_leaves_the_process(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        first, _ = await w.done("say a", one_shot=False)
        await w.is_ready(first.key)
        session = w.session(first.key)
        receipt = await w.run("say b", key=first.key)
        await session.cancel(5)
        assert (await w.wait(receipt)).outcome is Outcome.CANCELLED
        assert (await w.done("say c", key=first.key))[1].outcome is Outcome.COMPLETED
        assert w.diary.lines.count("start") == 1


async def test_cancel_of_a_session_without_a_turn_reaches_no_rung(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say a", one_shot=False)
        cancel = await w.router.cancel(str(receipt.key), 5, OPERATOR)
        assert (cancel.rung, cancel.turn_ended, cancel.stop_reason) == (
            CancelRung.NONE,
            True,
            None,
        )
        assert "cancel" not in w.diary.lines


async def test_a_cancel_that_comes_while_the_end_is_recorded_changes_nothing(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("wait", one_shot=False)
        await w.diary.has("prompt wait")
        turn = w.turn(receipt.key)
        w.agent(receipt.key).answer("end_turn")
        await until(lambda: turn.outcome is not None)
        cancel = await w.session(receipt.key).cancel(5)
        assert cancel[:2] == (CancelRung.NONE, True)
        assert (await w.wait(receipt)).outcome is Outcome.COMPLETED
        assert "cancel" not in w.diary.lines


async def test_two_cancels_at_once_ask_the_agent_once_and_tell_the_same(tmp_path: Path) -> None:
    """Without `turn.reach` in `ladder.ask` the diary has two cancels, and two that close."""
    async with world(tmp_path) as w:
        receipt = await w.run("stone", one_shot=False)
        await w.diary.has("prompt stone")
        told: list[Any] = []

        async def cancel(grace: float) -> None:
            told.append(await w.router.cancel(str(receipt.key), grace, OPERATOR))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel, 15.0)
            await w.diary.has("cancel")
            tasks.start_soon(cancel, 0.02)  # whoever is in a hurry need not wait for the other
        # Who still waited on the first rung tells how far it had to go all the same.
        assert [(one.rung, one.turn_ended) for one in told] == [(CancelRung.KILL, True)] * 2
        assert (w.diary.lines.count("cancel"), w.diary.lines.count("close")) == (1, 1)


async def test_a_turn_whose_end_comes_while_its_session_is_closed_ends_the_ladder(
    tmp_path: Path,
) -> None:
    """Without `enough` in `_close` the cancel waits for an answer to its close, and this hangs."""
    async with world(tmp_path) as w:
        receipt = await w.run("stone", one_shot=False)
        await w.diary.has("prompt stone")
        agent = w.agent(receipt.key)

        async def unanswered() -> None:
            agent.answer("cancelled")
            await anyio.sleep_forever()

        agent.close = unanswered  # type: ignore[method-assign]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(w.session(receipt.key).cancel, 15.0)
            await w.diary.has("cancel")
            cancel = await w.router.cancel(str(receipt.key), 0.5, OPERATOR)
            assert (cancel.rung, cancel.turn_ended) == (CancelRung.CLOSE, True)


async def test_a_cancel_of_a_session_that_is_being_restarted_lets_that_go_on(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say a", one_shot=False)
        await w.is_ready(receipt.key)
        w.runtime.script.opens[Resume] = "hang"
        restarted: list[Any] = []

        async def restart() -> None:
            restarted.append(await w.router.restart(RestartRequest(str(receipt.key)), OPERATOR))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(restart)
            await until(lambda: any(line.startswith("open Resume") for line in w.diary.lines))
            cancel = await w.router.cancel(str(receipt.key), 5, OPERATOR)
            assert (cancel.rung, cancel.turn_ended) == (CancelRung.NONE, True)
            assert not restarted
            await w.router.kill([str(receipt.key)], 0, OPERATOR)
            tasks.cancel_scope.cancel()


async def test_case_26_cancel_answers_every_open_question(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("ask 27", one_shot=False)
        await w.questions(27)
        agent = w.agent(receipt.key)
        assert w.turn(receipt.key).state is TurnState.WAITING
        await w.router.cancel(str(receipt.key), 5, OPERATOR)
        assert not w.broker.questions()
        events = await w.events(receipt.key)
        decided = [event for event in events if event["type"] == "permission_decided"]
        assert len({event["id"] for event in decided}) == len(decided) == 27
        assert {(e["effect"], e["optionId"]) for e in decided} == {("cancel", None)}
        assert all(decision.option_id is None for decision in agent.decisions)
        assert events[-1]["type"] == "turn_ended"  # and not before its questions


async def test_row_15_a_question_after_the_cancel_is_answered_cancelled_at_once(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("stone", on_permission=OnPermission.ALLOW)
        await w.diary.has("prompt stone")
        agent = w.agent(receipt.key)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(w.session(receipt.key).cancel, 0.3)
            await w.diary.has("cancel")
            await agent._ask("late")
            assert [d.effect for d in agent.decisions] == [Effect.CANCEL]


async def test_row_14_a_question_outside_a_turn_goes_to_a_person_whatever_the_rule(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say a", one_shot=False, on_permission=OnPermission.ALLOW)
        agent = w.agent(receipt.key)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(agent._ask, "outside")
            (question,) = await w.questions(1)
            assert question.request.turn is None
            await w.router.kill([str(receipt.key)], 0, OPERATOR)
        assert [d.effect for d in agent.decisions] == [Effect.CANCEL]
        assert not w.broker.questions()


async def test_row_14_what_the_agent_asks_before_it_has_the_prompt_is_of_no_turn(
    tmp_path: Path,
) -> None:
    """While the session is opened, or right behind the turn's answer: the run's rule is not for it.

    A cancel of that turn withdraws nothing of it, but allows nothing either.
    """
    async with world(tmp_path) as w:
        receipt = await w.run("stone", on_permission=OnPermission.ALLOW)
        await w.diary.has("prompt stone")
        agent = w.agent(receipt.key)
        subject = ToolSubject("early", "Run", ToolKind.EXECUTE, known_kind=True)
        ask = PermissionAsk(subject, (ALLOW, REJECT), outside_turn=True)
        decisions: list[Decision] = []

        async def early() -> None:
            decisions.append(await agent.host.ask(ask))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(early)
            (question,) = await w.questions(1)
            assert question.request.turn is None
            assert question.request.run_rule is OnPermission.ASK
            await w.router.kill([str(receipt.key)], 0, OPERATOR)
        assert [d.effect for d in decisions] == [Effect.CANCEL]


async def test_case_30_a_cancelled_turn_that_says_end_turn_is_cancelled(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("late")
        await w.diary.has("prompt late")
        cancel = await w.router.cancel(str(receipt.key), 5, OPERATOR)
        assert cancel.stop_reason == "cancelled"
        assert (await w.wait(receipt)).outcome is Outcome.CANCELLED
        assert await endings(w, receipt.key) == [(receipt.run_id, "cancelled")]


async def test_case_31_a_late_update_belongs_to_no_turn(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say a", one_shot=False)
        w.agent(receipt.key).say("late")
        second, _ = await w.done("say b", key=receipt.key)
        updates = [
            (event["turn"], event["update"]["content"]["text"])
            for event in await w.events(receipt.key)
            if event["type"] == "update"
        ]
        assert updates == [(receipt.run_id, "a"), (None, "late"), (second.run_id, "b")]


async def test_case_31_a_late_update_in_the_next_turn_belongs_to_none_and_is_no_sign_of_life(
    tmp_path: Path,
) -> None:
    """Without the look at `late` in `Host.emit` it has the run id of the turn under way."""
    async with world(tmp_path) as w:
        receipt = await w.run("wait", one_shot=False)
        await w.diary.has("prompt wait")
        before = w.turn(receipt.key).last_update
        w.clock.advance(60)
        raw = b'{"sessionUpdate":"tool_call_update","toolCallId":"old"}'
        w.agent(receipt.key).host.emit(Update(raw, "tool_call_update", late=True))
        assert w.turn(receipt.key).last_update == before
        event = (await w.events(receipt.key))[-1]
        assert (event["type"], event["turn"]) == ("update", None)


# ---- Limits of a turn ----


async def test_a_timeout_ends_the_turn_and_spares_a_process_that_honours_it(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        receipt, result = await w.done("wait", one_shot=False, timeout=0.02)
        assert result.outcome is Outcome.TIMED_OUT
        assert result.error is not None
        assert result.error["code"] == "prompt_timeout"
        assert await endings(w, receipt.key) == [(receipt.run_id, "prompt_timeout")]
        assert (await w.done("say ok", key=receipt.key))[1].outcome is Outcome.COMPLETED
        assert w.diary.lines.count("start") == 1


async def test_a_timeout_goes_down_the_whole_ladder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overtime, "TIMEOUT_GRACE", 0.02)
    async with world(tmp_path) as w:
        receipt, result = await w.done("stone", one_shot=False, timeout=0.02)
        assert result.outcome is Outcome.TIMED_OUT
        assert await w.rest(receipt.key) is SessionState.IDLE
        assert not w.runtime.running


async def test_a_turn_that_a_person_cancelled_does_not_time_out_later(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("stone", timeout=0.05)
        await w.diary.has("prompt stone")
        await w.router.cancel(str(receipt.key), 0.2, OPERATOR)
        assert (await w.wait(receipt)).outcome is Outcome.CANCELLED


# ---- Death ----


async def test_case_62_death_in_a_turn_is_told_once_and_the_session_died(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, result = await w.done("crash", one_shot=False)
        assert result.outcome is Outcome.FAILED
        assert result.error is not None
        assert result.error["code"] == "agent_died"
        assert await w.rest(receipt.key) is SessionState.DIED
        assert await endings(w, receipt.key) == [(receipt.run_id, "agent_died")]
        record = w.session(receipt.key).record
        assert record.last_error is not None
        assert record.last_error["code"] == "agent_died"
        exited = (await w.events(receipt.key))[-1]
        assert (exited["type"], exited["died"]) == ("process_exited", True)
        assert w.services.places.taken == 0


async def test_case_61_death_withdraws_the_open_questions(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("ask 2")
        await w.questions(2)
        w.agent(receipt.key).die()
        assert (await w.wait(receipt)).outcome is Outcome.FAILED
        assert not w.broker.questions()
        await w.rest(receipt.key)
        decided = [e for e in await w.events(receipt.key) if e["type"] == "permission_decided"]
        assert len(decided) == 2


async def test_death_between_two_turns_is_noticed_and_the_next_prompt_reopens(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say a", one_shot=False)
        await w.is_ready(receipt.key)
        w.agent(receipt.key).die()
        assert await w.rest(receipt.key) is SessionState.DIED
        assert (await w.done("say b", key=receipt.key))[1].outcome is Outcome.COMPLETED


@pytest.mark.parametrize(
    ("caps", "refused", "opened"),
    [
        (("resume", "load"), {}, ["Resume"]),
        (("load",), {}, ["Load"]),
        (("resume", "load"), {Resume: "resume_not_found"}, ["Resume", "Load"]),
        (
            ("resume", "load"),
            {Resume: "resume_not_found", Load: "resume_not_found"},
            ["Resume", "Load", "New"],
        ),
        (("resume",), {Resume: "resume_not_found"}, ["Resume", "New"]),
        ((), {}, ["New"]),
    ],
)
async def test_case_69_reopening_tries_resume_then_load_then_new_if_wanted_and_says_so(
    tmp_path: Path, caps: tuple[str, ...], refused: dict[Any, str], opened: list[str]
) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("crash", one_shot=False)
        await w.rest(receipt.key)
        w.runtime.script.caps = caps
        w.runtime.script.opens = refused
        w.diary.lines.clear()
        second, result = await w.done("say b", key=receipt.key, fresh=True)
        assert result.outcome is Outcome.COMPLETED
        tried = [line.split()[1:] for line in w.diary.lines if line.startswith("open")]
        assert tried == [[how] if how == "New" else [how, "s100"] for how in opened]
        notices = [e for e in await w.events(receipt.key) if e["type"] == "notice"]
        assert len(notices) == opened.count("New")
        for notice in notices:
            assert (notice["kind"], notice["was"]) == ("context_lost", "s100")
            assert "previous context lost" in notice["message"]
            assert notice["turn"] == second.run_id
        record = w.session(receipt.key).record
        assert record.opens == 2
        assert record.former_session_ids == ("s100",) * opened.count("New")
        assert record.agent_session_id == ("s101" if "New" in opened else "s100")


async def test_a_reopening_refused_for_another_reason_is_reported(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("crash")
        await w.rest(receipt.key)
        w.runtime.script.opens = {Resume: "auth_required"}
        _, result = await w.done("say b", key=receipt.key)
        assert result.error is not None
        assert result.error["code"] == "auth_required"
        assert await w.rest(receipt.key) is SessionState.FAILED
        assert w.session(receipt.key).record.agent_session_id == "s100"


async def test_the_log_of_a_failed_open_tells_the_story_in_order(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.runtime.script.opens = {New: "auth_required"}
        receipt, _ = await w.done("say a")
        await w.rest(receipt.key)
        assert await w.types(receipt.key) == [
            "turn_queued",
            "turn_started",
            "process_started",
            "process_exited",
            "turn_failed",
        ]
        assert w.services.places.taken == 0  # case 116


async def test_case_63_three_failed_opens_in_a_minute_and_no_more(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.runtime.script.starts = "hold"
        first = await w.run("say 0")
        receipts = [first, *[await w.run(f"say {n}", key=first.key) for n in range(1, 10)]]
        w.runtime.released.set()
        codes = [str((await w.wait(r)).error["code"]) for r in receipts]  # type: ignore[index]
        assert codes == ["start_failed"] * 3 + ["reopen_refused"] * 7
        assert w.diary.lines.count("start") == 3
        assert await w.rest(first.key) is SessionState.FAILED
        w.clock.seconds += 1000  # until `restart`: time alone does not help
        with pytest.raises(BridgeError) as caught:
            await w.run("say more", key=first.key)
        assert caught.value.code == "reopen_refused"


async def test_failed_opens_that_lie_apart_or_before_a_good_one_are_forgiven(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        w.runtime.script.starts = "fail"
        first, _ = await w.done("say a")
        for _ in range(5):
            w.clock.seconds += 31
            _, result = await w.done("say b", key=first.key)
            assert result.error is not None
            assert result.error["code"] == "start_failed"
        w.runtime.script.starts = "ok"
        assert (await w.done("say c", key=first.key))[1].outcome is Outcome.COMPLETED
        await w.rest(first.key)
        w.runtime.script.starts = "fail"
        _, result = await w.done("say d", key=first.key)
        assert result.error is not None
        assert result.error["code"] == "start_failed"


async def test_a_fault_of_ours_ends_one_life_and_no_other_session(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        good = await w.run("wait", one_shot=False)
        await w.diary.has("prompt wait")
        w.runtime.script.starts = "fault"
        _, result = await w.done("say a")
        assert result.error is not None
        assert result.error["code"] == "internal"
        w.agent(good.key).answer("end_turn")
        assert (await w.wait(good)).outcome is Outcome.COMPLETED


async def test_a_fault_in_a_later_turn_of_a_process_ends_that_turn(tmp_path: Path) -> None:
    broken: list[bool] = []

    def faults(point: str) -> None:
        if broken and point == "session.before_prompt":
            raise ZeroDivisionError

    async with world(tmp_path, faults=faults) as w:
        receipt, _ = await w.done("say a", one_shot=False)
        broken.append(True)
        _, result = await w.done("say b", key=receipt.key)
        assert result.error is not None
        assert result.error["code"] == "internal"
        assert await w.rest(receipt.key) is SessionState.DIED


async def test_g28_a_full_ledger_ends_the_waiter_and_is_made_up_for(tmp_path: Path) -> None:
    full: list[bool] = []

    def faults(point: str) -> None:
        if full and point == "ledger.before_commit":
            raise OSError(28, "No space left on device")

    async with world(tmp_path, faults=faults) as w:
        receipt = await w.run("wait", one_shot=False)
        await w.diary.has("prompt wait")
        full.append(True)
        w.agent(receipt.key).answer("end_turn")
        assert (await w.wait(receipt)).outcome is Outcome.COMPLETED
        with pytest.raises(BridgeError) as caught:
            await w.run("say b", key=receipt.key)
        assert caught.value.code == "store_full"
        with pytest.raises(BridgeError):
            await w.run("say new")
        full.clear()
        assert (await w.done("say c", key=receipt.key))[1].outcome is Outcome.COMPLETED
        await w.services.scribe.written()
        record = await w.ledger.run(receipt.run_id)
        assert record is not None
        assert record.outcome is Outcome.COMPLETED
        rows = await w.rows()
        assert [row["key"] for row in rows] == [str(receipt.key)]


# ---- Idle ----


async def test_an_idle_process_is_released_after_its_time(tmp_path: Path) -> None:
    async with world(tmp_path, idle_ttl=0.02) as w:
        receipt, _ = await w.done("say a", one_shot=False)
        assert await w.rest(receipt.key) is SessionState.IDLE
        assert not w.runtime.running
        assert w.session(receipt.key).record.last_error is None
        assert (await w.done("say b", key=receipt.key))[1].outcome is Outcome.COMPLETED


async def test_a_prompt_while_the_process_is_stopping_starts_the_next_one(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say a")  # one shot: it stops now
        second = await w.run("say b", key=receipt.key)
        assert (await w.wait(second)).outcome is Outcome.COMPLETED
        assert await w.rest(receipt.key) is SessionState.IDLE


# ---- Kill ----


async def kill_is_total(w: World, key: Any, *receipts: Any) -> None:
    (kill,) = await w.router.kill([str(key)], 0, OPERATOR)
    assert kill.survivors == ()
    assert await w.rest(key) is SessionState.CLOSED
    record = w.session(key).record
    assert record.close_reason is CloseReason.KILLED
    assert not w.runtime.running
    assert not w.broker.questions()
    assert w.services.places.taken == 0
    for receipt in receipts:
        assert (await w.wait(receipt)).outcome is Outcome.CANCELLED
    with pytest.raises(BridgeError) as caught:
        await w.run("say x", key=key)
    assert caught.value.code == "session_closed"


async def test_kill_while_starting(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.runtime.script.starts = "hang"
        receipt = await w.run("say a")
        queued = await w.run("say b", key=receipt.key)
        await w.diary.has("start")
        await kill_is_total(w, receipt.key, receipt, queued)
        assert "prompt say a" not in w.diary.lines


@pytest.mark.parametrize("word", ["wait", "stone", "late"])
async def test_kill_while_running(tmp_path: Path, word: str) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run(word)
        queued = await w.run("say b", key=receipt.key)
        await w.diary.has(f"prompt {word}")
        await kill_is_total(w, receipt.key, receipt, queued)
        assert await endings(w, queued.key) != []


async def test_kill_while_ready(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say a", one_shot=False)
        await kill_is_total(w, receipt.key)
        exited, closed = (await w.events(receipt.key))[-2:]
        assert (exited["died"], closed["type"], closed["reason"]) == (
            False,
            "session_closed",
            "killed",
        )


async def test_that_a_session_is_closed_is_told_its_log_once(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say a")
        await w.router.close(str(receipt.key), OPERATOR)
        await w.router.kill([str(receipt.key)], 0, OPERATOR)
        types = await w.types(receipt.key)
        assert types.count("session_closed") == 1
        assert types[-1] == "session_closed"


async def test_kill_without_a_process(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say a")
        await w.rest(receipt.key)
        await kill_is_total(w, receipt.key)
        assert w.diary.lines.count("start") == 1


async def test_kill_with_an_open_question(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("ask 3")
        await w.questions(3)
        await kill_is_total(w, receipt.key, receipt)
        decided = [e for e in await w.events(receipt.key) if e["type"] == "permission_decided"]
        assert [event["effect"] for event in decided] == ["cancel"] * 3


async def test_two_kills_at_once_and_a_cancel(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("stone")
        await w.diary.has("prompt stone")
        key = str(receipt.key)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(w.router.kill, [key], 0.1, OPERATOR)
            tasks.start_soon(w.router.cancel, key, 0.1, OPERATOR)
            tasks.start_soon(w.router.kill, [key, key], 0, OPERATOR)
        assert await endings(w, receipt.key) == [(receipt.run_id, "cancelled")]
        await kill_is_total(w, receipt.key, receipt)


async def test_a_kill_right_behind_the_run_catches_it(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("say a")
        await kill_is_total(w, receipt.key, receipt)
        assert "prompt say a" not in w.diary.lines


async def test_a_session_in_the_middle_of_its_end_is_shown_as_stopping(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("stone", one_shot=False)
        await w.diary.has("prompt stone")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(w.router.kill, [str(receipt.key)], 0.3, OPERATOR)
            await w.diary.has("stop 0.3")
            (row,) = await w.router.sessions(OPERATOR, everything=False)
            assert row["state"] == "stopping"


async def test_g28_no_room_is_no_failed_open(tmp_path: Path) -> None:
    """Without `capacity` in `REFUSED` the fourth is `reopen_refused`, and a person is needed."""
    async with world(tmp_path) as w:
        w.runtime.script.opens = {New: "capacity"}
        receipt, _ = await w.done("say a")
        for _ in range(4):
            assert await w.rest(receipt.key) is SessionState.IDLE
            _, result = await w.done("say b", key=receipt.key)
            assert result.error is not None
            assert result.error["code"] == "capacity"
        w.runtime.script.opens = {}
        _, result = await w.done("say c", key=receipt.key)
        assert result.outcome is Outcome.COMPLETED
