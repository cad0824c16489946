"""What status says of a turn from which nothing comes."""

from pathlib import Path
from typing import Any

import pytest

from acpbridge.router.view import SILENCE
from tests.unit.router.world import OPERATOR, World, until, world


async def silent_ones(w: World) -> list[Any]:
    warnings = (await w.router.status("", OPERATOR))["warnings"]
    return [warning for warning in warnings if "no update for" in warning]


async def test_case_114_an_agent_that_is_alive_and_says_nothing_gets_a_warning(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("wait")
        await w.diary.has("prompt wait")
        w.clock.seconds += SILENCE - 1
        assert await silent_ones(w) == []
        w.clock.seconds += 1
        (warning,) = await silent_ones(w)
        assert str(receipt.key) in warning
        assert f"no update for {SILENCE:g} s while it waits for the model" in warning
        assert f"acpbridge cancel {receipt.key}" in warning
        (row,) = (await w.router.status("", OPERATOR))["sessions"]
        turn = row["turn"]
        assert (turn["state"], turn["waitsFor"]) == ("running", "model")
        assert turn["lastUpdateAt"] is not None
        w.agent(receipt.key).say("here I am")
        await until(lambda: w.turn(receipt.key).last_update == w.clock.seconds)
        assert await silent_ones(w) == []


@pytest.mark.parametrize("waits_for", ["tool", "permission"])
async def test_case_123_a_long_tool_call_or_an_open_question_is_no_silence(
    tmp_path: Path, waits_for: str
) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("ask 1" if waits_for == "permission" else "wait")
        await w.diary.has("prompt ask 1" if waits_for == "permission" else "prompt wait")
        if waits_for == "permission":
            await w.questions(1)
        else:
            w.agent(receipt.key).tool_running = True
        w.clock.seconds += 3 * SILENCE
        assert await silent_ones(w) == []
        (row,) = (await w.router.status("", OPERATOR))["sessions"]
        assert row["turn"]["waitsFor"] == waits_for
        assert row["turn"]["lastUpdateAt"] is not None


async def test_a_turn_that_waits_behind_others_is_not_silent(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        first = await w.run("wait")
        await w.diary.has("prompt wait")
        await w.run("wait", key=first.key, agent="")
        w.clock.seconds += SILENCE
        assert len(await silent_ones(w)) == 1


async def test_g7_one_that_came_to_rest_during_the_look_is_shown_without_a_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the second look in `Looking.status`: a closed session with two processes."""
    async with world(tmp_path) as w:
        key = (await w.run("wait")).key
        await w.diary.has("prompt wait")
        trees = w.runtime.trees

        async def slow(names: list[str]) -> Any:
            found = await trees(names)
            if w.session(key).live:
                assert len(found[str(key)]) == 2
                await w.router.kill([str(key)], 0, OPERATOR)
            return found

        monkeypatch.setattr(w.runtime, "trees", slow)
        (row,) = (await w.router.status(str(key), OPERATOR))["sessions"]
        assert (row["state"], row["processes"]) == ("closed", [])
