"""The tool calls of one answer: which wait for which, and what a model hears of what goes wrong."""

import anyio
import anyio.lowlevel
import pytest

from acpbridge.agents.calling import AT_ONCE
from acpbridge.agents.context import ToolContext, ToolContextExtras
from acpbridge.agents.loop import context_of
from acpbridge.errors import BridgeError
from tests.unit.agents.scripted import Scripted, calls, config, result, returns, says, tool


async def test_0_21_two_reads_of_one_answer_overlap() -> None:
    inside, both = [0], anyio.Event()

    async def meet(_context: object, _arguments: object) -> str:
        inside[0] += 1
        if inside[0] == 2:
            both.set()
        await both.wait()  # needs both of them
        return "met"

    reads = [tool(name, meet, reads=True) for name in ("a", "b")]
    with anyio.fail_after(20):
        out = await result(Scripted(calls("a", "b"), says("Done.")), *reads)
    assert returns(out.messages) == ["met", "met"]


async def test_0_21_writes_keep_the_order_of_the_answer() -> None:
    began: list[str] = []
    running: set[str] = set()

    def write(name: str) -> object:
        async def code(_context: object, _arguments: object) -> str:
            assert not running
            running.add(name)
            began.append(name)
            await anyio.lowlevel.checkpoint()
            running.discard(name)
            return name

        return tool(name, code)

    model = Scripted(calls("c", "a", "b"), says("Done."))
    out = await result(model, *[write(name) for name in "abc"])  # type: ignore[arg-type]
    assert began == ["c", "a", "b"]
    assert returns(out.messages) == ["c", "a", "b"]


async def test_0_21_a_read_behind_a_write_sees_what_was_written() -> None:
    held = {"text": "old"}

    async def write(_context: object, _arguments: object) -> str:
        await anyio.lowlevel.checkpoint()
        held["text"] = "new"
        return "written"

    async def read(_context: object, _arguments: object) -> str:
        return held["text"]

    model = Scripted(calls("read", "write", "read"), says("Done."))
    out = await result(model, tool("write", write), tool("read", read, reads=True))
    assert returns(out.messages) == ["old", "written", "new"]


async def test_no_more_reads_run_at_once_than_there_is_room_for() -> None:
    running, most = [0], [0]

    async def read(_context: object, _arguments: object) -> str:
        running[0] += 1
        most[0] = max(most[0], running[0])
        for _ in range(3):
            await anyio.lowlevel.checkpoint()
        running[0] -= 1
        return "x"

    model = Scripted(calls(*["read"] * (AT_ONCE + 3)), says("Done."))
    await result(model, tool("read", read, reads=True))
    assert most == [AT_ONCE]


async def fails(_context: object, _arguments: object) -> str:
    raise PermissionError("no token")


async def test_0_21_without_a_handler_an_error_is_the_tools_answer() -> None:
    out = await result(Scripted(calls("push"), says("Sorry.")), tool("push", fails))
    assert (out.content, out.error) == ("Sorry.", None)
    assert returns(out.messages) == ["Error: PermissionError: no token"]


@pytest.mark.parametrize(
    ("told", "heard"),
    [("A link to log in was sent.", "A link to log in was sent."), (None, "Error: Permission")],
)
async def test_0_21_oauth_is_handled_where_it_is_set_and_meant(
    told: str | None, heard: str
) -> None:
    seen: list[tuple[str, str]] = []

    async def oauth(call: object, error: Exception) -> str | None:
        seen.append((call.tool_name, str(error)))  # type: ignore[attr-defined]
        return told

    out = await result(Scripted(calls("push"), says("ok")), tool("push", fails), oauth=oauth)
    assert seen == [("push", "no token")]
    assert returns(out.messages)[0].startswith(heard)


async def test_a_call_of_a_tool_that_there_is_not_is_told_which_there_are() -> None:
    out = await result(Scripted(calls("dig"), says("ok")), tool("look"))
    assert returns(out.messages) == ["Error: There is no tool 'dig'; there is: look."]
    assert out.tools_used == ("dig",)


@pytest.mark.parametrize("arguments", ["{", "[1]", "nul"])
async def test_arguments_that_are_no_object_reach_no_tool(arguments: str) -> None:
    ran = []

    async def look(_context: object, given: object) -> str:
        ran.append(given)
        return "x"

    out = await result(Scripted(calls(("look", arguments)), says("ok")), tool("look", look))
    assert ran == []
    assert returns(out.messages) == ["Error: The arguments are no JSON object."]


async def test_an_error_of_ours_is_told_in_its_own_words() -> None:
    async def code(_context: object, _arguments: object) -> str:
        raise BridgeError("usage", "Not that way.")

    out = await result(Scripted(calls("look"), says("ok")), tool("look", code))
    assert returns(out.messages) == ["Error: Not that way."]


async def test_0_19_a_tool_knows_for_whom_it_works_and_finds_only_what_was_given() -> None:
    async def send(channel: str, chat: str, text: str) -> None:
        sent.append((channel, chat, text))

    sent: list[tuple[str, str, str]] = []
    seen: list[ToolContext] = []

    async def code(context: ToolContext, _arguments: object) -> str:
        seen.append(context)
        return "x"

    model = Scripted(calls("look"), says("ok"))
    await result(
        model,
        tool("look", code),
        agent_path="main/reviewer",
        channel="cli",
        chat_id="7",
        sender_id="u1",
        sender_name="Ann",
        send=send,
    )
    (context,) = seen
    who = (context.agent_path, context.channel, context.chat_id)
    assert who == ("main/reviewer", "cli", "7")
    assert (context.sender_id, context.sender_name) == ("u1", "Ann")
    assert context.activation_key == "cli:7"
    assert context.manager is None, "there is a manager only where spawning is allowed"
    assert context.inject_inbound is None
    assert context.invalidate_all_session_mcp is None
    assert context.send is not None
    await context.send("cli", "7", "hello")
    assert sent == [("cli", "7", "hello")]


def test_0_19_the_manager_and_the_extras_are_there_when_they_are_given() -> None:
    manager = object()

    def inject(*_message: str) -> None:
        pass

    extras = ToolContextExtras("t1", inject, services={"clock": 1})
    context = context_of(config(Scripted(), spawn_agent=manager, extras=extras))
    assert context.manager is manager
    assert context.inject_inbound is inject
    assert (context.tenant, context.services) == ("t1", {"clock": 1})
    assert context.activate is None, "without a session nothing can be activated"
