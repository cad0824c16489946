"""Completions: each run that somebody is to hear of is told to that session once, however it ends.

Cases 133 and 135, R8, R11 and R12 of the contract, with scripted agents.
"""

import errno
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acpbridge.config.snapshot import Limits
from acpbridge.errors import BridgeError
from acpbridge.model.agents import RuntimeKind
from acpbridge.model.keys import SessionKey
from acpbridge.router import announce
from acpbridge.router.announce_requests import DeliveriesRequest
from acpbridge.router.api import RunReceipt
from acpbridge.runtimes.base import Resume
from acpbridge.store.records import OutboxEntry
from tests.unit.router.world import OPERATOR, REPORT, World, agent_in, refused, until, world


async def child_of(w: World, parent: SessionKey, words: str, **how: Any) -> RunReceipt:
    """Have a session's agent start a child of whose end it is to hear."""
    how.setdefault("deliver_to", parent)
    return await w.run(words, by=agent_in(parent), detached=True, **how)


async def a_parent(w: World, words: str = "say hello") -> SessionKey:
    """Return a session whose process is up and waits for its next turn."""
    receipt, _ = await w.done(words, one_shot=False)
    await w.is_ready(receipt.key)
    return receipt.key


async def prompts(w: World, key: SessionKey) -> list[dict[str, Any]]:
    """Return the beginnings of all turns in which a session was told of a completion."""
    return [
        event
        for event in await w.events(key)
        if event["type"] == "turn_started"
        and event["provenance"].get("sourceTool") == "subagent_announce"
    ]


async def told(w: World, key: SessionKey) -> list[str]:
    """Return the runs of which a session was told, each as often as it was."""
    return [event["provenance"]["runId"] for event in await prompts(w, key)]


async def report(w: World, key: SessionKey) -> str:
    """Return the text of the one completion that a session was told of."""
    (event,) = await prompts(w, key)
    text: str = event["prompt"][0]["text"]
    return text


async def entry_of(w: World, receipt: RunReceipt) -> OutboxEntry:
    entry = await w.ledger.delivery(f"announce:{receipt.run_id}")
    assert entry is not None
    return entry


async def state(w: World, receipt: RunReceipt, *wanted: str) -> OutboxEntry:
    """Wait until a completion stands where it should."""
    while True:
        entry = await w.ledger.delivery(f"announce:{receipt.run_id}")
        if entry is not None and entry.state in wanted:
            return entry
        await anyio.lowlevel.checkpoint()


async def delivered(w: World, *receipts: RunReceipt) -> None:
    for receipt in receipts:
        await state(w, receipt, "delivered")


async def deliveries(w: World, **params: Any) -> list[dict[str, Any]]:
    found = await w.router.tool(DeliveriesRequest(**params), OPERATOR)
    rows: list[dict[str, Any]] = found["deliveries"]
    return rows


async def resting(w: World) -> None:
    """Wait until an attempt at the one completion has failed, and the next one is waited for."""
    dues = w.router._completing.dues._due
    await until(lambda: [due for due in dues.values() if due.turn is not None])
    await until(lambda: [due for due in dues.values() if due.turn is None])


def tries(w: World, key: SessionKey) -> int:
    """Return how many turns a session's agent was prompted with a report."""
    del key
    return sum(line.startswith(f"prompt {REPORT}") for line in w.diary.lines)


# ---- Once (case 133) ----


