"""A role that is called inside a run: what it is told, what it may do, what comes back."""

from dataclasses import replace
from typing import Any

import anyio
import pytest

from acpbridge.agents.asking import sub_agent, unload_sub_agent
from acpbridge.agents.calls import Child
from acpbridge.agents.chain import CallChain
from acpbridge.agents.preparing import CALLING, SENDING, Caller, tools_of
from acpbridge.agents.roles import Capabilities, Role, Roles
from acpbridge.agents.spawning import SpawnAdapter, granted
from acpbridge.agents.subagents import Household, SubAgents
from acpbridge.errors import BridgeError
from acpbridge.model.address import Address, DeliveryContext
from acpbridge.model.inbound import ChatType, InboundMessage
from acpbridge.model.keys import SessionKey
from acpbridge.model.outbound import OutboundMessage
from tests.unit.agents.house import CAUSE, NOTHING, Registered, Scripted, Tools, house, manager

TOOLS = ("Read", "Grep", "SubAgent", "UnloadSubAgent", "send_message")
ROLES = Roles(
    {
        "reviewer": Role("reviewer", "Reviews", "You review.", ("Read",)),
        "lead": Role("lead", "Leads", "You lead.", ("Read", "SubAgent")),
    }
)


def main(**fields: Any) -> Caller:
    return Caller("agent:main:main", Tools(*TOOLS), **fields)


async def call(engine: Scripted, role: str = "reviewer", task: str = "look", **fields: Any) -> str:
    async with SubAgents(main(**fields), house(engine)) as agents:
        return await sub_agent(manager(agents), ROLES, {"task": task, "role": role})


# ---- 0-6: the adapter ----


async def test_0_6_a_call_becomes_a_message_of_the_agent_that_calls() -> None:
    sent: list[InboundMessage] = []

    async def spawn(message: InboundMessage) -> OutboundMessage:
        sent.append(message)
        return OutboundMessage(content="done", tools_used=("Read",))

    adapter = SpawnAdapter(spawn, CAUSE, "main/a", "/srv/here")
    may = Capabilities(memory=True, send_message=False, max_iterations=7)
    answer = await adapter.run_sub_agent("look", "You review.", ["Read"], may, "reviewer")
    assert (answer.content, answer.tools_used) == ("done", ("Read",))
    [message] = sent
    assert (message.content, message.system_prompt) == ("look", "You review.")
    assert (message.allowed_tools, message.role_name) == (("Read",), "reviewer")
    assert (message.channel, message.chat_type) == ("agent", ChatType.AGENT)
    assert (message.sender, message.parent_agent_id) == (Address.agent("main/a"), "main/a")
    assert message.recipient == Address.agent("main/a/reviewer")
    assert (message.sender_id, message.sender_name, message.chat_id) == ("7", "Ada", "-100")
    assert message.request_id == "r1"
    assert message.metadata["workspace_root"] == "/srv/here"
    assert message.metadata["origin_channel"] == "telegram"
    assert message.metadata["origin_chat_id"] == "-100"
    assert message.metadata["origin_sender"] == "7"
    assert message.origin() == CAUSE.origin()
    assert granted(message) == may


async def test_0_6_what_the_hook_raises_is_an_error_beside_the_content() -> None:
    async def spawn(message: InboundMessage) -> OutboundMessage:
        raise RuntimeError("broken")

    answer = await SpawnAdapter(spawn, CAUSE, "main").run_sub_agent("x", "", [], NOTHING, "a")
    assert answer.content == ""
    assert isinstance(answer.error, RuntimeError)


async def test_0_6_a_failed_call_is_a_text_for_the_model_and_no_failure() -> None:
    assert await call(Scripted(), task="fail no money") == (
        "Sub-agent error: no money Read the agent's message, then retry."
    )
    assert await call(Scripted(), task="raise odd") == "Sub-agent error: RuntimeError: odd"


