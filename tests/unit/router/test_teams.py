"""Agents of a program that call one another: at once, side by side, or through an inbox."""

from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from acpbridge.errors import BridgeError
from acpbridge.model.inbox import ChatRequest, InboxStatus, PeerResult
from acpbridge.router.teams import Teams
from tests.unit.router.test_inbox import Caller, Processor
from tests.unit.router.world import PATIENCE, refused, until

AGENTS = {"main": "talks", "researcher": "looks things up", "coder": "writes code"}
SUBMIT: dict[str, Any] = {
    "from_agent_id": "main",
    "to_agent_id": "researcher",
    "message": "look it up",
    "user_id": "u",
    "source_thread_id": "T",
}
CALL: dict[str, Any] = {
    "from_agent_id": "main",
    "to_agent_id": "researcher",
    "message": "look it up",
    "user_id": "u",
}


def teams(caller: Any, processor: Processor | None = None) -> Teams:
    return Teams(caller, lambda: AGENTS, processor)


async def test_4_11_a_peer_is_called_and_its_answer_returned() -> None:
    caller = Caller()
    async with teams(caller) as team:
        result = await team.call_peer(**CALL)
    assert isinstance(result, PeerResult)
    assert (result.agent_id, result.response) == ("researcher", "researcher says so")
    ((agent, request),) = caller.calls
    assert (agent, request.thread, request.message) == ("researcher", None, "look it up")
    assert request.chain == ("main", "researcher")


async def test_4_11_a_peer_that_fails_or_is_not_there_is_an_error() -> None:
    caller = Caller({"researcher": BridgeError("agent_died", "It is gone.")})
    async with teams(caller) as team:
        await refused("agent_died", team.call_peer(**CALL))
        error = await refused("no_such_agent", team.call_peer(**{**CALL, "to_agent_id": "ghost"}))
        assert "coder, main, researcher" in error.message
        assert len(caller.calls) == 1


@pytest.mark.parametrize("on", [False, True])
async def test_4_1_a_call_is_direct_whether_there_is_an_inbox_or_not(on: bool) -> None:
    caller = Caller()
    caller.hold("coder")
    async with teams(caller, Processor() if on else None) as team:
        if on:
            team.submit_peer(**{**SUBMIT, "to_agent_id": "coder"})
            await until(lambda: caller.active == ["coder"])
        # Nothing that waits in the inbox, or is worked on, is in the way of a call.
        with anyio.fail_after(PATIENCE):
            answer = await team.call("researcher", ChatRequest("hello", "T"))
            await team.call_peer(**CALL)
        assert answer["messages"][0]["content"] == "researcher says so"
        direct = [one for one in caller.calls if one[0] == "researcher"]
        assert [(a, r.thread, r.message) for a, r in direct] == [
            ("researcher", "T", "hello"),
            ("researcher", None, "look it up"),
        ]


async def test_4_10_without_a_processor_there_is_no_inbox_and_nothing_to_submit_to() -> None:
    caller = Caller()
    async with teams(caller) as team:
        assert (team.team_enabled, team.inbox) == (False, None)
        with pytest.raises(BridgeError) as caught:
            team.submit_peer(**SUBMIT)
        assert caught.value.code == "team_disabled"
        processor = Processor()
        team.set_team_processor(processor)
        assert team.team_enabled
        inbox_id = team.submit_peer(**SUBMIT)
        assert team.inbox is not None
        await team.inbox.settled()
        assert [event.inbox_id for event in processor.events] == [inbox_id]
    assert not team.team_enabled


async def test_4_10_another_processor_hears_of_what_ends_from_now_on() -> None:
    first, second = Processor(), Processor()
    async with teams(Caller(), first) as team:
        assert team.inbox is not None
        team.submit_peer(**SUBMIT)
        await team.inbox.settled()
        team.set_team_processor(second)
        team.submit_peer(**SUBMIT)
        await team.inbox.settled()
    assert (len(first.events), len(second.events)) == (1, 1)


