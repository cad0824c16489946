"""`cleanup: delete`: a child is archived once its end was announced, and its words are kept."""

from pathlib import Path

import pytest

from acpbridge.model.keys import SessionKey
from acpbridge.model.sessions import CloseReason, SessionState
from tests.unit.router.spawning import agency, child_of, parent, spawn
from tests.unit.router.world import OPERATOR, World, agent_in, refused, until


async def archived(w: World, key: SessionKey) -> None:
    await until(lambda: w.session(key).closed)
    assert w.session(key).record.close_reason is CloseReason.CLEANUP


@pytest.mark.parametrize("task", ["say x", "crash", "raise"])
async def test_3_3_1_16_one_is_archived_once_its_end_was_told_and_its_log_is_kept(
    tmp_path: Path, task: str
) -> None:
    """Without the look at `unfinished` it is closed while its parent has not heard of it."""
    async with agency(tmp_path) as w:
        top = await parent(w)
        key = child_of(await spawn(w, task, agent_in(top), cleanup="delete"))
        kept = child_of(await spawn(w, "say y", agent_in(top)))
        await until(lambda: w.session(key).turn is None and w.session(key).record.opens)
        quiet = {"cleanup": "delete", "expectsCompletionMessage": False}
        await archived(w, child_of(await spawn(w, "say z", agent_in(top), **quiet)))
        assert not w.session(key).closed  # the parent is in a turn: it is told after that
        w.agent(top).answer("end_turn")
        await archived(w, key)
        assert not w.session(kept).closed
        assert "turn_started" in await w.types(key)
        await refused("session_closed", w.run("say z", key=key))


async def test_one_that_nobody_is_told_of_is_archived_when_it_is_over(tmp_path: Path) -> None:
    async with agency(tmp_path) as w:
        top = agent_in(await parent(w))
        quiet = {"cleanup": "delete", "expectsCompletionMessage": False}
        await archived(w, child_of(await spawn(w, "say x", top, **quiet)))
        await archived(w, child_of(await spawn(w, "say x", cleanup="delete")))


async def test_one_with_a_child_that_works_is_archived_after_it(tmp_path: Path) -> None:
    async with agency(tmp_path) as w:
        key = child_of(await spawn(w, "wait", cleanup="delete"))
        await until(lambda: str(key) in w.runtime.running and w.agent(key).word == "wait")
        below = child_of(await spawn(w, "wait", agent_in(key)))
        await until(lambda: str(below) in w.runtime.running and w.agent(below).word == "wait")
        w.agent(key).answer("end_turn")
        await w.rest(key)
        assert not w.session(key).closed
        w.agent(below).answer("end_turn")
        await archived(w, key)


async def test_what_a_daemon_did_not_archive_any_more_the_next_one_does(tmp_path: Path) -> None:
    async with agency(tmp_path) as w:
        key = child_of(await spawn(w, "wait", cleanup="delete"))
        await until(lambda: str(key) in w.runtime.running)
        await w.router.stop()
        assert w.session(key).record.state is not SessionState.CLOSED
    async with agency(tmp_path) as w:
        await archived(w, key)
        assert not await w.router.sessions(OPERATOR, everything=False)
