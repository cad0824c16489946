"""`agents_list`: which agents are there for whom, and which setting keeps one from the others."""

from pathlib import Path
from typing import Any

import pytest

from acpbridge.config.delegation import Acp
from acpbridge.config.snapshot import Config, Limits
from acpbridge.config.tools import AgentToAgent, SessionTools, Tools, Visibility
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.delegation import Delegation
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.model.settings import Settings
from acpbridge.router.toolcall import AgentsRequest
from tests.unit.router.world import FAKE, OPERATOR, World, agent_in, world

FIELDS = {
    "id",
    "agentId",
    "name",
    "description",
    "capabilities",
    "whenToUse",
    "canSend",
    "canSpawn",
    "configured",
    "runtimeKind",
    "status",
    "queueDepth",
}


def agents(**fake: Any) -> dict[AgentId, AgentDefinition]:
    """Four agents: two that speak ACP, two in Python."""
    return {
        FAKE: AgentDefinition(id=FAKE, command=("fake",), **fake),
        AgentId("codex"): AgentDefinition(
            id=AgentId("codex"),
            name="Codex",
            description="Writes code.",
            capabilities=("rust", "python"),
            when_to_use="For changes of more than a file.",
            command=("codex",),
            settings=Settings(model="large"),
            workspace="/srv/secret-workspace",
            env_set={"CODEX_API_KEY": "sk-very-secret"},
        ),
        AgentId("helper"): AgentDefinition(
            id=AgentId("helper"), kind=RuntimeKind.PYTHON, entry="m:a"
        ),
        AgentId("zeta"): AgentDefinition(id=AgentId("zeta"), kind=RuntimeKind.PYTHON, entry="m:b"),
    }


async def listed(w: World, by: Requester = OPERATOR) -> dict[str, Any]:
    return await w.router.tool(AgentsRequest(), by)


async def rows(w: World, by: Requester = OPERATOR) -> dict[str, dict[str, Any]]:
    return {row["id"]: row for row in (await listed(w, by))["agents"]}


def main(name: str = "fake") -> Requester:
    return agent_in(SessionKey.main(AgentId(name)))


async def test_3_3_1_4_what_the_policy_forbids_is_absent_and_not_masked(tmp_path: Path) -> None:
    """3-3.2.2. With a row for every configured agent: all four are there."""
    fake = {"delegation": Delegation(allow_agents=("helper", "stale"))}
    config = Config(agents=agents(**fake), acp=Acp(allowed_agents=("fake",)))
    async with world(tmp_path, config=config) as w:
        found = await listed(w, main())
        assert [row["id"] for row in found["agents"]] == ["fake", "helper"]
        assert "codex" not in str(found)
        assert "zeta" not in str(found)
        assert "stale" not in str(found)
        assert (found["requester"], found["allowAny"]) == ("fake", False)


async def test_the_requesters_own_agent_comes_first_then_the_others_by_id(tmp_path: Path) -> None:
    async with world(tmp_path, config=Config(agents=agents())) as w:
        found = await listed(w)
        assert [row["id"] for row in found["agents"]] == ["codex", "fake", "helper", "zeta"]
        assert found["allowAny"] is True
        assert next(row["id"] for row in (await listed(w, main("zeta")))["agents"]) == "zeta"


async def test_3_4_2_a_row_has_what_one_needs_to_choose_and_no_secret(tmp_path: Path) -> None:
    async with world(tmp_path, config=Config(agents=agents())) as w:
        row = (await rows(w, main()))["codex"]
        assert set(row) == {*FIELDS, "model", "denyReason"}
        assert (row["name"], row["description"], row["model"]) == ("Codex", "Writes code.", "large")
        assert row["capabilities"] == ["rust", "python"]
        assert row["whenToUse"] == "For changes of more than a file."
        assert (row["runtimeKind"], row["configured"]) == ("acp", True)
        assert "secret" not in str(await listed(w, main()))
        assert set((await rows(w))["fake"]) == FIELDS


@pytest.mark.parametrize(
    ("settings", "name", "can_send", "can_spawn", "named"),
    [
        ({}, "fake", True, True, None),
        ({}, "codex", False, True, "tools.agentToAgent"),
        ({"acp": Acp(allowed_agents=("fake",))}, "codex", None, None, None),
        ({"acp": Acp(enabled=False)}, "fake", True, False, "acp.enabled"),
        ({}, "helper", None, None, None),
        ({"delegation": Delegation(allow_agents=("*",))}, "helper", False, True, "tools.sessions"),
        (
            {
                "tools": Tools(
                    sessions=SessionTools(visibility=Visibility.ALL),
                    agent_to_agent=AgentToAgent(allow=("fake", "help*")),
                )
            },
            "helper",
            True,
            False,
            "subagents.allowAgents",
        ),
    ],
)
async def test_3_3_1_4_who_may_be_spoken_to_and_started_and_which_setting_says_no(
    tmp_path: Path,
    settings: dict[str, Any],
    name: str,
    can_send: bool | None,
    can_spawn: bool | None,
    named: str | None,
) -> None:
    """`None` where the agent is not there at all."""
    settings = dict(settings)
    own = {key: settings.pop(key) for key in ("delegation",) if key in settings}
    async with world(tmp_path, config=Config(agents=agents(**own), **settings)) as w:
        row = (await rows(w, main())).get(name)
        if can_send is None:
            assert row is None
            return
        assert row is not None
        assert (row["canSend"], row["canSpawn"]) == (can_send, can_spawn)
        assert ("denyReason" in row) is (named is not None)
        if named is not None:
            assert named in row["denyReason"]


async def test_who_may_start_none_any_more_still_sees_them_and_learns_why(tmp_path: Path) -> None:
    config = Config(agents=agents(), limits=Limits(max_children_per_session=1))
    async with world(tmp_path, config=config) as w:
        top = (await w.run("wait", one_shot=False)).key
        await w.diary.has("prompt wait")
        assert (await rows(w, agent_in(top)))["codex"]["canSpawn"] is True
        await w.run("wait", by=agent_in(top))
        row = (await rows(w, agent_in(top)))["codex"]
        assert row["canSpawn"] is False
        assert "limits.maxChildrenPerSession" in row["denyReason"]


async def test_3_1_2b_status_and_queue_are_those_of_now_and_no_process_is_started(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, config=Config(agents=agents())) as w:
        assert (await rows(w))["fake"]["status"] == "ready"
        assert w.diary.lines == []
        key = (await w.run("wait", one_shot=False)).key
        await w.diary.has("prompt wait")
        for _ in range(3):
            await w.run("wait", key=key)
        row = (await rows(w))["fake"]
        assert (row["status"], row["queueDepth"]) == ("running", 3)
        assert (await rows(w))["codex"]["queueDepth"] == 0
        await w.router.cancel(str(key), 1.0, OPERATOR)
        row = (await rows(w))["fake"]
        assert (row["status"], row["queueDepth"]) == ("ready", 0)


async def test_an_agent_of_no_session_that_is_known_sees_what_its_name_may(tmp_path: Path) -> None:
    async with world(tmp_path, config=Config(agents=agents())) as w:
        nobody = Requester(Role.AGENT, None, pid=1)
        assert [row["id"] for row in (await listed(w, nobody))["agents"]] == ["codex", "fake"]


async def test_where_no_agent_is_configured_it_is_told_what_can_be_started(tmp_path: Path) -> None:
    async with world(tmp_path, config=Config()) as w:
        told = await listed(w)
        assert told["agents"] == []
        assert "agents: {list:" in told["hint"]
    async with world(tmp_path, config=Config(agents=agents())) as w:
        assert "hint" not in await listed(w)
