"""Conversations with agents of the bridge: each is one persistent session, a child of its caller's.

1-11: the same calls as for a role.
"""

from pathlib import Path
from typing import Any

import anyio

from acpbridge.agents.asking import sub_agent, unload_sub_agent
from acpbridge.agents.interactive import Conversations
from acpbridge.agents.preparing import Caller
from acpbridge.agents.roles import Role, Roles
from acpbridge.agents.sessions import Sessions
from acpbridge.agents.subagents import Household, SubAgents
from acpbridge.config.snapshot import Limits
from acpbridge.model.keys import SessionKey
from acpbridge.model.sessions import CloseReason, SessionState
from tests.unit.agents.house import Scripted, Tools, manager
from tests.unit.router.world import OPERATOR, World, agent_in, until, world

ROLES = Roles({"fake": Role("fake"), "nobody": Role("nobody")})


async def parent(w: World) -> SessionKey:
    """Return a session with a turn under way, in which the caller is."""
    receipt = await w.run("wait", one_shot=False)
    await w.diary.has("prompt wait")
    return receipt.key


def calling(w: World, key: SessionKey, talks: Conversations | None = None) -> SubAgents:
    sessions = Sessions(w.router, agent_in(key), w.cwd)
    house = Household(
        Scripted(), conversations=talks or Conversations(), elsewhere=lambda _: sessions
    )
    return SubAgents(Caller(str(key), Tools("SubAgent")), house)


async def say(agents: SubAgents, text: str, *, once: bool = False, role: str = "fake") -> str:
    params: dict[str, Any] = {"task": text, "role": role, "interactive": not once}
    return await sub_agent(manager(agents), ROLES, params)


def children(w: World, key: SessionKey) -> list[SessionKey]:
    return [child.key for child in w.router._directory.children(key)]


async def test_1_11_two_turns_are_said_in_one_session_whose_process_stays(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await parent(w)
        async with calling(w, top) as agents:
            assert await say(agents, "say one") == "one"
            [child] = children(w, top)
            await w.is_ready(child)
            assert await say(agents, "say two") == "two"
            assert children(w, top) == [child]
            assert w.session(child).record.opens == 1
            assert w.session(child).live
            assert w.session(child).record.lineage.parent == top


async def test_1_6_at_its_callers_end_the_session_is_closed_and_resumable(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await parent(w)
        spawned = await w.run("wait", by=agent_in(top), detached=True)
        async with calling(w, top) as agents:
            await say(agents, "say one")
            child = children(w, top)[-1]
        record = w.session(child).record
        assert (record.state, record.close_reason) == (SessionState.CLOSED, CloseReason.CLOSED)
        # The agent's own id, by which it takes the conversation up again.
        assert record.agent_session_id
        assert str(child) not in w.runtime.running
        # What was spawned is nothing of the conversations'.
        assert not w.session(spawned.key).closing
        assert w.session(top).turn is not None


async def test_1_5_unloading_closes_the_session_and_the_next_call_has_another(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        top = await parent(w)
        async with calling(w, top) as agents:
            await say(agents, "say one")
            told = await unload_sub_agent(manager(agents), {"role": "fake"})
            assert told == "The sub-agent 'fake' was ended."
            [first] = children(w, top)
            assert w.session(first).closed
            await say(agents, "say two")
            assert len(children(w, top)) == 2


async def test_1_5b_a_running_turn_is_cancelled_at_the_agent_before_it_is_closed(
    tmp_path: Path,
) -> None:
    told: list[str] = []
    async with world(tmp_path) as w:
        top = await parent(w)

        async def talk() -> None:
            told.append(await say(agents, "wait b"))

        with anyio.fail_after(20):
            async with calling(w, top) as agents, anyio.create_task_group() as tasks:
                tasks.start_soon(talk)
                await w.diary.has("prompt wait b")
                told.append(await unload_sub_agent(manager(agents), {"role": "fake"}))
        assert sorted(told) == [
            "Sub-agent error: The sub-agent's turn was stopped.",
            "The sub-agent 'fake' was ended.",
        ]
        assert "cancel" in w.diary.lines
        assert w.session(top).turn is not None
        [child] = children(w, top)
        assert w.session(child).closed


async def test_1_11_a_call_for_one_task_closes_its_session_after_it(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await parent(w)
        async with calling(w, top) as agents:
            assert await say(agents, "say once", once=True) == "once"
            [child] = children(w, top)
            assert w.session(child).closed


async def test_1_11_how_a_turn_ended_is_known_from_its_record_and_not_from_words(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        top = await parent(w)
        async with calling(w, top) as agents:
            assert "it went wrong" in await say(agents, "raise x")
            [child] = children(w, top)
            await w.is_ready(child)
            assert "Sub-agent error" in await say(agents, "end refusal")
            assert "Sub-agent error" in await say(agents, "crash")
            # And it goes on: the session is taken up again.
            assert await say(agents, "say more") == "more"
            assert children(w, top) == [child]


async def test_1_11_a_session_that_a_person_killed_is_not_followed_by_another_in_silence(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        top = await parent(w)
        async with calling(w, top) as agents:
            await say(agents, "say one")
            [child] = children(w, top)
            await w.router.kill([str(child)], 0.0, OPERATOR)
            assert "is closed" in await say(agents, "say two")
            assert children(w, top) == [child]


async def test_1_11_an_agent_that_there_is_not_and_one_too_many_are_told(tmp_path: Path) -> None:
    async with world(tmp_path, limits=Limits(max_children_per_session=1)) as w:
        top = await parent(w)
        talks = Conversations()
        async with calling(w, top, talks) as agents:
            assert "nobody" in await say(agents, "say x", role="nobody")
            await w.run("wait c", by=agent_in(top), detached=True)
            await until(lambda: "prompt wait c" in w.diary.lines)
            assert "limits.maxChildrenPerSession" in await say(agents, "say x")
            assert len(children(w, top)) == 1


async def test_1_11_a_call_that_is_cancelled_cancels_the_agents_turn_and_the_session_stays(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        top = await parent(w)
        async with calling(w, top) as agents:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(say, agents, "wait b")
                await w.diary.has("prompt wait b")
                tasks.cancel_scope.cancel()
            [child] = children(w, top)
            await w.is_ready(child)
            assert w.session(child).turn is None
            assert await say(agents, "say more") == "more"
            assert children(w, top) == [child]
