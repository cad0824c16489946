"""Roles on the real loop, called by a real tool of their caller's model."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    UserPromptPart,
)

from acpbridge.agents.asking import asking_tools
from acpbridge.agents.client import LLMGenerateError, text_of
from acpbridge.agents.compression import CompressConfig
from acpbridge.agents.context import ToolContext
from acpbridge.agents.interactive import Conversations
from acpbridge.agents.loop import RunResult, run
from acpbridge.agents.loops import LoopEngine
from acpbridge.agents.preparing import Caller
from acpbridge.agents.registry import Tool, ToolRegistry
from acpbridge.agents.roles import Capabilities, Role, Roles
from acpbridge.agents.subagents import Household, SubAgents
from tests.unit.agents.house import manager
from tests.unit.agents.scripted import Scripted, calls, config, returns, says, tool

ROLES = Roles(
    {
        "reviewer": Role("reviewer", "Reviews", "You review.", ("read",)),
        "tutor": Role("tutor", "Teaches", "You teach."),
        "herald": Role(
            "herald", "Tells", "You tell.", (), Capabilities(memory=True, send_message=True)
        ),
    }
)
MAIN = "agent:main:main"


def ask(role: str, task: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    return "SubAgent", {"role": role, "task": task, **fields}


async def run_main(
    model: Scripted,
    *tools: Tool,
    registry: ToolRegistry | None = None,
    shared: Conversations | None = None,
    **fields: Any,
) -> RunResult:
    """Run a main agent that may call roles."""
    registry = registry or ToolRegistry([*tools, *asking_tools(ROLES)])
    base = config(model, registry=registry, **fields)
    house = Household(
        LoopEngine(base, memory=lambda _: remembered), conversations=shared or Conversations()
    )
    caller = Caller(MAIN, registry, compress=base.auto_compress)
    async with SubAgents(caller, house) as agents:
        return await run(replace(base, spawn_agent=manager(agents)))


async def remembered(_messages: Sequence[ModelMessage]) -> str:
    return "You have been here before."


def heard(messages: Sequence[ModelMessage]) -> list[str]:
    """Return what stands in a conversation, in short."""
    out = []
    for message in messages:
        if isinstance(message, ModelResponse):
            out.append(f"assistant: {text_of(message)}")
            continue
        assert isinstance(message, ModelRequest)
        for part in message.parts:
            if isinstance(part, SystemPromptPart):
                out.append(f"system: {part.content.strip().splitlines()[0]}")
            elif isinstance(part, UserPromptPart):
                out.append(f"user: {part.content}")
    return out


async def test_0_7_a_role_runs_on_the_same_loop_as_its_caller() -> None:
    model = Scripted(
        calls(ask("reviewer", "look at it")), calls("read"), says("It is fine."), says("Done.")
    )
    out = await run_main(model, tool("read", reads=True), tool("write"))
    assert (out.content, out.tools_used) == ("Done.", ("SubAgent",))
    assert returns(model.asked[3]) == ["It is fine."]
    assert heard(model.asked[1]) == ["system: You review.", "user: look at it"]


async def test_0_8_a_child_is_offered_its_roles_tools_and_the_caller_keeps_its_own() -> None:
    model = Scripted(
        calls(ask("reviewer", "x")), says("a"), calls(ask("tutor", "y")), says("b"), says("c")
    )
    await run_main(model, tool("read"), tool("write"), tool("send_message"))
    own = ["SubAgent", "UnloadSubAgent", "read", "send_message", "write"]
    offered = [sorted(names) for names in model.offered]
    assert offered == [own, ["read"], own, ["read", "write"], own]


async def test_0_8_what_servers_offer_is_held_to_the_same_list() -> None:
    async def servers(_key: str) -> Sequence[Tool]:
        return [tool("read"), tool("delete"), tool("SubAgent"), tool("send_message")]

    registry = ToolRegistry([tool("other"), *asking_tools(ROLES)], servers)
    model = Scripted(
        calls(ask("reviewer", "x")), says("a"), calls(ask("tutor", "y")), says("b"), says("c")
    )
    await run_main(model, registry=registry)
    assert model.offered[1] == ["read"]
    assert sorted(model.offered[3]) == ["delete", "other", "read"]
    # And a child of a child gets no more than that.
    again = ToolRegistry([tool("other")], servers, only=frozenset({"read"})).clone()
    assert sorted(await again.offered("k")) == ["other", "read"]


async def test_0_8_a_tool_that_a_role_lists_needs_no_activation() -> None:
    model = Scripted(calls(ask("reviewer", "x")), says("a"), says("b"))
    await run_main(model, tool("read", core=False))
    assert model.offered == [
        ["SubAgent", "UnloadSubAgent"],
        ["read"],
        ["SubAgent", "UnloadSubAgent"],
    ]


async def test_0_8_a_child_has_activations_of_its_own_and_a_hundred_iterations() -> None:
    seen: list[ToolContext] = []

    async def look(context: ToolContext, _params: Mapping[str, Any]) -> str:
        seen.append(context)
        return "seen"

    model = Scripted(calls("read"), calls(ask("reviewer", "x")), forever=calls("read"))
    # The caller is asked so often only; the child until its own limit.
    out = await run_main(
        model, tool("read", look), channel="telegram", chat_id="9", max_iterations=2
    )
    assert "largest number of iterations" in out.content
    assert len(model.asked) == 2 + 100
    main, child = seen[0], seen[-1]
    assert (main.activation_key, child.agent_path) == ("telegram:9", "main/reviewer")
    assert child.activation_key.startswith("agent:main:subagent:")
    # Whom it is for is the message that all began with.
    assert (child.channel, child.chat_id, child.sender_id) == ("telegram", "-100", "7")


async def test_1_10_a_child_cannot_do_what_its_role_does_not_give_it() -> None:
    seen: dict[str, ToolContext] = {}

    async def look(context: ToolContext, _params: Mapping[str, Any]) -> str:
        seen[context.agent_path] = context
        return "seen"

    async def send(_channel: str, _chat: str, _content: str) -> None:
        raise AssertionError

    model = Scripted(
        calls(ask("tutor", "x")),
        calls("read"),
        says("a"),
        calls(ask("herald", "y")),
        calls("read"),
        says("b"),
        says("c"),
    )
    await run_main(model, tool("read", look), send=send)
    tutor, herald = seen["main/tutor"], seen["main/herald"]
    assert (tutor.send, tutor.manager, tutor.inject_inbound) == (None, None, None)
    assert herald.send is send
    assert heard(model.asked[1])[0] == "system: You teach."
    assert heard(model.asked[4])[0] == "system: You have been here before."


def test_1_10_both_tools_are_offered_without_being_activated() -> None:
    assert [(one.name, one.core, one.reads) for one in asking_tools(ROLES)] == [
        ("SubAgent", True, False),
        ("UnloadSubAgent", True, False),
    ]
    description = asking_tools(ROLES)[0].description
    assert "- reviewer: Reviews" in description


async def test_1_3_the_second_turn_sees_the_first_with_the_assistants_words_once() -> None:
    talk = {"interactive": True}
    model = Scripted(
        calls(ask("tutor", "one", **talk)),
        says("first"),
        calls(ask("tutor", "two", **talk)),
        says("second"),
        calls(("UnloadSubAgent", {"role": "tutor"})),
        calls(ask("tutor", "three", **talk)),
        says("third"),
        says("bye"),
    )
    out = await run_main(model)
    assert heard(model.asked[3]) == [
        "system: You teach.",
        "user: one",
        "assistant: first",
        "user: two",
    ]
    assert heard(model.asked[6]) == ["system: You teach.", "user: three"]
    assert returns(model.asked[7]) == [
        "first",
        "second",
        "The sub-agent 'tutor' was ended.",
        "third",
    ]
    assert out.tools_used == ("SubAgent", "SubAgent", "UnloadSubAgent", "SubAgent")


async def test_1_9_a_long_conversation_is_compressed_as_its_callers_is() -> None:
    lengths: list[int] = []

    async def compress(messages: list[ModelMessage], _model: str) -> list[ModelMessage]:
        lengths.append(len(messages))
        return [messages[0], messages[-1]]

    steps: list[ModelResponse] = []
    for number in range(6):
        steps += [calls(ask("tutor", f"turn {number}", interactive=True)), says("x" * 40)]
    model = Scripted(*steps, says("bye"))
    compression = CompressConfig(compress, max_context_tokens=100, threshold=0.5)
    # The caller's own conversation is beside the point: what counts are the tutor's.
    await run_main(model, auto_compress=compression)
    tutor = [heard(asked) for asked in model.asked if heard(asked)[0] == "system: You teach."]
    assert len(tutor) == 6
    assert max(map(len, tutor)) <= 6
    assert tutor[-1][-1] == "user: turn 5"
    assert lengths


async def test_0_6_a_model_that_fails_in_a_child_is_a_text_for_its_caller() -> None:
    model = Scripted(calls(ask("tutor", "x")), ConnectionError("no route"), says("Then I do it."))
    out = await run_main(model)
    assert out.content == "Then I do it."
    assert out.error is None
    [told] = returns(model.asked[2])
    assert told.startswith("Sub-agent error: The model gave no answer: ConnectionError: no route")


async def test_0_3_what_a_child_used_and_the_cause_of_its_error_go_back_whole() -> None:
    cause = ConnectionError("no route")
    model = Scripted(calls("read"), cause)
    base = config(model, tool("read"))
    async with SubAgents(Caller(MAIN, base.tools), Household(LoopEngine(base))) as agents:
        answer = await manager(agents).run_sub_agent("x", "You.", (), Capabilities(), "tutor")
    assert answer.tools_used == ("read",)
    assert isinstance(answer.error, LLMGenerateError)
    assert answer.error.__cause__ is cause
