"""Tools by session: what is offered, what is put away, and what MCP servers add."""

from collections.abc import Sequence

import anyio
import pytest

from acpbridge.agents.registry import KEPT_RUNS, Tool, ToolRegistry
from acpbridge.errors import BridgeError
from tests.unit.agents.scripted import Scripted, calls, result, says, tool


async def test_0_18_two_sessions_do_not_see_what_the_other_has_activated() -> None:
    registry = ToolRegistry([tool("look"), tool("dig", core=False)])
    registry.activate("cli:1", "dig")
    assert list(await registry.offered("cli:1")) == ["look", "dig"]
    assert list(await registry.offered("cli:2")) == ["look"]


async def test_0_18_a_tool_activates_another_for_its_own_session_from_the_next_call_on() -> None:
    async def find(context: object, _arguments: object) -> str:
        context.activate("dig")  # type: ignore[attr-defined]
        return "dig is there now"

    registry = ToolRegistry([tool("find", find), tool("dig", core=False)])
    model = Scripted(calls("find"), calls("dig"), says("Done."))
    out = await result(model, registry=registry, channel="cli", chat_id="1")
    assert model.offered == [["find"], ["find", "dig"], ["find", "dig"]]
    assert out.tools_used == ("find", "dig")
    other = Scripted(says("Hello."))
    await result(other, registry=registry, channel="cli", chat_id="2")
    assert other.offered == [["find"]]


async def test_0_18_what_a_session_does_not_use_for_some_runs_is_put_away() -> None:
    registry = ToolRegistry([tool("dig", core=False)])
    registry.activate("cli:1", "dig")
    for _ in range(KEPT_RUNS):
        registry.tick("cli:1")
        assert "dig" in await registry.offered("cli:1")
    registry.used("cli:1", "dig")
    for _ in range(KEPT_RUNS):
        registry.tick("cli:1")
        assert "dig" in await registry.offered("cli:1")
    registry.tick("cli:1")
    assert "dig" not in await registry.offered("cli:1")


async def test_only_a_tool_that_there_is_can_be_activated() -> None:
    registry = ToolRegistry([tool("dig", core=False)])
    with pytest.raises(BridgeError) as caught:
        registry.activate("cli:1", "dog")
    assert "dig" in caught.value.hint


async def test_0_8_a_clone_changes_by_itself() -> None:
    registry = ToolRegistry([tool("look"), tool("dig", core=False)])
    registry.activate("cli:1", "dig")
    clone = registry.clone()
    clone.unregister("look")
    clone.register(tool("new"))
    assert registry.names() == ("look", "dig")
    assert clone.names() == ("dig", "new")
    assert list(await clone.offered("cli:1")) == ["new"]


class Servers:
    """MCP servers whose tools a test changes."""

    def __init__(self) -> None:
        self.reads: list[str] = []
        self.tools: list[Tool] = [tool("issues", core=False)]

    async def __call__(self, key: str) -> Sequence[Tool]:
        self.reads.append(key)
        return list(self.tools)


async def test_0_19_after_an_invalidation_the_tools_of_mcp_servers_are_read_again() -> None:
    servers = Servers()

    async def login(context: object, _arguments: object) -> str:
        servers.tools.append(tool("merge"))
        context.invalidate_all_session_mcp()  # type: ignore[attr-defined]
        return "logged in"

    registry = ToolRegistry([tool("look"), tool("login", login)], servers)
    from acpbridge.agents.context import ToolContextExtras

    extras = ToolContextExtras(invalidate_all_session_mcp=registry.invalidate_mcp)
    model = Scripted(calls("look"), calls("login"), says("Done."))
    await result(model, registry=registry, channel="cli", chat_id="1", extras=extras)
    assert model.offered[0] == model.offered[1] == ["issues", "look", "login"]
    assert model.offered[2] == ["issues", "merge", "look", "login"]
    assert servers.reads == ["cli:1", "cli:1"]


async def test_an_invalidation_of_one_session_leaves_the_others() -> None:
    servers = Servers()
    registry = ToolRegistry([], servers)
    await registry.offered("a")
    await registry.offered("b")
    registry.invalidate_mcp("a")
    await registry.offered("a")
    await registry.offered("b")
    assert servers.reads == ["a", "b", "a"]


async def test_tools_read_while_they_are_invalidated_are_not_kept() -> None:
    held, reading = anyio.Event(), anyio.Event()

    async def slow(_key: str) -> Sequence[Tool]:
        reading.set()
        await held.wait()
        return [tool("old")]

    registry = ToolRegistry([], slow)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(registry.offered, "a")
        await reading.wait()
        registry.invalidate_mcp()
        reading = anyio.Event()
        held.set()
    await registry.offered("a")
    assert reading.is_set()


async def test_our_tool_is_not_replaced_by_one_of_a_server() -> None:
    servers = Servers()
    servers.tools = [tool("look")]
    ours = tool("look")
    assert (await ToolRegistry([ours], servers).offered("a"))["look"] is ours
