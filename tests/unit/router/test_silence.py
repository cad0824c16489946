"""A silent turn is told of once, with what to check, and never where silence is no wonder."""

from pathlib import Path
from typing import Any

from acpbridge.model.agents import AgentFacts
from acpbridge.model.keys import SessionKey
from acpbridge.router.silence import SILENCE
from tests.unit.router.world import OPERATOR, World, until, world

HINT = "Check the key."


async def silent(w: World, key: SessionKey) -> list[dict[str, Any]]:
    """Return the notices of silence that were given."""
    return [e for e in await w.events(key) if e["type"] == "notice" and e["kind"] == "silent"]


async def looked(w: World, times: int) -> None:
    """Wait until the watch has begun to wait so many times: it has drawn its conclusions."""
    await until(lambda: w.clock.sleeps >= times)


async def test_a_turn_that_says_nothing_is_told_of_once_until_it_speaks(tmp_path: Path) -> None:
    async with world(tmp_path, facts=AgentFacts(silence_hint=HINT)) as w:
        key = (await w.run("hang")).key
        await looked(w, 1)
        w.clock.advance(SILENCE - 0.5)
        assert await silent(w, key) == []
        w.clock.advance(0.5)
        await looked(w, 2)
        (notice,) = await silent(w, key)
        assert notice["seconds"] == SILENCE
        assert "20 s" in notice["message"]
        assert HINT in notice["message"]
        assert notice["turn"] is not None
        for look in (3, 4):
            w.clock.advance(SILENCE)
            await looked(w, look)
        assert len(await silent(w, key)) == 1
        w.agent(key).say("here I am")
        w.clock.advance(SILENCE)
        await looked(w, 5)
        assert [n["seconds"] for n in await silent(w, key)] == [20, 20]
        await w.router.cancel(str(key), 0, OPERATOR)


async def test_each_update_starts_the_silence_anew(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        key = (await w.run("hang")).key
        await looked(w, 1)
        for look in range(2, 6):
            w.clock.advance(SILENCE - 1)
            w.agent(key).say("still at it")
            w.clock.advance(1)
            await looked(w, look)
        assert await silent(w, key) == []
        w.clock.advance(SILENCE - 1)
        await looked(w, 6)
        (notice,) = await silent(w, key)
        assert "may be thinking" in notice["message"]
        await w.router.cancel(str(key), 0, OPERATOR)


async def test_a_silence_while_a_tool_runs_is_no_wonder(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        key = (await w.run("hang")).key
        await looked(w, 1)
        w.agent(key).tool_running = True
        w.clock.advance(SILENCE)
        await looked(w, 2)
        assert await silent(w, key) == []
        w.agent(key).tool_running = False
        w.clock.advance(SILENCE)
        await looked(w, 3)
        assert len(await silent(w, key)) == 1
        await w.router.cancel(str(key), 0, OPERATOR)


async def test_a_silence_while_a_person_is_asked_is_no_wonder(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        key = (await w.run("ask 1")).key
        await w.questions(1)
        await looked(w, 1)
        for look in (2, 3):
            w.clock.advance(SILENCE)
            await looked(w, look)
        assert await silent(w, key) == []
        await w.router.cancel(str(key), 0, OPERATOR)


async def test_the_next_turn_is_watched_from_its_own_start(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say hello", one_shot=False)
        w.clock.advance(10 * SILENCE)
        before = w.clock.sleeps
        await w.run("hang", key=receipt.key)
        await looked(w, before + 1)
        w.clock.advance(SILENCE)
        await looked(w, before + 2)
        (notice,) = await silent(w, receipt.key)
        assert notice["seconds"] == SILENCE
        await w.router.cancel(str(receipt.key), 0, OPERATOR)
