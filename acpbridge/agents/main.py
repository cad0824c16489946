"""A main agent behind a channel: each message becomes a run of the loop, and the answer goes back.

The messages of one chat are answered one after another, those of several side by side; what a tool
puts into a chat waits there behind what has come before. What a run has and has not is decided
here, by its `RunConfig`; the loop is the same as that of a sub-agent.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Final, Protocol, Self

import anyio
from pydantic_ai.messages import ModelMessage

from acpbridge.agents.client import Client, system, user
from acpbridge.agents.compression import CompressConfig
from acpbridge.agents.context import ToolContextExtras
from acpbridge.agents.loop import RunConfig, RunResult, run
from acpbridge.agents.registry import ToolRegistry
from acpbridge.errors import BridgeError
from acpbridge.logline import Logger
from acpbridge.model.address import Address
from acpbridge.model.inbound import InboundMessage
from acpbridge.model.outbound import OutboundMessage

log = Logger(__name__)

# How a message is marked when its answer has gone out, and when there was none.
DONE: Final = "done"
FAILED: Final = "failed"

# Messages that may wait in one chat, as in the inbox of a session.
WAITING: Final = 20

MAIN: Final = Address.agent("main")


class Channel(Protocol):
    """Where messages come from and answers go to."""

    async def send(self, message: OutboundMessage) -> None:
        """Send a message."""
        ...

    async def react(self, message: InboundMessage, mark: str) -> None:
        """Mark a message that came in."""
        ...


class Conversations(Protocol):
    """Keeps what was said in each chat."""

    async def load(self, chat: str) -> Sequence[ModelMessage]:
        """Return the conversation of a chat, empty for a new one."""
        ...

    async def append(self, chat: str, messages: Sequence[ModelMessage]) -> None:
        """Add messages to a conversation, in order."""
        ...


SubAgentsOf = Callable[[RunConfig, InboundMessage], AbstractAsyncContextManager[Any]]
"""Returns the `SubAgentManager` of a run that answers a message, for as long as the run lasts."""


@dataclass(frozen=True, slots=True)
class Wiring:
    """How a main agent is put together; what is None it does not have.

    Attributes:
        client: asks models.
        model_of: the name of the model that answers a sender, by the sender's id.
        tools: what it may call.
        conversations: keeps what was said.
        instructions: what it is told before everything else.
        max_iterations: see `RunConfig`.
        shows_progress: whether a chat is told what a long run does.
        auto_compress: see `RunConfig`.
        sub_agents: see `SubAgentsOf`.
        extras: of its tools; to inject messages it always may.
    """

    client: Client
    model_of: Callable[[str], str]
    tools: ToolRegistry
    conversations: Conversations
    instructions: str = ""
    max_iterations: int = 0
    shows_progress: bool = False
    auto_compress: CompressConfig | None = None
    sub_agents: SubAgentsOf | None = None
    extras: ToolContextExtras = field(default_factory=ToolContextExtras)


class MainAgent:
    """Answers the messages of a channel; an async context manager, whose end cancels what runs.

    Args:
        wiring: how it is put together.
        channel: where answers go.
    """

    def __init__(self, wiring: Wiring, channel: Channel) -> None:
        self._wiring = wiring
        self._channel = channel
        self._tasks = anyio.create_task_group()
        self._waiting: dict[str, deque[InboundMessage]] = {}

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        self._tasks.cancel_scope.cancel()
        return await self._tasks.__aexit__(kind, error, traceback)

    def receive(self, message: InboundMessage) -> None:
        """Take a message; it is answered when those before it in its chat have been.

        Raises:
            BridgeError: `busy`: too many wait in that chat already.
        """
        chat = _chat(message)
        waiting = self._waiting.get(chat)
        if waiting is None:
            self._waiting[chat] = deque([message])
            self._tasks.start_soon(self._serve, chat)
        elif len(waiting) > WAITING:
            raise BridgeError("busy", f"{WAITING} messages wait in {chat} already.")
        else:
            waiting.append(message)

    async def process(self, message: InboundMessage) -> OutboundMessage:
        """Answer a message now: run, keep, reply, mark. What goes wrong is in the answer."""
        try:
            result = await self._run(message)
        except Exception as error:
            # The boundary of a call: stores and whoever was handed in.
            log.exception("a message could not be answered")
            result = RunResult(error=error)
        out = _answer(message, result)
        if out.content:
            await self._tried(self._channel.send(out))
        await self._tried(self._channel.react(message, FAILED if result.error else DONE))
        return out

    async def _serve(self, chat: str) -> None:
        """Answer what waits in a chat; the first stays there meanwhile, for it is being served."""
        waiting = self._waiting[chat]
        while waiting:
            await self.process(waiting[0])
            waiting.popleft()
        del self._waiting[chat]

    async def _run(self, message: InboundMessage) -> RunResult:
        wiring, chat = self._wiring, _chat(message)
        asked = user(message.content)
        before = await wiring.conversations.load(chat)
        await wiring.conversations.append(chat, [asked])
        told = [system(wiring.instructions)] if wiring.instructions else []
        config = self._config(message, (*told, *before, asked))
        async with AsyncExitStack() as stack:
            if wiring.sub_agents is not None:
                entering = wiring.sub_agents(config, message)
                manager = await stack.enter_async_context(entering)
                config = replace(config, spawn_agent=manager)
            return await run(config)

    def _config(self, message: InboundMessage, messages: Sequence[ModelMessage]) -> RunConfig:
        wiring, chat = self._wiring, _chat(message)

        async def keep(added: Sequence[ModelMessage]) -> None:
            await wiring.conversations.append(chat, added)

        async def progress(lines: Sequence[str]) -> None:
            await self._channel.send(_to(message, "\n".join(lines)))

        async def send(channel: str, chat_id: str, content: str) -> None:
            whom = OutboundMessage(
                content=content,
                sender=MAIN,
                recipient=Address.im(channel, chat_id),
                channel=channel,
                chat_id=chat_id,
            )
            await self._channel.send(whom)

        return RunConfig(
            client=wiring.client,
            model=wiring.model_of(message.origin_sender_id()),
            tools=wiring.tools,
            messages=messages,
            channel=message.origin_channel(),
            chat_id=message.origin_chat_id(),
            sender_id=message.origin_sender_id(),
            sender_name=message.sender_name,
            max_iterations=wiring.max_iterations,
            session=keep,
            progress=progress if wiring.shows_progress else None,
            auto_compress=wiring.auto_compress,
            send=send,
            extras=replace(wiring.extras, inject_inbound=self._inject),
        )

    def _inject(self, channel: str, chat_id: str, sender_id: str, content: str) -> None:
        self.receive(
            InboundMessage(channel=channel, chat_id=chat_id, sender_id=sender_id, content=content)
        )

    async def _tried(self, sending: Awaitable[None]) -> None:
        """Send something; a channel that is down loses one answer, and not the agent."""
        try:
            await sending
        except Exception:
            # The boundary of a call: somebody's channel.
            log.exception("a channel took no message")


def _chat(message: InboundMessage) -> str:
    return f"{message.origin_channel()}:{message.origin_chat_id()}"


def _to(message: InboundMessage, content: str) -> OutboundMessage:
    return OutboundMessage.to(message.origin(), MAIN, content)


def _answer(message: InboundMessage, result: RunResult) -> OutboundMessage:
    """Return what goes back: a failure without words is one to its reader too."""
    content = result.content
    if not content and result.error is not None:
        content = f"Error: {result.error}"
    return _to(message, content).model_copy(
        update={
            "tools_used": result.tools_used,
            "waiting_user": result.waiting_user,
            "media": result.media,
            "error": result.error,
        }
    )