async def test_4_11_work_for_nobody_is_refused_and_leaves_nothing() -> None:
    async with teams(Caller(), Processor()) as team:
        with pytest.raises(BridgeError) as caught:
            team.submit_peer(**{**SUBMIT, "to_agent_id": "ghost"})
        assert caught.value.code == "no_such_agent"
        assert team.inbox is not None
        assert team.inbox.list() == []


async def test_leaving_a_team_ends_what_its_inbox_holds_and_tells_of_it() -> None:
    caller, processor = Caller(), Processor()
    caller.hold("researcher")
    with anyio.fail_after(PATIENCE):
        async with teams(caller, processor) as team:
            team.submit_peer(**SUBMIT)
            team.submit_peer(**SUBMIT)
            await until(lambda: caller.active)
    assert [event.status for event in processor.events] == [InboxStatus.CANCELLED] * 2
    assert caller.cancelled == ["researcher"]


class Meeting:
    """Agents that answer once all are there."""

    def __init__(self, number: int) -> None:
        self.missing = number
        self.all_there = anyio.Event()

    async def call(self, agent_id: str, request: ChatRequest) -> Mapping[str, Any]:
        self.missing -= 1
        if self.missing == 0:
            self.all_there.set()
        await self.all_there.wait()
        return {"response": f"{agent_id}: {request.message}"}


async def test_4_11_who_is_mentioned_is_asked_side_by_side() -> None:
    messages = [
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "what do you think?"},
    ]
    async with teams(Meeting(2)) as team:
        with anyio.fail_after(PATIENCE):
            told = await team.apply_mentions(
                from_agent_id="main",
                user_id="u",
                mention_agent_ids=["researcher", "coder", "researcher"],
                prompt="what?",
                messages=messages,
            )
    assert [told[0], told[-1]] == messages
    added = told[1:-1]
    assert [message["role"] for message in added] == ["system", "system"]
    assert "researcher: what?" in added[0]["content"]
    assert "coder: what?" in added[1]["content"]
    assert len(messages) == 2


async def test_4_11_a_mention_that_fails_costs_the_others_nothing() -> None:
    caller = Caller({"researcher": BridgeError("agent_died", "It is gone.")})
    async with teams(caller) as team:
        told = await team.apply_mentions(
            from_agent_id="main",
            user_id="u",
            mention_agent_ids=["researcher", "ghost", "coder", "main"],
            prompt="what?",
            messages=[],
        )
    contents = [message["content"] for message in told]
    assert "It is gone." in contents[0]
    assert "no agent 'ghost'" in contents[1]
    assert "coder says so" in contents[2]
    assert "circular" in contents[3]


async def test_4_23_the_ids_are_given_and_no_text_is_parsed_for_more() -> None:
    caller = Caller()
    messages = [{"role": "user", "content": "@coder hello"}]
    async with teams(caller) as team:
        told = await team.apply_mentions(
            from_agent_id="main",
            user_id="u",
            mention_agent_ids=[],
            prompt="@coder hello",
            messages=messages,
        )
    assert (told, caller.calls) == (messages, [])


async def test_4_24_a_cycle_of_agents_that_wait_is_refused_at_once_with_its_chain() -> None:
    class Asking:
        """Its `researcher` asks `coder`, and that one asks `main`."""

        def __init__(self) -> None:
            self.refusals: list[BridgeError] = []
            self.called: list[str] = []

        async def call(self, agent_id: str, request: ChatRequest) -> Mapping[str, Any]:
            self.called.append(agent_id)
            asks = {"researcher": "coder", "coder": "main"}[agent_id]
            try:
                await team.call_peer(
                    from_agent_id=agent_id,
                    to_agent_id=asks,
                    message="and you?",
                    user_id="u",
                    chain=request.chain,
                )
            except BridgeError as error:
                self.refusals.append(error)
            return {"response": "fine"}

    caller = Asking()
    async with teams(caller) as team:
        with anyio.fail_after(PATIENCE):
            await team.call_peer(**CALL)
            assert caller.called == ["researcher", "coder"]
            (error,) = caller.refusals
            assert error.code == "subagent_policy"
            assert "main -> researcher -> coder -> main" in error.message
            await refused("subagent_policy", team.call_peer(**{**CALL, "to_agent_id": "main"}))