async def test_case_133_b_an_idle_parent_hears_of_its_child_once(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        parent = await a_parent(w)
        child = await child_of(w, parent, "say found-it")
        await delivered(w, child)
        assert await told(w, parent) == [child.run_id]
        (event,) = await prompts(w, parent)
        assert event["provenance"] == {
            "kind": "inter_session",
            "sourceTool": "subagent_announce",
            "runtime": "acp",
            "sourceSessionKey": str(child.key),
            "targetSessionKey": str(parent),
            "runId": child.run_id,
            "correlationId": child.run_id,
        }
        text = await report(w, parent)
        assert "status: completed; ready for parent review" in text
        assert "result:\n| found-it\n" in text
        assert text.splitlines()[-1].startswith("Instruction: ")


async def test_case_133_c_a_parent_in_another_turn_hears_of_it_behind_that(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        parent = await w.run("wait", one_shot=False)
        await until(lambda: w.diary.lines.count("prompt wait") == 1)
        child = await child_of(w, parent.key, "say found-it")
        await w.wait(child)
        await until(lambda: len(w.session(parent.key).inbox) == 1)
        assert await told(w, parent.key) == []
        w.agent(parent.key).answer("end_turn")
        await delivered(w, child)
        assert await told(w, parent.key) == [child.run_id]


async def test_case_133_a_whoever_got_the_result_by_waiting_is_not_told_again(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        parent = await w.run("wait", one_shot=False)
        await until(lambda: w.diary.lines.count("prompt wait") == 1)
        child = await child_of(w, parent.key, "say found-it")
        with w.router._completing.announcing.holding(child.run_id):
            await w.wait(child)
            await state(w, child, "pending")
            assert await w.router._completing.announcing.claim(child.run_id)
        assert not await w.router._completing.announcing.claim(child.run_id)
        w.agent(parent.key).answer("end_turn")
        await w.is_ready(parent.key)
        assert (await entry_of(w, child)).state == "delivered"
        assert await told(w, parent.key) == []
        assert len(w.session(parent.key).inbox) == 0


async def test_case_133_a_claim_takes_a_completion_out_of_the_queue(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        parent = await w.run("wait", one_shot=False)
        await until(lambda: w.diary.lines.count("prompt wait") == 1)
        child = await child_of(w, parent.key, "say found-it")
        await until(lambda: len(w.session(parent.key).inbox) == 1)
        assert await w.router._completing.announcing.claim(child.run_id)
        assert len(w.session(parent.key).inbox) == 0
        w.agent(parent.key).answer("end_turn")
        await w.is_ready(parent.key)
        assert await told(w, parent.key) == []


async def test_who_waited_in_vain_hears_of_it_later(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        parent = await a_parent(w)
        child = await child_of(w, parent, "wait")
        with w.router._completing.announcing.holding(child.run_id):
            await until(lambda: "prompt wait" in w.diary.lines)
        w.agent(child.key).answer("end_turn")
        await delivered(w, child)
        assert await told(w, parent) == [child.run_id]


async def test_nobody_hears_of_a_run_that_was_for_nobody(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        parent = await a_parent(w)
        child = await child_of(w, parent, "say found-it", deliver_to=None)
        await w.wait(child)
        await w.rest(child.key)
        assert await w.ledger.outbox(("pending", "sent", "delivered", "blocked")) == []
        assert await told(w, parent) == []


# ---- Every ending (case 135, R8) ----


async def test_case_135_r8_every_bad_ending_is_told_with_the_true_state(tmp_path: Path) -> None:
    limits = Limits(max_children_per_session=20)
    endings = {
        "crash": "failed: The agent died: exit status 1. (agent_died)",
        "raise": "failed: it went wrong (turn_failed)",
        "end refusal": "failed: it stopped with refusal",
        "end max_tokens": "failed: it stopped with max_tokens",
        "end": "failed: The agent ended the turn without a stop reason. (turn_failed)",
        "end end_turn": "completed without a result: the deliverable is missing",
        "say NO_REPLY": "completed without a result: the deliverable is missing",
        "end cancelled": "cancelled",
    }
    async with world(tmp_path, limits=limits) as w:
        parent = await a_parent(w)
        for words, status in endings.items():
            child = await child_of(w, parent, words)
            await delivered(w, child)
            text = (await prompts(w, parent))[-1]["prompt"][0]["text"]
            assert f"\nstatus: {status}\n" in text, text
            assert "result: none" in text
        runs = await told(w, parent)
        assert len(set(runs)) == len(runs) == len(endings)


async def test_case_135_case_143_a_start_that_fails_is_told(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        parent = await a_parent(w)
        w.runtime.script.starts = "fail"
        child = await child_of(w, parent, "say x")
        await delivered(w, child)
        assert "status: failed: boom (start_failed)" in await report(w, parent)


async def test_case_135_a_killed_child_is_told_as_cancelled(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        parent = await a_parent(w)
        child = await child_of(w, parent, "wait")
        await until(lambda: "prompt wait" in w.diary.lines)
        await w.router.kill([str(child.key)], 0, OPERATOR)
        await delivered(w, child)
        assert "\nstatus: cancelled\n" in await report(w, parent)


async def test_case_135_a_run_that_took_too_long_is_told_as_timed_out(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        parent = await a_parent(w)
        child = await child_of(w, parent, "wait", timeout=0.01)
        await delivered(w, child)
        assert "\nstatus: timed out\n" in await report(w, parent)


async def test_case_50_b_a_denied_permission_is_named(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        parent = await a_parent(w)
        child = await child_of(w, parent, "ask 1")
        (question,) = await w.questions(1)
        await w.router.answer(question.request.id, OPERATOR, option_id="no", effect=None, note="")
        await delivered(w, child)
        assert "\ndenied: Run (operator)\n" in await report(w, parent)


async def test_case_50_whoever_is_above_a_question_gets_one_notice_and_no_way_to_answer(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        top = await a_parent(w)
        middle = await child_of(w, top, "wait")
        await until(lambda: "prompt wait" in w.diary.lines)
        child = await child_of(w, middle.key, "ask 1")
        (question,) = await w.questions(1)
        for key in (top, middle.key):
            notices = [e for e in await w.events(key) if e.get("kind") == "attention"]
            assert [n["question"] for n in notices] == [question.request.id]
            assert notices[0]["sessionKey"] == str(child.key)
            assert "waits for a person: Run." in notices[0]["message"]
        answer = w.router.answer(
            question.request.id, agent_in(top), option_id="yes", effect=None, note=""
        )
        await refused("permission_denied", answer)
        await w.router.kill([str(top)], 0, OPERATOR)


# ---- Whole, and to whom ----


async def test_a_child_that_waits_for_its_own_is_told_of_once_they_are_told_to_it(
    tmp_path: Path,
) -> None:
    """Only the direct parent hears of a run; the result is what the child makes of its parts."""
    async with world(tmp_path) as w:
        top = await a_parent(w)
        middle = await child_of(w, top, "wait", one_shot=False)
        await until(lambda: "prompt wait" in w.diary.lines)
        deeper = await child_of(w, middle.key, "wait")
        await until(lambda: w.diary.lines.count("prompt wait") == 2)
        w.runtime.script.hears = "say put-together"
        w.agent(middle.key).answer("end_turn")
        await w.wait(middle)
        await w.is_ready(middle.key)
        assert (await entry_of(w, middle)).state == "pending"
        w.agent(deeper.key).answer("end_turn")
        await delivered(w, deeper, middle)
        assert await told(w, middle.key) == [deeper.run_id]
        assert await told(w, top) == [middle.run_id]
        assert "| put-together" in await report(w, top)


async def test_the_grandparent_hears_of_it_when_the_parent_is_closed(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await a_parent(w)
        middle = await child_of(w, top, "wait", deliver_to=None)
        await until(lambda: "prompt wait" in w.diary.lines)
        child = await child_of(w, middle.key, "wait")
        await until(lambda: w.diary.lines.count("prompt wait") == 2)
        await w.router.close(str(middle.key), OPERATOR)
        await delivered(w, child)
        assert await told(w, top) == [child.run_id]


async def test_r8_what_nobody_can_hear_is_kept_for_operators(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await a_parent(w)
        child = await child_of(w, top, "wait")
        await until(lambda: "prompt wait" in w.diary.lines)
        await w.router.kill([str(top)], 0, OPERATOR)
        entry = await state(w, child, "blocked")
        assert entry.payload["reason"] == "no_session"
        (row,) = await deliveries(w)
        assert (row["runId"], row["reason"], row["outcome"]) == (
            child.run_id,
            "no_session",
            "cancelled",
        )
        await refused("permission_denied", w.router.tool(DeliveriesRequest(), agent_in(child.key)))
        (row,) = await deliveries(w, action="dismiss", ids=(entry.id,))
        assert row["state"] == "dismissed"
        assert await deliveries(w) == []
        await refused(
            "already_resolved",
            w.router.tool(DeliveriesRequest(action="retry", ids=(entry.id,)), OPERATOR),
        )
        await refused(
            "invalid_params",
            w.router.tool(DeliveriesRequest(action="dismiss", ids=("x",)), OPERATOR),
        )


async def test_a_parent_whose_process_is_gone_is_reopened_for_it(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        parent = await w.run("wait")
        await until(lambda: "prompt wait" in w.diary.lines)
        child = await child_of(w, parent.key, "wait")
        await until(lambda: w.diary.lines.count("prompt wait") == 2)
        w.agent(parent.key).answer("end_turn")
        await w.rest(parent.key)
        assert str(parent.key) not in w.runtime.running
        w.agent(child.key).answer("end_turn")
        await delivered(w, child)
        assert await told(w, parent.key) == [child.run_id]


async def test_a_stopped_parent_is_not_woken_by_what_was_stopped_with_it(tmp_path: Path) -> None:
    """Case 32: who stops a session does not see it go on; it hears of all with its next prompt."""
    async with world(tmp_path) as w:
        parent = await w.run("wait", one_shot=False)
        await until(lambda: "prompt wait" in w.diary.lines)
        first = await child_of(w, parent.key, "say early")
        await until(lambda: len(w.session(parent.key).inbox) == 1)
        second = await child_of(w, parent.key, "deaf")
        await until(lambda: "prompt deaf" in w.diary.lines)
        await w.router.cancel(str(parent.key), 0.01, OPERATOR)
        for child in (first, second):
            await w.wait(child)
            while not (await entry_of(w, child)).payload.get("quiet"):
                await anyio.lowlevel.checkpoint()
        w.clock.advance(announce.PATIENCE)
        assert await told(w, parent.key) == []
        await until(lambda: not w.router._completing.dues.busy)
        await w.done("say again", key=parent.key, one_shot=False)
        await delivered(w, first, second)
        assert sorted(await told(w, parent.key)) == sorted([first.run_id, second.run_id])


# ---- Again, and not for ever ----


async def test_case_133_a_delivery_that_fails_is_tried_again_and_told_once(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        parent = await w.run("wait")
        await until(lambda: "prompt wait" in w.diary.lines)
        child = await child_of(w, parent.key, "wait")
        await until(lambda: w.diary.lines.count("prompt wait") == 2)
        w.agent(parent.key).answer("end_turn")
        await w.rest(parent.key)
        w.runtime.script.starts = "fail"
        w.agent(child.key).answer("end_turn")
        await resting(w)
        assert (await entry_of(w, child)).state == "pending"
        w.runtime.script.starts = "ok"
        w.clock.advance(announce.FIRST_PAUSE)
        await delivered(w, child)
        assert tries(w, parent.key) == 1
        assert (await entry_of(w, child)).attempts == 2


async def test_r8_after_half_an_hour_it_is_blocked_and_an_operator_may_have_it_told(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        parent = await w.run("wait")
        await until(lambda: "prompt wait" in w.diary.lines)
        child = await child_of(w, parent.key, "wait")
        await until(lambda: w.diary.lines.count("prompt wait") == 2)
        w.agent(parent.key).answer("end_turn")
        await w.rest(parent.key)
        w.runtime.script.opens[Resume] = "resume_not_found"
        w.agent(child.key).answer("end_turn")
        entry = await state(w, child, "blocked")
        assert entry.payload["reason"] == "resume_not_found"
        blocked = [e for e in await w.events(parent.key) if e.get("kind") == "announce_blocked"]
        assert len(blocked) == 1
        w.runtime.script.opens.clear()
        await deliveries(w, action="retry", ids=(entry.id,))
        await delivered(w, child)
        assert tries(w, parent.key) == 1


async def test_an_attempt_that_takes_too_long_is_given_up_for_another(tmp_path: Path) -> None:
    async with world(tmp_path, more={"announce": lambda: 7.0}) as w:
        parent = await w.run("wait")
        await until(lambda: "prompt wait" in w.diary.lines)
        child = await child_of(w, parent.key, "wait")
        await until(lambda: w.diary.lines.count("prompt wait") == 2)
        w.agent(parent.key).answer("end_turn")
        await w.rest(parent.key)
        w.runtime.script.starts = "hang"
        sleeps = w.clock.sleeps
        w.agent(child.key).answer("end_turn")
        await until(lambda: w.clock.sleeps > sleeps and str(parent.key) in w.runtime.running)
        w.clock.advance(7)
        await resting(w)
        w.runtime.script.starts = "ok"
        w.clock.advance(announce.FIRST_PAUSE)
        await delivered(w, child)
        assert tries(w, parent.key) == 1


@pytest.mark.parametrize("ending", ["crash", "raise"])
async def test_what_was_sent_to_an_agent_that_failed_then_is_not_repeated(
    tmp_path: Path, ending: str
) -> None:
    """Nobody knows whether it was heard: a person decides."""
    async with world(tmp_path) as w:
        parent = await a_parent(w)
        w.runtime.script.hears = ending
        child = await child_of(w, parent, "say found-it")
        entry = await state(w, child, "blocked")
        assert entry.payload["reason"] == "ambiguous"
        w.clock.advance(announce.PATIENCE)
        assert tries(w, parent) == 1
        w.runtime.script.hears = "end end_turn"
        await deliveries(w, action="retry", ids=(entry.id,))
        await delivered(w, child)
        assert tries(w, parent) == 2


async def test_a_blocked_delivery_is_given_up_after_a_week(tmp_path: Path) -> None:
    old = OutboxEntry("announce:r", "r", "x", {"at": "2025-12-20T00:00:00+00:00"}, "blocked")
    new = OutboxEntry("announce:s", "s", "x", {"at": "2026-01-01T00:00:00+00:00"}, "blocked")
    async with world(tmp_path) as w:
        await w.ledger.put_outbox(old)
        await w.ledger.put_outbox(new)
    async with world(tmp_path) as w:
        while (await w.ledger.outbox(("dismissed",))) == []:
            await anyio.lowlevel.checkpoint()
        assert [entry.id for entry in await w.ledger.outbox(("blocked",))] == ["announce:s"]


# ---- Over a restart ----


async def test_r11_what_was_not_sent_yet_is_told_by_the_next_daemon(tmp_path: Path) -> None:
    """Also where the turn that tells of it was queued already, and was cut off."""
    async with world(tmp_path) as w:
        parent = await w.run("wait", one_shot=False)
        await until(lambda: "prompt wait" in w.diary.lines)
        child = await child_of(w, parent.key, "say found-it")
        await until(lambda: len(w.session(parent.key).inbox) == 1)
    async with world(tmp_path) as w:
        await delivered(w, child)
        assert tries(w, parent.key) == 1
    async with world(tmp_path) as w:
        await w.router._completing.dues.all()
        assert tries(w, parent.key) == 0


async def test_r11_what_was_sent_when_the_daemon_ended_is_blocked(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        parent = await a_parent(w)
        child = await child_of(w, parent, "say found-it")
        await delivered(w, child)
        await _put_back(w, child, "sent")
    async with world(tmp_path) as w:
        entry = await state(w, child, "blocked")
        assert entry.payload["reason"] == "ambiguous"
        assert tries(w, parent) == 0


async def _put_back(w: World, receipt: RunReceipt, where: str) -> None:
    """Have a completion stand where a daemon left it that was killed."""
    statement = "UPDATE outbox SET state = ? WHERE run_id = ?"
    await w.ledger._update(statement, (where, receipt.run_id))


# ---- Many ----


async def test_r12_of_a_hundred_spawns_each_receipt_has_one_completion(tmp_path: Path) -> None:
    limits = Limits(max_children_per_session=20, max_processes=8)
    accepted: list[RunReceipt] = []
    refusals: list[str] = []
    async with world(tmp_path, limits=limits, patience=60) as w:
        parent = await a_parent(w)

        async def spawn() -> None:
            try:
                accepted.append(await child_of(w, parent, "say found-it"))
            except BridgeError as error:
                refusals.append(error.code)

        async with anyio.create_task_group() as tasks:
            for _ in range(100):
                tasks.start_soon(spawn)
        assert len(accepted) + len(refusals) == 100
        assert set(refusals) <= {"subagent_policy"}
        assert len(accepted) >= 20
        await delivered(w, *accepted)
        assert sorted(await told(w, parent)) == sorted(one.run_id for one in accepted)


async def test_what_a_run_said_is_on_disk_before_it_is_on_record_that_it_is_over(
    tmp_path: Path,
) -> None:
    """Else a crash between the two would leave a completion without its result."""
    full = False

    def faults(point: str) -> None:
        if full and point == "log.before_commit":
            raise OSError(errno.ENOSPC, "full")

    async with world(tmp_path, faults=faults) as w:
        parent = await a_parent(w)
        child = await child_of(w, parent, "wait")
        await until(lambda: "prompt wait" in w.diary.lines)
        await w.log.committed(child.key)
        turn = w.turn(child.key)
        full = True
        w.agent(child.key).say("found-it")
        w.agent(child.key).answer("end_turn")
        await until(lambda: turn.outcome is not None)
        for _ in range(50):
            record = await w.ledger.run(child.run_id)
            assert record is not None
            assert record.outcome is None
        full = False
        await delivered(w, child)
        assert "| found-it\n" in await report(w, parent)


async def test_it_is_tried_less_and_less_often_for_half_an_hour_and_then_blocked(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        parent = await w.run("wait")
        await until(lambda: "prompt wait" in w.diary.lines)
        child = await child_of(w, parent.key, "wait")
        await until(lambda: w.diary.lines.count("prompt wait") == 2)
        w.agent(parent.key).answer("end_turn")
        await w.rest(parent.key)
        w.runtime.script.starts = "fail"
        began = w.clock.seconds
        w.agent(child.key).answer("end_turn")
        dues = w.router._completing.dues._due
        under_way = w.router._completing.announcing._under_way
        await until(lambda: parent.key in under_way)
        while dues:
            await until(lambda: parent.key not in under_way)
            # No time goes by but between two attempts.
            while parent.key not in under_way and [due for due in dues.values() if due.resting]:
                w.clock.advance(announce.FIRST_PAUSE)
                for _ in range(10):
                    await anyio.lowlevel.checkpoint()
            await until(lambda: parent.key in under_way or not dues)
        assert w.clock.seconds - began >= announce.PATIENCE
        entry = await entry_of(w, child)
        assert entry.state == "blocked"
        assert entry.payload["reason"] in ("start_failed", "reopen_refused")
        assert 5 <= entry.attempts <= 15
        assert tries(w, parent.key) == 0


async def test_an_agent_of_the_house_is_told_in_the_form_of_an_event(tmp_path: Path) -> None:
    async with world(tmp_path, kind=RuntimeKind.PYTHON, entry="x:y") as w:
        parent = await a_parent(w)
        child = await child_of(w, parent, "say found-it")
        await state(w, child, "sent")
        event = "prompt [Internal task completion event]"
        await until(lambda: [line for line in w.diary.lines if line.startswith(event)])
        w.agent(parent).answer("end_turn")
        await delivered(w, child)


async def test_r9_who_asked_what_was_asked_and_what_it_took_are_on_record(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        parent = await a_parent(w)
        child = await child_of(w, parent, "say found-it")
        await delivered(w, child)
        run = await w.ledger.run(child.run_id)
        assert run is not None
        assert (run.task, run.usage) == ("say found-it", {"n": 1})
        assert (run.requested_by_key, run.deliver_to) == (str(parent), str(parent))
        assert not run.pulled
        (told_of,) = [r for r in await w.ledger.runs(parent) if r.requested_by == "system:announce"]
        assert (told_of.task, told_of.deliver_to) == (f"announce {child.key}", "")
