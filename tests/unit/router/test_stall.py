"""A turn from which nothing comes fails once that was allowed for long enough, and never before."""

from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest

from acpbridge.model.sessions import Outcome, SessionState
from acpbridge.router.silence import SILENCE
from acpbridge.router.stall import OVERSLEPT
from tests.unit.router.world import OPERATOR, World, until, world

LIMIT = 50.0  # no multiple of the silence that is only told of

MORE: dict[str, Any] = {"stall": lambda: LIMIT}


async def looked(w: World, times: int) -> None:
    """Wait until the watches have begun to wait so many times: they have drawn conclusions."""
    await until(lambda: w.clock.sleeps >= times)


async def pass_time(w: World, seconds: float) -> None:
    """Let time pass as it does: never more at once than a sleeper may be late."""
    while seconds > 0:
        step = min(seconds, OVERSLEPT)
        w.clock.advance(step)
        seconds -= step
        for _ in range(20):
            await anyio.lowlevel.checkpoint()


async def test_a_turn_without_an_update_fails_with_turn_stalled(tmp_path: Path) -> None:
    async with world(tmp_path, more=MORE) as w:
        receipt = await w.run("hang", one_shot=False)
        await looked(w, 2)
        await pass_time(w, LIMIT - 0.5)
        assert not w.turn(receipt.key).cancelling
        await pass_time(w, 0.5)
        result = await w.wait(receipt)
        assert (result.outcome, result.stop_reason) == (Outcome.FAILED, None)
        assert result.error is not None
        assert result.error["code"] == "turn_stalled"
        assert "for 50 s; limits.stallSeconds is 50" in str(result.error["message"])
        # It honoured the cancel: its process stays.
        assert [line for line in w.diary.lines if line in ("cancel", "close")] == ["cancel"]
        await w.is_ready(receipt.key)
        assert w.session(receipt.key).record.state is SessionState.READY
        last = (await w.events(receipt.key))[-1]
        assert (last["type"], last["error"]["code"]) == ("turn_failed", "turn_stalled")
        assert (await w.done("say on", key=receipt.key))[1].outcome is Outcome.COMPLETED
        assert w.diary.lines.count("start") == 1


async def test_one_that_minds_no_cancel_goes_down_the_ladder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acpbridge.router.stall.STALL_GRACE", 0.05)
    async with world(tmp_path, more=MORE) as w:
        receipt = await w.run("stone", one_shot=False)
        await looked(w, 2)
        await pass_time(w, LIMIT)
        result = await w.wait(receipt)
        assert result.error is not None
        assert result.error["code"] == "turn_stalled"
        assert [line for line in w.diary.lines if line in ("cancel", "close", "stop 0")] == [
            "cancel",
            "close",
            "stop 0",
        ]
        assert await w.rest(receipt.key) is SessionState.IDLE


async def test_each_update_starts_the_time_anew(tmp_path: Path) -> None:
    async with world(tmp_path, more=MORE) as w:
        receipt = await w.run("hang")
        await looked(w, 2)
        for _ in range(4):
            await pass_time(w, LIMIT - 1)
            w.agent(receipt.key).say("still at it")
        await pass_time(w, LIMIT - 0.5)
        assert not w.turn(receipt.key).cancelling
        await pass_time(w, 0.5)
        assert (await w.wait(receipt)).outcome is Outcome.FAILED


async def test_case_123_a_tool_that_runs_is_waited_for_and_then_the_time_begins(
    tmp_path: Path,
) -> None:
    """Without `tool_running` in `stall._stalled`: `assert not turn.cancelling` fails."""
    async with world(tmp_path, more=MORE) as w:
        receipt = await w.run("hang")
        await looked(w, 2)
        w.agent(receipt.key).tool_running = True
        await pass_time(w, 3 * LIMIT + 7)
        turn = w.turn(receipt.key)
        assert not turn.cancelling
        (row,) = (await w.router.status("", OPERATOR))["sessions"]
        assert row["turn"]["waitsFor"] == "tool"
        w.agent(receipt.key).tool_running = False
        w.agent(receipt.key).say("built")
        await pass_time(w, LIMIT - 0.5)
        assert not turn.cancelling
        await pass_time(w, 0.5)
        assert (await w.wait(receipt)).outcome is Outcome.FAILED


