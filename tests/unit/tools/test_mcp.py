"""The session tools over MCP, in one process: what a client is told, and when."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import ToolListChangedNotification

from acpbridge.config.snapshot import Config, Limits
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.router.api import RouterApi
from tests.unit.router.test_router import family
from tests.unit.router.world import FAKE, OPERATOR, agent_in, until, world
from tests.unit.tools.memory import MAIN, client, external, talking


async def test_a_result_comes_as_data_and_as_text(tmp_path: Path) -> None:
    async with world(tmp_path) as w, client(w, await external(w)) as (session, _):
        result = await session.call_tool("agents_list", {})
        assert result.structured_content["agents"][0]["id"] == "fake"
        assert not result.is_error


async def test_a_client_hears_what_is_wrong_with_its_call(tmp_path: Path) -> None:
    async with world(tmp_path) as w, client(w, await external(w)) as (session, _):

        async def failed(tool: str, **arguments: Any) -> dict[str, Any]:
            result = await session.call_tool(tool, arguments)
            assert result.is_error
            found = result.structured_content
            assert isinstance(found, dict)
            assert found["hint"]
            return found

        blank = await failed("sessions_spawn", task=" ")
        assert (blank["status"], blank["errorCode"]) == ("error", "invalid_params")
        near = await failed("sessions_spawn", task="x", agent_id="fake")
        assert "did you mean agentId?" in near["error"]
        moved = await failed("sessions_spawn", task="x", timeoutSeconds=3)
        assert "Use runTimeoutSeconds" in moved["error"]
        channel = await failed("sessions_spawn", task="x", replyTo="y")
        assert "sessions_spawn does not support replyTo" in channel["error"]
        for forged in ("env", "callerCwd", "idempotencyKey", "parentSessionKey", "spawnDepth"):
            assert (
                "not a known parameter"
                in (await failed("sessions_spawn", task="x", **{forged: "y"}))["error"]
            )
        missing = await failed("sessions_spawn")
        assert "task" in missing["error"]
        nobody = await failed("sessions_spawn", task="x", agentId="nobody", runtime="acp")
        assert nobody["errorCode"] == "no_such_agent"
        unknown = await failed("sessions_spawm", task="x")
        assert "sessions_spawn" in unknown["error"]
        assert len(w.runtime.specs) == 0


async def test_null_is_no_value(tmp_path: Path) -> None:
    async with world(tmp_path) as w, client(w, await external(w)) as (session, _):
        arguments = {"task": "say hi", "runtime": "acp", "agentId": "fake", "label": None}
        result = await session.call_tool("sessions_spawn", arguments)
        assert result.structured_content["status"] == "accepted"


async def test_2_7_an_absent_tool_is_refused_as_well(tmp_path: Path) -> None:
    async with world(tmp_path, limits=Limits(max_depth=1)) as w:
        _, leaf = await family(w, 1)
        async with client(w, agent_in(leaf)) as (session, _):
            names = {tool.name for tool in (await session.list_tools()).tools}
            assert "sessions_spawn" not in names
            result = await session.call_tool("sessions_spawn", {"task": "x"})
            assert result.is_error
            assert result.structured_content["status"] == "forbidden"
            assert result.structured_content["errorCode"] == "subagent_policy"


async def test_a_child_is_the_clients_whatever_it_says(tmp_path: Path) -> None:
    async with world(tmp_path) as w, client(w, await external(w)) as (session, _):
        arguments = {"task": "say hi", "runtime": "acp", "agentId": "fake"}
        result = await session.call_tool("sessions_spawn", arguments)
        key = SessionKey.parse(result.structured_content["childSessionKey"])
        lineage = w.session(key).record.lineage
        assert (str(lineage.parent), lineage.depth) == (MAIN, 1)
        assert w.session(key).record.cwd == w.cwd


async def test_the_secrets_of_a_clients_environment_are_known(tmp_path: Path) -> None:
    """Without `external` where they are learned: they stand in the log as an agent says them."""
    async with world(tmp_path) as w, client(w, await external(w), TOKEN="s3cret") as (session, _):
        arguments = {"task": "say hi", "runtime": "acp", "agentId": "fake"}
        await session.call_tool("sessions_spawn", arguments)
        assert {"TOKEN": "s3cret"} in w.learned


async def test_progress_is_told_to_who_wants_it_and_a_cancel_ends_the_wait_alone(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        who = await external(w)
        child = (await w.run("wait", by=who, one_shot=False)).key
        await w.diary.has("prompt wait")
        told: list[tuple[float, str | None]] = []

        async def note(progress: float, total: float | None, message: str | None) -> None:
            told.append((progress, message))

        async with client(w, who, pace=0.01) as (session, _):
            message: dict[str, Any] = {
                "sessionKey": str(child),
                "message": "say more",
                "timeoutSeconds": 1000,
            }
            async with anyio.create_task_group() as tasks:

                async def send() -> None:
                    await session.call_tool("sessions_send", message, progress_callback=note)
                    raise AssertionError("it was to be cancelled")

                tasks.start_soon(send)
                await until(lambda: len(told) > 2)
                assert len(w.session(child).inbox) == 1
                tasks.cancel_scope.cancel()
            assert [done for done, _ in told] == sorted(done for done, _ in told)
            assert "under way" in str(told[0][1])
            # Answered after the cancel was served: nothing of the run was taken back.
            await session.call_tool("agents_list", {})
            assert len(w.session(child).inbox) == 1
            w.agent(child).answer("end_turn")
            await w.diary.has("prompt say more")


async def test_a_list_that_changed_is_told(tmp_path: Path) -> None:
    acp = AgentDefinition(id=FAKE, command=("fake",))
    python = AgentDefinition(id=AgentId("house"), kind=RuntimeKind.PYTHON, entry="a:b")
    agents = {python.id: python}
    config = Config(agents=agents)
    async with world(tmp_path, config=config) as w, client(w, await external(w)) as told:
        session, heard = told
        await session.list_tools()
        await session.call_tool("agents_list", {})
        assert heard == []
        agents[FAKE] = acp
        await session.call_tool("agents_list", {})
        assert [type(message) for message in heard] == [ToolListChangedNotification]
        await session.call_tool("agents_list", {})
        assert len(heard) == 1


async def test_an_unreachable_daemon_is_told_of(tmp_path: Path) -> None:
    async def reach() -> RouterApi:
        raise BridgeError("daemon_unreachable", "It is not there.")

    with anyio.fail_after(10):
        async with talking(reach, OPERATOR) as (session, _):
            with pytest.raises(MCPError, match="It is not there"):
                await session.list_tools()
            result = await session.call_tool("agents_list", {})
            assert result.is_error
            assert result.structured_content["errorCode"] == "daemon_unreachable"


async def test_a_fault_of_ours_tells_nothing_of_itself(tmp_path: Path) -> None:
    async def reach() -> RouterApi:
        raise ZeroDivisionError("a secret")

    with anyio.fail_after(10):
        async with talking(reach, OPERATOR) as (session, _):
            result = await session.call_tool("agents_list", {})
            assert result.is_error
            assert result.structured_content["errorCode"] == "internal"
            assert "secret" not in str(result)
