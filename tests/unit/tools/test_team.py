"""The tools of a team: who asks is known from the run, and nothing else decides how it is asked."""

from collections.abc import Mapping
from typing import Any

import pytest

from acpbridge.router.teams import Teams
from acpbridge.router.tooling import CALLS
from acpbridge.tools.team import TeamTool, team_tools
from tests.unit.router.test_inbox import Caller, Processor
from tests.unit.router.test_teams import AGENTS, teams
from tests.unit.router.world import refused

RUN: dict[str, Any] = {"agent_id": "main", "user_id": "u", "thread_id": "T"}


def tools_of(team: Teams, run: Mapping[str, Any] = RUN) -> dict[str, TeamTool]:
    return {tool.name: tool for tool in team_tools(team, lambda: run)}


async def test_4_12_a_team_gives_two_tools_and_nobody_has_them_otherwise() -> None:
    async with teams(Caller()) as team:
        assert sorted(tools_of(team)) == ["agent_list", "ask_agent"]
        for tool in tools_of(team).values():
            assert tool.description
            assert tool.schema["type"] == "object"
            assert tool.schema["additionalProperties"] is False


def test_4_12_they_are_no_tools_that_a_model_has_by_itself() -> None:
    assert {"agent_list", "ask_agent"}.isdisjoint(CALLS)
    assert "tool/ask" not in CALLS.values()


async def test_the_other_agents_are_listed() -> None:
    async with teams(Caller()) as team:
        listed = await tools_of(team)["agent_list"].call({})
        assert listed == [
            {"id": "coder", "description": AGENTS["coder"]},
            {"id": "researcher", "description": AGENTS["researcher"]},
        ]


@pytest.mark.parametrize(
    ("on", "mode", "queued"),
    [
        (False, None, False),
        (False, "sync", False),
        (False, "background", False),
        (False, "nonsense", False),
        (True, None, False),
        (True, "sync", False),
        (True, "background", True),
    ],
)
async def test_4_13_only_background_with_a_team_is_answered_later(
    on: bool, mode: str | None, queued: bool
) -> None:
    processor = Processor()
    async with teams(Caller(), processor if on else None) as team:
        arguments = {"agent_id": "researcher", "message": "look"}
        if mode is not None:
            arguments["mode"] = mode
        answer = await tools_of(team)["ask_agent"].call(arguments)
        if not queued:
            assert answer == {"agent_id": "researcher", "response": "researcher says so"}
            assert processor.events == []
            return
        assert answer["status"] == "queued"
        assert team.inbox is not None
        item = team.inbox.get(answer["job_id"])
        assert item is not None
        assert (item.source_agent_id, item.source_thread_id) == ("main", "T")
        await team.inbox.settled()
        assert [event.inbox_id for event in processor.events] == [answer["job_id"]]


@pytest.mark.parametrize("name", ["agent_id", "user_id", "thread_id"])
@pytest.mark.parametrize("value", [None, "", ["x"], True])
async def test_4_14_what_the_run_does_not_say_is_an_error_and_never_guessed(
    name: str, value: Any
) -> None:
    caller = Caller()
    wrong = {**RUN, name: value}
    async with teams(caller) as team:
        for run in (wrong, {k: v for k, v in wrong.items() if k != name}):
            ask = tools_of(team, run)["ask_agent"]
            error = await refused("invalid_params", ask.call({"agent_id": "coder", "message": "m"}))
            assert name in error.message
            await refused("invalid_params", tools_of(team, run)["agent_list"].call({}))
    assert caller.calls == []


@pytest.mark.parametrize(
    "more", [{"chain": "main"}, {"chain": [1]}, {"original_user_prompt": ["x"]}]
)
async def test_4_14_what_a_run_says_wrongly_is_an_error(more: dict[str, Any]) -> None:
    async with teams(Caller()) as team:
        ask = tools_of(team, {**RUN, **more})["ask_agent"]
        await refused("invalid_params", ask.call({"agent_id": "coder", "message": "m"}))


async def test_4_14_who_asks_is_no_argument() -> None:
    async with teams(Caller()) as team:
        ask = tools_of(team)["ask_agent"]
        for forged in ("from_agent_id", "thread_id", "user_id", "chain"):
            arguments = {"agent_id": "coder", "message": "m", forged: "x"}
            error = await refused("invalid_params", ask.call(arguments))
            assert forged in error.message


@pytest.mark.parametrize(
    "arguments",
    [
        {"message": "m"},
        {"agent_id": "coder"},
        {"agent_id": "coder", "message": "  "},
        {"agent_id": 7, "message": "m"},
        {"agent_id": "coder", "message": "m", "mode": "later"},
    ],
)
async def test_a_call_that_is_wrong_names_what_is(arguments: dict[str, Any]) -> None:
    async with teams(Caller(), Processor()) as team:
        await refused("invalid_params", tools_of(team)["ask_agent"].call(arguments))
        assert team.inbox is not None
        assert team.inbox.list() == []


async def test_4_24_the_chain_of_a_run_is_what_a_cycle_is_found_by() -> None:
    async with teams(Caller()) as team:
        run = {**RUN, "agent_id": "coder", "chain": ["main", "coder"]}
        ask = tools_of(team, run)["ask_agent"]
        error = await refused("subagent_policy", ask.call({"agent_id": "main", "message": "m"}))
        assert "main -> coder -> main" in error.message


async def test_4_13_the_question_of_the_user_goes_with_the_work() -> None:
    caller = Caller()
    async with teams(caller, Processor()) as team:
        run = {**RUN, "original_user_prompt": "how high?"}
        call = {"agent_id": "coder", "message": "m", "mode": "background"}
        await tools_of(team, run)["ask_agent"].call(call)
        assert team.inbox is not None
        await team.inbox.settled()
        assert "how high?" in caller.calls[1][1].message