async def test_case_123_a_question_that_is_open_is_waited_for(tmp_path: Path) -> None:
    """Without `open_questions` in `stall._stalled`: `assert not turn.cancelling` fails."""
    async with world(tmp_path, more=MORE) as w:
        receipt = await w.run("ask 1")
        (question,) = await w.questions(1)
        await looked(w, 2)
        await pass_time(w, 3 * LIMIT + 7)
        assert not w.turn(receipt.key).cancelling
        (row,) = (await w.router.status("", OPERATOR))["sessions"]
        assert row["turn"]["waitsFor"] == "permission"
        await w.router.answer(question.request.id, OPERATOR, option_id="yes", effect=None, note="")
        assert (await w.wait(receipt)).outcome is Outcome.COMPLETED


async def test_what_our_own_log_holds_up_is_no_silence_of_the_agents(tmp_path: Path) -> None:
    async with world(tmp_path, more=MORE) as w:
        receipt = await w.run("hang")
        await looked(w, 2)
        host = w.session(receipt.key)._host
        host._held_up = 1
        await pass_time(w, 2 * LIMIT)
        assert not w.turn(receipt.key).cancelling
        host._held_up = 0
        await pass_time(w, LIMIT)
        assert (await w.wait(receipt)).outcome is Outcome.FAILED


async def test_a_daemon_that_was_stopped_listens_for_the_whole_time_again(tmp_path: Path) -> None:
    """What the agent said meanwhile lies unread. Without OVERSLEPT the turn is ended at once."""
    async with world(tmp_path, more=MORE, patience=9) as w:
        receipt = await w.run("hang")
        await looked(w, 2)
        w.clock.advance(100 * LIMIT)
        await looked(w, 4)
        turn = w.turn(receipt.key)
        assert not turn.cancelling
        await pass_time(w, LIMIT - 0.5)
        assert not turn.cancelling
        await pass_time(w, 0.5)
        assert (await w.wait(receipt)).outcome is Outcome.FAILED


async def test_g27_a_jump_of_the_wall_clock_stalls_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path, more=MORE) as w:
        receipt = await w.run("hang")
        await looked(w, 2)
        now = w.clock.wall()
        for days in (1, -1):
            monkeypatch.setattr(w.clock, "wall", lambda d=days: now + timedelta(days=d))
            await pass_time(w, LIMIT / 2 - 1)
        assert not w.turn(receipt.key).cancelling
        await pass_time(w, 2)
        assert (await w.wait(receipt)).outcome is Outcome.FAILED


async def test_case_114_without_the_limit_a_silence_is_told_of_and_ends_nothing(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("hang")
        await looked(w, 1)
        for look in range(2, 30):
            w.clock.advance(SILENCE)
            await looked(w, look)
        assert not w.turn(receipt.key).cancelling
        kinds = [e.get("kind") for e in await w.events(receipt.key) if e["type"] == "notice"]
        assert kinds == ["silent"]
        await w.router.cancel(str(receipt.key), 0, OPERATOR)


async def test_a_turn_that_a_person_cancels_is_cancelled(tmp_path: Path) -> None:
    async with world(tmp_path, more=MORE) as w:
        receipt = await w.run("late", one_shot=False)
        await looked(w, 2)
        await pass_time(w, LIMIT - 1)
        await w.router.cancel(str(receipt.key), 5, OPERATOR)
        await pass_time(w, 2 * LIMIT)
        assert (await w.wait(receipt)).outcome is Outcome.CANCELLED


@pytest.mark.parametrize(("limit", "watches"), [(LIMIT, 2), (0.0, 1)])
async def test_time_that_passes_between_two_looks_at_the_clock_breaks_no_turn(
    limit: float, watches: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a negative sleep, here or in `silence`: it fails as `internal`, by a ValueError."""
    async with world(tmp_path, more={"stall": lambda: limit}, patience=9) as w:
        receipt = await w.run("hang", one_shot=False)
        await looked(w, watches)
        await pass_time(w, 0.125)
        w.agent(receipt.key).say("here I am")
        await pass_time(w, (limit or SILENCE) - 0.25)
        # What comes is not quite due at the first look, and overdue at the next one.
        moved = count()
        monkeypatch.setattr(w.clock, "monotonic", lambda: w.clock.seconds + 0.25 * next(moved))
        sleeps = w.clock.sleeps
        w.clock.advance(0.125)
        if limit:
            result = await w.wait(receipt)
            assert (result.error or {})["code"] == "turn_stalled"
        else:
            await looked(w, sleeps + 2)
            w.agent(receipt.key).answer("end_turn")
            assert (await w.wait(receipt)).outcome is Outcome.COMPLETED
