"""Conversations with sub-agents: one for each caller and role, ended in order (1-1 to 1-12)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest

from acpbridge.agents import interactive
from acpbridge.agents.asking import sub_agent, unload_sub_agent
from acpbridge.agents.chain import CallChain
from acpbridge.agents.interactive import Conversations
from acpbridge.agents.preparing import Caller
from acpbridge.agents.roles import Capabilities, Role, Roles
from acpbridge.agents.subagents import Household, SubAgents
from acpbridge.errors import BridgeError
from acpbridge.model.inbound import InboundMessage
from acpbridge.model.outbound import OutboundMessage
from tests.unit.agents.house import CAUSE, Registered, Scripted, Tools, house, manager

ROLES = Roles(
    {
        name: Role(name, system_prompt=name, tools=("SubAgent",), capabilities=may)
        for name, may in (
            ("tutor", Capabilities(memory=True)),
            ("critic", Capabilities(memory=True)),
            ("forgetful", Capabilities()),
        )
    }
)
CHAT = "agent:main:main"


def run_of(shared: Household, key: str = CHAT) -> SubAgents:
    return SubAgents(Caller(key, Tools("Read", "SubAgent")), shared)


async def say(agents: SubAgents, text: str, role: str = "tutor") -> str:
    params = {"task": text, "role": role, "interactive": True}
    return await sub_agent(manager(agents), ROLES, params)


async def unload(agents: SubAgents, role: str = "tutor") -> str:
    return await unload_sub_agent(manager(agents), {"role": role})


Step = Callable[[], Awaitable[object]]


async def at_once(*steps: Step) -> list[object]:
    """Begin steps one after the other, each at once; return what comes of them, in their order."""
    results: dict[int, object] = {}

    async def one(number: int, step: Step) -> None:
        results[number] = await step()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for number, step in enumerate(steps):
                tasks.start_soon(one, number, step)
    return [results[number] for number in sorted(results)]


# ---- Turns ----


async def test_1_1_a_second_call_goes_on_with_the_first() -> None:
    engine = Scripted()
    async with run_of(house(engine)) as agents:
        await say(agents, "one")
        await say(agents, "two")
    first, second = engine.seen
    assert second == [*first, ("assistant", "done"), ("user", "two")]


async def test_1_3_the_assistants_message_stands_in_the_conversation_exactly_once() -> None:
    engine = Scripted()
    async with run_of(house(engine)) as agents:
        for text in ("one", "two", "three"):
            await say(agents, text)
    order = [who for who, _ in engine.seen[-1]]
    assert order == ["system", "user", "assistant", "user", "assistant", "user"]


async def test_1_3_to_wait_for_its_caller_is_not_to_wait_for_a_person() -> None:
    engine = Scripted()
    async with run_of(house(engine)) as agents:
        await say(agents, "one")
        child = engine.children[0]
        assert child.interactive
        answered = await engine.run(child, engine.seen[0])
        assert answered.waiting_for_input
        assert not answered.answer.waiting_user


async def test_1_1_another_role_another_chat_and_another_run_have_their_own() -> None:
    engine = Scripted()
    shared = house(engine)
    async with run_of(shared) as here, run_of(shared, "agent:main:telegram:direct:7") as there:
        await say(here, "one")
        await say(there, "two")
        await say(here, "three", "critic")
    assert [len(seen) for seen in engine.seen] == [2, 2, 2]
    async with run_of(shared) as later:
        await say(later, "four")
    assert engine.seen[-1] == [engine.seen[0][0], ("user", "four")]


async def test_1_1_two_runs_of_one_session_do_not_share_conversations_by_accident() -> None:
    shared = house(Scripted())
    async with run_of(shared):
        with pytest.raises(BridgeError) as caught:
            run_of(shared).begin()
    assert caught.value.code == "busy"


async def test_1_2_a_call_that_is_not_interactive_leaves_the_conversation_alone() -> None:
    engine = Scripted()
    async with run_of(house(engine)) as agents:
        await say(agents, "one")
        await sub_agent(manager(agents), ROLES, {"task": "aside", "role": "tutor"})
        await say(agents, "two")
    assert [text for _, text in engine.seen[-1]][1:] == ["one", "done", "two"]


async def test_1_4_the_end_of_a_turn_keeps_the_conversation_and_consolidates_nothing() -> None:
    engine, shared = Scripted(), Household(Scripted())
    shared = house(engine)
    async with run_of(shared) as agents:
        await say(agents, "one")
        assert engine.diary == ["run one"]
        assert shared.conversations.roles(CHAT) == ("tutor",)


async def test_1_8_two_at_once_are_said_one_after_the_other_and_none_is_lost() -> None:
    engine = Scripted()
    async with run_of(house(engine)) as agents:
        await say(agents, "first")
        await at_once(
            lambda: say(agents, "wait a"),
            lambda: say(agents, "b"),
            lambda: say(agents, "c"),
            lambda: release(engine),
        )
    assert [text for who, text in engine.seen[-1] if who == "user"] == ["first", "wait a", "b", "c"]


async def release(engine: Scripted) -> None:
    """Let the turn that waits go on, once others wait behind it."""
    await anyio.wait_all_tasks_blocked()
    engine.go.set()


async def test_1_12_two_first_calls_at_once_make_one_conversation() -> None:
    engine, registry = Scripted(), Registered()
    async with run_of(house(engine, registry=registry)) as agents:
        await at_once(
            lambda: say(agents, "wait a"), lambda: say(agents, "b"), lambda: release(engine)
        )
    assert [text for who, text in engine.seen[-1] if who == "user"] == ["wait a", "b"]
    assert sum(line.startswith("open") for line in registry.lines) == 1


async def test_1_9_a_long_dialogue_stays_as_short_as_compression_makes_it() -> None:
    engine = Scripted(longest=4)
    async with run_of(house(engine)) as agents:
        for number in range(20):
            await say(agents, str(number))
    assert max(len(seen) for seen in engine.seen) == 5
    assert engine.seen[-1][0] == ("system", "tutor\n\nWorking directory: /srv/here\n")
    assert engine.seen[-1][-1] == ("user", "19")


async def test_a_turn_that_fails_leaves_a_conversation_that_goes_on() -> None:
    engine = Scripted()
    async with run_of(house(engine)) as agents:
        assert "Sub-agent error" in await say(agents, "raise odd")
        assert await say(agents, "two") == "done"
    assert [text for who, text in engine.seen[-1] if who == "user"] == ["raise odd", "two"]


async def test_a_conversation_that_cannot_begin_is_not_kept() -> None:
    registry = Registered(refuses=BridgeError("subagent_policy", "Too many."))
    engine = Scripted()
    shared = house(engine, registry=registry)
    async with run_of(shared) as agents:
        told = await at_once(lambda: say(agents, "a"), lambda: say(agents, "b"))
        assert all("Too many." in str(text) for text in told)
        assert shared.conversations.roles(CHAT) == ()
        registry.refuses = None
        assert await say(agents, "c") == "done"
    assert engine.seen[-1][1:] == [("user", "c")]


# ---- Unloading ----


async def test_1_5_unloading_consolidates_ends_and_says_so() -> None:
    engine, registry = Scripted(), Registered()
    shared = house(engine, registry=registry)
    async with run_of(shared) as agents:
        await say(agents, "one")
        assert await unload(agents) == "The sub-agent 'tutor' was ended."
        assert engine.diary == ["run one", "consolidate tutor 3"]
        assert registry.lines[-1] == "close key-1"
        assert shared.conversations.roles(CHAT) == ()
        await say(agents, "two")
    assert engine.seen[-1][1:] == [("user", "two")]


async def test_1_5_a_role_that_nobody_talks_with_is_said_to_be_none() -> None:
    async with run_of(house(Scripted())) as agents:
        told = await unload(agents, "critic")
        assert told == "There is no interactive sub-agent 'critic'; nothing was ended."
        assert "role: it must be a text" in await unload(agents, "")


async def test_1_5_of_two_that_unload_the_second_finds_none() -> None:
    engine = Scripted()
    async with run_of(house(engine)) as agents:
        await say(agents, "one")
        told = await at_once(lambda: unload(agents), lambda: unload(agents))
        assert sorted(str(text).partition(" ")[0] for text in told) == ["The", "There"]
        assert "no interactive" in await unload(agents)
    assert engine.diary.count("consolidate tutor 3") == 1


async def test_1_5_it_is_gone_before_it_is_consolidated() -> None:
    engine = Scripted()
    shared = house(engine)
    seen: list[tuple[str, ...]] = []

    async def consolidate(_child: object, _messages: object) -> None:
        seen.append(shared.conversations.roles(CHAT))

    shared = house(engine, consolidate=consolidate)
    async with run_of(shared) as agents:
        await say(agents, "one")
        await unload(agents)
    assert seen == [()]


async def test_1_5b_a_running_turn_is_stopped_before_anything_is_consolidated() -> None:
    engine, registry = Scripted(), Registered()
    shared = house(engine, registry=registry)

    async def stop() -> str:
        await engine.begun.wait()
        await anyio.wait_all_tasks_blocked()
        return await unload(agents)

    async with run_of(shared) as agents:
        told = await at_once(lambda: say(agents, "wait"), lambda: say(agents, "behind"), stop)
    stopped = "Sub-agent error: The sub-agent's turn was stopped."
    assert told == [stopped, stopped, "The sub-agent 'tutor' was ended."]
    assert engine.diary == ["run wait", "consolidate tutor 2"]
    assert registry.lines[1:] == ["turn key-1 wait", "cancelled key-1", "close key-1"]


async def test_1_5b_a_turn_that_does_not_stop_holds_up_nobody_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(interactive, "STOP_WAIT", 0.01)
    talks, deaf = Conversations(), Deaf()

    async def stop() -> object:
        await deaf.begun.wait()
        try:
            return await talks.unload("me", "deaf")
        finally:
            deaf.go.set()

    talks.begin("me")
    told = await at_once(lambda: talks.call("me", "deaf", CAUSE, deaf), stop)
    await talks.end("me")
    assert deaf.diary == ["begin", "consolidate", "close", "end"]
    assert told[1] == interactive.Unloaded(found=True)


@dataclass
class Deaf:
    """A conversation whose turns shield themselves; also a backend for it."""

    diary: list[str] = field(default_factory=list)
    begun: anyio.Event = field(default_factory=anyio.Event)
    go: anyio.Event = field(default_factory=anyio.Event)
    fails: bool = False

    async def open(self, message: InboundMessage) -> "Deaf":
        return self

    async def turn(self, message: InboundMessage) -> OutboundMessage:
        self.diary.append("begin")
        self.begun.set()
        with anyio.CancelScope(shield=True):
            await self.go.wait()
        self.diary.append("end")
        return OutboundMessage(content="late")

    async def consolidate(self) -> None:
        self.diary.append("consolidate")

    async def close(self) -> None:
        self.diary.append("close")


async def test_a_role_without_a_memory_keeps_nothing() -> None:
    engine = Scripted()
    async with run_of(house(engine)) as agents:
        await say(agents, "one", "forgetful")
        assert await unload(agents, "forgetful") == "The sub-agent 'forgetful' was ended."
    assert engine.diary == ["run one"]


async def test_a_child_that_a_person_killed_is_not_followed_by_another_in_silence() -> None:
    engine, registry = Scripted(), Registered()
    async with run_of(house(engine, registry=registry)) as agents:
        await say(agents, "one")
        registry.killed.add("key-1")
        told = await say(agents, "two")
        assert "is closed" in told
        assert "UnloadSubAgent" in told
        await unload(agents)
        assert await say(agents, "three") == "done"


# ---- The end of the caller ----


@pytest.mark.parametrize("ending", ["return", "error", "cancel"])
async def test_1_6_the_end_of_the_callers_run_ends_all_its_conversations(ending: str) -> None:
    engine, registry = Scripted(), Registered()
    shared = house(engine, registry=registry)
    agents = run_of(shared)
    with anyio.CancelScope() as scope:
        try:
            async with agents:
                await say(agents, "one")
                await say(agents, "two", "critic")
                if ending == "error":
                    raise RuntimeError("the caller's own")
                if ending == "cancel":
                    scope.cancel()
                    await anyio.lowlevel.checkpoint()
        except RuntimeError:
            assert ending == "error"
    assert sorted(engine.diary[2:]) == ["consolidate critic 3", "consolidate tutor 3"]
    assert sorted(registry.lines[-2:]) == ["close key-1", "close key-2"]
    assert shared.conversations.roles(CHAT) == ()
    assert "is over" in await say(agents, "late")


async def test_1_6_another_callers_conversations_stay() -> None:
    shared = house(Scripted())
    async with run_of(shared, "agent:main:telegram:direct:7") as other:
        await say(other, "mine")
        async with run_of(shared) as agents:
            await say(agents, "one")
        assert shared.conversations.roles("agent:main:telegram:direct:7") == ("tutor",)


async def test_1_6_one_that_fails_to_consolidate_keeps_no_other_from_it() -> None:
    engine, registry = Scripted(), Registered()

    async def consolidate(child: Any, _messages: object) -> None:
        engine.diary.append(f"consolidate {child.role}")
        if child.role == "tutor":
            raise RuntimeError("no memory")

    shared = house(engine, registry=registry, consolidate=consolidate)
    async with run_of(shared) as agents:
        await say(agents, "one")
        await say(agents, "two", "critic")
    assert sorted(engine.diary[2:]) == ["consolidate critic", "consolidate tutor"]
    assert sorted(registry.lines[-2:]) == ["close key-1", "close key-2"]
    async with run_of(shared) as agents:
        await say(agents, "three")
        told = await unload(agents)
    assert told == (
        "The sub-agent 'tutor' was ended. What it has learnt could not be kept: RuntimeError."
    )


async def test_1_6_a_memory_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interactive, "CONSOLIDATE_WAIT", 0.01)

    async def consolidate(_child: object, _messages: object) -> None:
        await anyio.sleep_forever()

    registry = Registered()
    async with run_of(house(Scripted(), registry=registry, consolidate=consolidate)) as agents:
        await say(agents, "one")
        assert "TimeoutError" in await unload(agents)
    assert registry.lines[-1] == "close key-1"


async def test_1_6_whoever_it_has_called_itself_is_ended_with_a_conversation() -> None:
    engine, registry = Scripted(), Registered()
    shared = house(engine, registry=registry)
    async with run_of(shared) as agents:
        await say(agents, "one")
        below = engine.children[0]
        params = {"task": "deep", "role": "critic", "interactive": True}
        await sub_agent(below.manager, ROLES, params)
        assert shared.conversations.roles(below.key) == ("critic",)
        await say(agents, "two")  # a turn more, and it is still there
        assert shared.conversations.roles(below.key) == ("critic",)
        await unload(agents)
        assert shared.conversations.roles(below.key) == ()
    closed = [line for line in registry.lines if line.startswith("close")]
    assert closed == ["close key-2", "close key-1"]


async def test_1_7_nothing_of_a_conversation_is_anywhere_but_in_memory() -> None:
    engine = Scripted()
    async with run_of(house(engine)) as agents:
        await say(agents, "one")
    # As after a restart: another process has another house.
    async with run_of(house(engine)) as agents:
        await say(agents, "two")
    assert engine.seen[-1][1:] == [("user", "two")]


async def test_1_11_an_agent_that_is_no_role_is_talked_with_by_the_same_call() -> None:
    deaf = Deaf()
    deaf.go.set()
    shared = house(Scripted(), elsewhere=lambda name: deaf if name == "codex" else None)
    roles = Roles({**ROLES.known, "codex": Role("codex")})
    async with run_of(shared) as agents:
        params = {"task": "x", "role": "codex", "interactive": True}
        assert await sub_agent(manager(agents), roles, params) == "late"
        assert shared.conversations.roles(CHAT) == ("codex",)
    assert deaf.diary == ["begin", "end", "consolidate", "close"]
    # And once only: it is let go of at once.
    async with run_of(shared) as agents:
        assert await sub_agent(manager(agents), roles, {"task": "x", "role": "codex"}) == "late"
        assert deaf.diary[4:] == ["begin", "end", "consolidate", "close"]
    # The chain of calls binds it as well.
    looped = SubAgents(Caller(CHAT, Tools("SubAgent"), CallChain().spawn("codex")), shared)
    async with looped as agents:
        told = await sub_agent(manager(agents), roles, {"task": "x", "role": "codex"})
    assert "circular" in told
