"""A main agent behind a channel of a test: what it is wired to, and in which order it answers."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, UserPromptPart

from acpbridge.agents.asking import asking_tools
from acpbridge.agents.client import text_of
from acpbridge.agents.delegating import roles_of
from acpbridge.agents.loop import RunConfig
from acpbridge.agents.main import DONE, FAILED, WAITING, MainAgent, Wiring
from acpbridge.agents.registry import Tool, ToolRegistry
from acpbridge.agents.roles import Role, Roles
from acpbridge.errors import BridgeError
from acpbridge.model.inbound import InboundMessage
from acpbridge.model.outbound import OutboundMessage
from tests.unit.agents.scripted import Scripted, Step, calls, says, tool


class Channel:
    """Notes what goes out, in order."""

    def __init__(self) -> None:
        self.sent: list[OutboundMessage] = []
        self.marks: list[tuple[str, str]] = []
        self.broken = False
        self.quiet = anyio.Event()
        self._left = 0

    def expect(self, marks: int) -> None:
        self._left = marks

    async def send(self, message: OutboundMessage) -> None:
        if self.broken:
            raise ConnectionError("down")
        self.sent.append(message)

    async def react(self, message: InboundMessage, mark: str) -> None:
        self.marks.append((message.content, mark))
        self._left -= 1
        if self._left == 0:
            self.quiet.set()

    @property
    def texts(self) -> list[str]:
        return [message.content for message in self.sent]


class Kept:
    """Conversations in memory."""

    def __init__(self) -> None:
        self.chats: dict[str, list[ModelMessage]] = {}

    async def load(self, chat: str) -> Sequence[ModelMessage]:
        return list(self.chats.get(chat, ()))

    async def append(self, chat: str, messages: Sequence[ModelMessage]) -> None:
        self.chats.setdefault(chat, []).extend(messages)


class World:
    """A main agent with everything that it needs."""

    def __init__(self, *steps: Step, tools: Sequence[Tool] = (), **wired: Any) -> None:
        self.model = Scripted(*steps)
        self.channel, self.kept = Channel(), Kept()
        self.asked_for: list[str] = []
        wiring = Wiring(
            client=self.model.client,
            model_of=self._model_of,
            tools=ToolRegistry(tools),
            conversations=self.kept,
            **wired,
        )
        self.agent = MainAgent(wiring, self.channel)

    def _model_of(self, sender: str) -> str:
        self.asked_for.append(sender)
        return "large" if sender == "boss" else "small"


def message(content: str, sender: str = "u1", chat: str = "c1", **more: Any) -> InboundMessage:
    return InboundMessage(channel="cli", chat_id=chat, sender_id=sender, content=content, **more)


def prompts(messages: Sequence[ModelMessage]) -> list[str]:
    parts = (part for m in messages for part in m.parts)
    return [str(part.content) for part in parts if isinstance(part, UserPromptPart)]


async def test_0_20_the_model_is_chosen_by_the_sender() -> None:
    names: list[str] = []

    class Named(Scripted):
        async def generate(self, model: str, *_rest: object) -> ModelResponse:
            names.append(model)
            return says("ok")

    world = World()
    named = Named()
    agent = MainAgent(
        Wiring(named, world._model_of, ToolRegistry(), world.kept),
        world.channel,
    )
    await agent.process(message("hi", "boss"))
    await agent.process(message("hi", "u1"))
    assert names == ["large", "small"]


async def test_0_20_a_long_run_shows_progress_in_the_chat_where_that_is_wired() -> None:
    steps = (calls("look"), says("Done."))
    world = World(*steps, tools=[tool("look")], shows_progress=True)
    await world.agent.process(message("go"))
    assert world.channel.texts == ["> look {}\n> thinking...", "Done."]
    quiet = World(*steps, tools=[tool("look")])
    await quiet.agent.process(message("go"))
    assert quiet.channel.texts == ["Done."]


async def test_0_20_a_conversation_is_saved_once_and_goes_on_with_the_next_message() -> None:
    world = World(calls("look"), says("One."), says("Two."), tools=[tool("look")])
    await world.agent.process(message("first"))
    await world.agent.process(message("second"))
    assert prompts(world.model.asked[2]) == ["first", "second"]
    kept = world.kept.chats["cli:c1"]
    assert prompts(kept) == ["first", "second"]
    said = [text_of(m) for m in kept if isinstance(m, ModelResponse)]
    assert said == ["", "One.", "Two."]
    assert len(kept) == 6


async def test_two_chats_do_not_see_one_another() -> None:
    world = World(says("One."), says("Two."))
    await world.agent.process(message("first", chat="c1"))
    await world.agent.process(message("second", chat="c2"))
    assert prompts(world.model.asked[1]) == ["second"]


async def test_0_20_the_reply_goes_to_where_the_message_came_from() -> None:
    world = World(calls("look"), says("<think>x</think>Hello."), tools=[tool("look")])
    out = await world.agent.process(message("hi", account="bot2", thread="t9"))
    (sent,) = world.channel.sent
    assert sent == out
    assert (sent.content, sent.channel, sent.chat_id) == ("Hello.", "cli", "c1")
    assert (sent.account, sent.thread) == ("bot2", "t9")
    assert sent.tools_used == ("look",)
    assert str(sent.sender) == "agent://main"


async def test_0_20_a_message_is_marked_by_how_its_answer_went() -> None:
    world = World(says("ok"), ConnectionError("no route"))
    await world.agent.process(message("good"))
    out = await world.agent.process(message("bad"))
    assert world.channel.marks == [("good", DONE), ("bad", FAILED)]
    assert isinstance(out.error, BridgeError)
    assert world.channel.texts[1].startswith("Error: The model gave no answer")


async def test_a_channel_that_is_down_ends_nothing() -> None:
    world = World(says("ok"), says("again"))
    world.channel.broken = True
    assert (await world.agent.process(message("one"))).content == "ok"
    world.channel.broken = False
    await world.agent.process(message("two"))
    assert world.channel.texts == ["again"]


async def test_a_store_that_fails_is_told_and_no_model_is_asked() -> None:
    world = World()

    async def full(*_args: object) -> None:
        raise BridgeError("store_full", "No space is left.")

    world.kept.append = full  # type: ignore[assignment, method-assign]
    out = await world.agent.process(message("hi"))
    assert isinstance(out.error, BridgeError)
    assert (out.error.code, world.model.asked) == ("store_full", [])
    assert world.channel.marks == [("hi", FAILED)]


async def test_0_19_injected_messages_arrive_in_the_sessions_order() -> None:
    async def remind(context: Any, _arguments: object) -> str:
        context.inject_inbound("cli", "c1", "cron", "injected one")
        context.inject_inbound("cli", "c1", "cron", "injected two")
        return "queued"

    steps = (calls("remind"), says("A."), says("B."), says("C."), says("D."))
    world = World(*steps, tools=[tool("remind", remind)])
    world.channel.expect(4)
    with anyio.fail_after(20):
        async with world.agent as agent:
            agent.receive(message("first"))
            agent.receive(message("second"))
            await world.channel.quiet.wait()
    handled = [content for content, _ in world.channel.marks]
    assert handled == ["first", "second", "injected one", "injected two"]
    assert world.channel.texts == ["A.", "B.", "C.", "D."]
    assert world.asked_for == ["u1", "u1", "cron", "cron"]


async def test_two_chats_are_answered_side_by_side() -> None:
    inside, both = [0], anyio.Event()

    async def meet() -> ModelResponse:
        inside[0] += 1
        if inside[0] == 2:
            both.set()
        await both.wait()
        return says("met")

    world = World(meet, meet)
    world.channel.expect(2)
    with anyio.fail_after(20):
        async with world.agent as agent:
            agent.receive(message("a", chat="c1"))
            agent.receive(message("b", chat="c2"))
            await world.channel.quiet.wait()
    assert world.channel.texts == ["met", "met"]


async def test_a_chat_whose_inbox_is_full_refuses_and_keeps_what_it_has() -> None:
    async def hang() -> ModelResponse:
        await anyio.sleep_forever()
        return says("never")

    world = World(hang)
    with anyio.fail_after(20):
        async with world.agent as agent:
            for number in range(WAITING + 1):
                agent.receive(message(str(number)))
            with pytest.raises(BridgeError) as caught:
                agent.receive(message("one too many"))
            agent.receive(message("another chat", chat="c2"))
    assert caught.value.code == "busy"


async def test_0_7_a_run_gets_the_sub_agents_that_are_wired_for_as_long_as_it_lasts() -> None:
    life: list[str] = []

    class Manager:
        pass

    @asynccontextmanager
    async def sub_agents(config: RunConfig, cause: InboundMessage) -> AsyncIterator[Manager]:
        life.append(f"begin {config.agent_path} {cause.content}")
        try:
            yield Manager()
        finally:
            life.append("end")

    async def delegate(context: Any, _arguments: object) -> str:
        life.append(type(context.manager).__name__)
        return "ok"

    steps = (calls("delegate"), says("Done."))
    world = World(*steps, tools=[tool("delegate", delegate)], sub_agents=sub_agents)
    await world.agent.process(message("go"))
    assert life == ["begin main go", "Manager", "end"]


async def test_0_7_a_role_that_a_main_agent_calls_runs_on_the_same_loop() -> None:
    roles = Roles({"reviewer": Role("reviewer", "Reviews", "You review.", ("look",))})
    ask = ("SubAgent", {"role": "reviewer", "task": "look at it"})
    steps = (calls(ask), calls("look"), says("Fine."), says("They say: fine."))
    tools = [tool("look"), tool("write"), *asking_tools(roles)]
    world = World(*steps, tools=tools, sub_agents=roles_of(workspace="/w"))
    out = await world.agent.process(message("go"))
    assert (out.content, out.tools_used) == ("They say: fine.", ("SubAgent",))
    assert world.model.offered[1] == ["look"]
    assert "/w" in str(world.model.asked[1][0])
    assert prompts(world.kept.chats["cli:c1"]) == ["go"], "a child's words are not the chat's"


async def test_a_tool_may_write_to_another_chat() -> None:
    async def tell(context: Any, _arguments: object) -> str:
        await context.send("cli", "c2", "Look here.")
        return "told"

    world = World(calls("tell"), says("Done."), tools=[tool("tell", tell)])
    await world.agent.process(message("go"))
    first = world.channel.sent[0]
    assert (first.content, first.chat_id) == ("Look here.", "c2")