async def test_0_6_cancellation_is_no_error_and_passes() -> None:
    engine, told = Scripted(), []

    async def caller() -> None:
        told.append(await call(engine, task="wait"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(caller)
        await engine.begun.wait()
        tasks.cancel_scope.cancel()
    assert told == []


@pytest.mark.parametrize(
    ("params", "why"),
    [
        ({"role": "reviewer"}, "task: it must be a text"),
        ({"role": "reviewer", "task": "  "}, "task: it must be a text"),
        ({"task": "x"}, "role: it must be a text"),
        ({"task": "x", "role": "nobody"}, "there is: lead, reviewer"),
        ({"task": "x", "role": "reviewer", "interactive": "yes"}, "interactive: it must be"),
    ],
)
async def test_0_6_a_call_with_wrong_params_is_told_what_is_wrong(
    params: dict[str, Any], why: str
) -> None:
    engine = Scripted()
    async with SubAgents(main(), house(engine)) as agents:
        told = await sub_agent(manager(agents), ROLES, params)
    assert told.startswith("Sub-agent error: ")
    assert why in told
    assert engine.seen == []


async def test_0_6_a_run_that_may_call_nobody_is_told_so() -> None:
    told = await sub_agent(None, ROLES, {"task": "x", "role": "reviewer"})
    assert told.startswith("Sub-agent error: This run may not call sub-agents.")
    assert "may not" in await unload_sub_agent(None, {"role": "reviewer"})


# ---- 0-8: what the called one gets ----


def names(*listed: str, may_send: bool = False, of: tuple[str, ...] = TOOLS) -> list[str]:
    return tools_of(Tools(*of), listed, may_send=may_send).names()


def test_0_8_without_a_list_a_child_has_all_but_what_calls_others_and_writes_to_them() -> None:
    assert names() == ["Read", "Grep"]


def test_0_8_a_list_is_all_that_a_child_has() -> None:
    assert names("Read") == ["Read"]
    assert names("Read", "Nothing") == ["Read"]


def test_0_8_a_role_that_lists_sub_agent_may_call_others_and_unload_them() -> None:
    assert names("Read", "SubAgent") == ["Read", "SubAgent", "UnloadSubAgent"]


def test_0_8_to_list_the_other_tool_only_is_not_enough() -> None:
    assert names("Read", "UnloadSubAgent") == ["Read"]


def test_0_8_no_list_gives_what_the_caller_has_not() -> None:
    assert names("Write", "SubAgent", of=("Read",)) == []


@pytest.mark.parametrize("tool", sorted(SENDING))
def test_0_15_without_send_message_no_tool_that_writes_to_others_is_left(tool: str) -> None:
    assert names(tool, of=("Read", tool)) == []
    assert names(tool, may_send=True, of=("Read", tool)) == [tool]
    assert names(of=("Read", tool)) == ["Read"]


async def test_0_8_the_callers_own_tools_stay_as_they_are() -> None:
    caller = main()
    async with SubAgents(caller, house(Scripted())) as agents:
        await sub_agent(manager(agents), ROLES, {"task": "x", "role": "reviewer"})
    assert tuple(caller.tools.names()) == TOOLS


async def test_0_8_a_child_is_made_ready_by_its_role_and_its_caller() -> None:
    engine, compress = Scripted(), object()
    assert await call(engine, compress=compress) == "done"
    [child] = engine.children
    assert child.agent_path == "main/reviewer"
    assert child.chain.entries == ("main", "main/reviewer")
    assert child.compress is compress
    assert child.capabilities.max_iterations == 100
    assert child.manager is None
    assert (child.channel, child.chat_id, child.sender_id) == ("telegram", "-100", "7")
    assert child.origin == DeliveryContext(Address.im("telegram", "-100"), "second", "9")
    assert SessionKey.parse(child.key).kind == "subagent"
    assert engine.seen == [
        [("system", "You review.\n\nWorking directory: /srv/here\n"), ("user", "look")]
    ]


async def test_0_8_a_role_that_may_call_others_calls_them_with_the_chain_that_it_has() -> None:
    engine = Scripted()
    assert await call(engine, "lead", "call tester try it") == "done done it"
    assert [child.agent_path for child in engine.children] == ["main/lead", "main/lead/tester"]
    # And the third of the chain calls nobody.
    deep = main(chain=CallChain().spawn("a").spawn("b"))
    async with SubAgents(deep, house(engine)) as agents:
        told = await sub_agent(manager(agents, "main/a/b"), ROLES, {"task": "x", "role": "lead"})
    assert "3 long already" in told


async def test_0_14_a_circle_of_calls_is_refused_before_anything_runs() -> None:
    engine = Scripted()
    told = await call(engine, "lead", "call lead again")
    assert told.startswith("Sub-agent error: circular SubAgent call")
    assert len(engine.children) == 1


async def test_0_8_what_a_message_says_of_its_senders_place_is_not_believed() -> None:
    engine = Scripted()
    caller = main(chain=CallChain().spawn("reviewer"))
    async with SubAgents(caller, house(engine)) as agents:
        # A message that pretends to come from the head of the chain.
        told = await sub_agent(manager(agents, "main"), ROLES, {"task": "x", "role": "reviewer"})
        assert "circular SubAgent call" in told
        await sub_agent(manager(agents, "main"), ROLES, {"task": "x", "role": "lead"})
    assert [child.agent_path for child in engine.children] == ["main/reviewer/lead"]


async def test_1_10_what_is_not_given_to_a_child_it_cannot_do() -> None:
    engine = Scripted()

    async def child_of(may: Capabilities, listed: tuple[str, ...]) -> Child:
        async with SubAgents(main(), house(engine)) as agents:
            await manager(agents).run_sub_agent("x", "", listed, may, "other")
        return engine.children[-1]

    nothing = await child_of(NOTHING, ("Read", "send_message"))
    assert nothing.tools.names() == ["Read"]
    assert not nothing.capabilities.memory
    everything = Capabilities(memory=True, send_message=True, max_iterations=3)
    able = await child_of(everything, ("Read", "send_message", "SubAgent"))
    assert able.capabilities == everything
    assert able.tools.names() == ["Read", "SubAgent", "UnloadSubAgent", "send_message"]
    assert able.manager is not None
    assert nothing.manager is None


def test_1_10_a_message_that_says_nothing_of_rights_gives_none() -> None:
    bare = InboundMessage(sender=Address.agent("main"), chat_type=ChatType.AGENT)
    assert granted(bare) == Capabilities()
    odd = replace_metadata(bare, {"may_remember": "true", "max_iterations": "-5"})
    assert granted(odd) == Capabilities()


def replace_metadata(message: InboundMessage, metadata: dict[str, str]) -> InboundMessage:
    return message.model_copy(update={"metadata": metadata})


# ---- Known to the router ----


async def test_7_4_a_role_is_registered_below_its_caller_and_ended_with_its_outcome() -> None:
    registry, engine = Registered(), Scripted()
    async with SubAgents(main(), house(engine, registry=registry)) as agents:
        await sub_agent(manager(agents), ROLES, {"task": "call tester deep", "role": "lead"})
        await sub_agent(manager(agents), ROLES, {"task": "fail x", "role": "reviewer"})
    assert registry.lines == [
        "open key-1 main/lead below agent:main:main",
        "turn key-1 call tester deep",
        "open key-2 main/lead/tester below key-1",
        "turn key-2 deep",
        "completed key-2",
        "close key-2",
        "completed key-1",
        "close key-1",
        "open key-3 main/reviewer below agent:main:main",
        "turn key-3 fail x",
        "failed key-3",
        "close key-3",
    ]


async def test_7_4_a_role_that_is_killed_stops_and_its_caller_goes_on() -> None:
    registry, engine = Registered(), Scripted()
    told: list[str] = []

    async def caller() -> None:
        async with SubAgents(main(), house(engine, registry=registry)) as agents:
            params = {"task": "wait", "role": "reviewer"}
            told.append(await sub_agent(manager(agents), ROLES, params))

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(caller)
            await engine.begun.wait()
            registry.cancels["key-1"]()
    assert told == ["Sub-agent error: The sub-agent's turn was stopped."]
    assert registry.lines[-2:] == ["cancelled key-1", "close key-1"]


async def test_7_4_a_role_that_the_router_refuses_does_not_run() -> None:
    refusal = BridgeError("subagent_policy", "5 children are active.")
    engine = Scripted()
    async with SubAgents(main(), house(engine, registry=Registered(refuses=refusal))) as agents:
        told = await sub_agent(manager(agents), ROLES, {"task": "x", "role": "reviewer"})
    assert told.startswith("Sub-agent error: 5 children are active.")
    assert engine.seen == []


async def test_7_4_an_engine_that_breaks_leaves_a_failed_and_closed_child() -> None:
    registry = Registered()
    async with SubAgents(main(), house(Scripted(), registry=registry)) as agents:
        await sub_agent(manager(agents), ROLES, {"task": "raise x", "role": "reviewer"})
    assert registry.lines[-2:] == ["failed key-1", "close key-1"]


async def test_1_2_a_call_for_one_task_keeps_what_it_learnt_and_is_gone() -> None:
    roles = Roles({"r": replace(ROLES.known["reviewer"], capabilities=Capabilities(memory=True))})
    engine = Scripted()
    shared = house(engine)
    async with SubAgents(main(), shared) as agents:
        params = {"task": "x", "role": "r", "interactive": False}
        assert await sub_agent(manager(agents), roles, params) == "done"
        assert shared.conversations.roles("agent:main:main") == ()
        assert engine.diary == ["run x", "consolidate reviewer 3"]
        # The next call knows nothing of it.
        await sub_agent(manager(agents), roles, params)
        assert [len(seen) for seen in engine.seen] == [2, 2]


def test_0_8_the_words_for_calling_are_the_documents() -> None:
    assert frozenset({"SubAgent", "UnloadSubAgent"}) == CALLING
    assert Household(Scripted()).conversations is not Household(Scripted()).conversations
