"""Contract 2.7: which session tools somebody has; what is not given is refused when called."""

from pathlib import Path
from typing import get_args

import pytest

from acpbridge.config.snapshot import Config, Limits
from acpbridge.config.tools import SubagentTools, ToolLists, ToolName, Tools
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.keys import AgentId
from acpbridge.router.claiming import Claim
from acpbridge.router.spawn_requests import SpawnRequest
from acpbridge.router.team_requests import AskMode, AskRequest
from acpbridge.router.toolcall import AgentsRequest
from acpbridge.router.tooling import CALLS, OF_OPERATORS, Standing, ToolsRequest
from acpbridge.router.toolset import REQUESTS
from tests.unit.router.test_router import family
from tests.unit.router.world import FAKE, OPERATOR, agent_in, refused, world

FIVE = {"subagents", "sessions_list", "sessions_history", "sessions_spawn", "agents_list"}
MAIN = {*CALLS}

# Depth, limit -> the tools.
GIVEN = (
    (0, 3, MAIN),
    (0, 1, MAIN),
    (1, 3, MAIN - {"sessions_send", "session_status"}),
    (2, 3, MAIN - {"sessions_send", "session_status"}),
    (3, 3, MAIN - {"sessions_send", "session_status"} - FIVE),
    (1, 1, MAIN - {"sessions_send", "session_status"} - FIVE),
    (4, 2, MAIN - {"sessions_send", "session_status"} - FIVE),
)


@pytest.mark.parametrize(("depth", "most", "given"), GIVEN)
def test_2_7_what_is_given_goes_by_depth(depth: int, most: int, given: set[str]) -> None:
    standing = Standing(depth, most)
    assert {name for name in CALLS if standing.lacks(name) is None} == given
    # 3-1.3: whoever may spawn may see whom.
    assert ("agents_list" in given) is ("sessions_spawn" in given)


async def test_2_7_a_leaf_is_told_of_no_tool_that_it_lacks_and_refused_each(tmp_path: Path) -> None:
    async with world(tmp_path, limits=Limits(max_depth=1)) as w:
        top, leaf = await family(w, 1)
        told = await w.router.tool(ToolsRequest(), agent_in(top))
        assert {"sessions_spawn", "agents_list", "sessions_send"} <= set(told["tools"])
        told = await w.router.tool(ToolsRequest(), agent_in(leaf))
        assert (told["depth"], told["maxDepth"], told["sessionKey"]) == (1, 1, str(leaf))
        assert not {*FIVE, "sessions_send", "session_status"} & set(told["tools"])
        for name in FIVE:
            request = REQUESTS.get(CALLS[name])
            if request is not None:
                error = await refused(
                    "subagent_policy", w.router.tool(request.model_construct(), agent_in(leaf))
                )
                assert "(current depth: 1, max: 1; limits.maxDepth)" in error.message
        sent = REQUESTS["tool/send"].read({"message": "x"})
        error = await refused("permission_denied", w.router.tool(sent, agent_in(leaf)))
        assert "subagents" in error.hint


@pytest.mark.parametrize(
    ("lists", "gone"),
    [
        (
            ToolLists(deny=("sessions_spawn", "sessions_yield")),
            {"sessions_spawn", "sessions_yield"},
        ),
        (ToolLists(allow=("agents_list",), deny=("agents_list",)), {*CALLS}),
        (ToolLists(allow=("sessions_send", "subagents")), {*CALLS} - {"subagents"}),
    ],
)
def test_2_7_what_a_person_denies_sub_agents_is_gone_and_allow_only_narrows(
    lists: ToolLists, gone: set[str]
) -> None:
    never = {"sessions_send", "session_status"}
    below = Standing(1, 3, lists)
    assert {name for name in CALLS if below.lacks(name) is not None} == gone | never
    assert {name for name in CALLS if Standing(0, 3, lists).lacks(name) is not None} == set()


async def test_2_7_who_has_no_spawn_starts_nothing_by_a_command_either(tmp_path: Path) -> None:
    """Without `check_run`: it is accepted."""
    lists = ToolLists(deny=("sessions_spawn",))
    fake = AgentDefinition(id=FAKE, command=("fake",))
    tools = Tools(subagents=SubagentTools(tools=lists))
    async with world(tmp_path, config=Config(agents={FAKE: fake}, tools=tools)) as w:
        top, child = await family(w, 1)
        spawn = SpawnRequest(task="say hi", agent_id="fake", runtime="acp", cwd=w.cwd)
        error = await refused("permission_denied", w.router.tool(spawn, agent_in(child)))
        assert "tools.subagents.tools" in error.message
        await refused("permission_denied", w.run("say hi", by=agent_in(child)))
        await w.run("say hi", by=agent_in(top))


@pytest.mark.parametrize("mode", list(AskMode))
async def test_2_7_who_has_no_spawn_asks_no_other_agent_to_work_either(
    mode: AskMode, tmp_path: Path
) -> None:
    """An agent that is asked gets a session and a process, as one that is spawned does."""
    names = (FAKE, AgentId("helper"))
    agents = {name: AgentDefinition(id=name, command=(name,)) for name in names}
    tools = Tools(subagents=SubagentTools(tools=ToolLists(deny=("sessions_spawn",))))
    async with world(tmp_path, config=Config(agents=agents, tools=tools)) as w:
        top, child = await family(w, 1)
        request = AskRequest(agent_id="helper", message="say hi", mode=mode)
        error = await refused("permission_denied", w.router.tool(request, agent_in(child)))
        assert "tools.subagents.tools" in error.message
        assert len(w.made()) == 2
        assert await w.router.tool(request, agent_in(top))


def test_every_tool_can_be_named_in_the_lists_and_nothing_else() -> None:
    assert set(get_args(ToolName)) == set(CALLS)


async def test_the_present_limit_decides_and_people_have_no_depth(tmp_path: Path) -> None:
    async with world(tmp_path, limits=Limits(max_depth=1)) as w:
        listed = await w.router.tool(AgentsRequest(), OPERATOR)
        assert listed["agents"]


async def test_an_external_client_is_a_main_agent(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        who = await w.router.claimed(OPERATOR, Claim(key="agent:main:main", cwd=w.cwd))
        told = await w.router.tool(ToolsRequest(), who)
        assert (told["external"], told["depth"], told["sessionKey"]) == (
            True,
            0,
            "agent:main:main",
        )
        assert told["acp"] is True
        spawn = SpawnRequest(task="say hi", agent_id="fake", runtime="acp", cwd=w.cwd)
        assert (await w.router.tool(spawn, who))["status"] == "accepted"


def test_every_call_of_people_is_refused_to_agents() -> None:
    """A tool is a model's, or is named as people's; nothing falls between."""
    methods = {request.METHOD for request in REQUESTS.values()}
    known = {*CALLS.values(), *OF_OPERATORS, *NO_TOOLS}
    assert methods <= known, methods - known


# Served to whoever asks, within what they may see; no model is told of them.
NO_TOOLS = {"tool/tools", "tool/tree", "tool/runs", "tool/ask", "tool/completions"}
NO_TOOLS |= {"tool/inner", "tool/inner/wait"}
