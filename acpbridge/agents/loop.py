"""The loop of an agent: ask the model, do what it asks for, ask again, until it only answers.

The same for a main agent and for one that it has called; they differ by their `RunConfig` alone,
in which whatever is None is an ability that the run does not have. `run` returns how it went. A
cancellation of its task goes through; an end that was asked for by `Stop` is a result, with what
had been done by then.
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import anyio
import anyio.lowlevel
from pydantic_ai.messages import ModelMessage, ModelRequest, ModelResponse, ToolCallPart

from acpbridge.agents.calling import Calls, OAuth, shown
from acpbridge.agents.client import Client, LLMGenerateError, assistant, system, text_of
from acpbridge.agents.compression import CompressConfig, Compressor
from acpbridge.agents.context import Send, ToolContext, ToolContextExtras
from acpbridge.agents.registry import Tool, ToolRegistry
from acpbridge.agents.thinking import strip_think_blocks
from acpbridge.errors import BridgeError
from acpbridge.logline import Logger

log = Logger(__name__)

# A task that needs more answers of its model goes round in circles, as a rule.
DEFAULT_ITERATIONS: Final = 100

CANCELLED_TEXT: Final = "Agent was cancelled."
LIMIT_TEXT: Final = (
    "The largest number of iterations is reached; please say again what you need, in smaller steps."
)
THINKING: Final = "> thinking..."

# A channel that does not take a notice of progress does not hold up the work. Seconds.
PROGRESS_SECONDS: Final = 5.0

Progress = Callable[[Sequence[str]], Awaitable[None]]
"""Shows what a run has done so far and does now, a line each."""


Keeping = Callable[[Sequence[ModelMessage]], Awaitable[None]]
"""Keeps messages that a run has added to its conversation: each once, in order."""

Recalling = Callable[[Sequence[ModelMessage]], Awaitable[str]]
"""Returns what is remembered that has to do with a conversation, "" for nothing."""


class Stop:
    """Ends a run from outside, so that it returns; one for each run."""

    def __init__(self) -> None:
        self._scope = anyio.CancelScope()

    @property
    def requested(self) -> bool:
        """Whether the run is to end, or has ended so."""
        return self._scope.cancel_called

    def request(self) -> None:
        """End the run: now, or before it begins."""
        self._scope.cancel()

    @property
    def scope(self) -> anyio.CancelScope:
        """What the run is done in; for `run` alone."""
        return self._scope


@dataclass(frozen=True, slots=True)
class RunConfig:
    """One run of an agent.

    Attributes:
        client: asks the model.
        model: its name.
        tools: what the model may call.
        messages: the conversation so far, what is to be answered last. It is left as it is.
        agent_path: the call chain of who runs, `main/code-reviewer`.
        channel: that the message came by, "" for none.
        chat_id: of the conversation there.
        sender_id: who wrote.
        sender_name: the same for people.
        max_iterations: how often the model is asked at most; 0: 100 times.
        tool_activation_key: the session whose activated tools are offered; "": made of channel and
            chat. It is no session key of the bridge.
        session: keeps the conversation, see `Keeping`; None: it is kept in memory only.
        progress: shows how it goes, from the second iteration on; None: nobody is shown.
        auto_compress: keeps the conversation short; None: it may grow.
        send: sends a text to a channel; None: tools send nothing.
        memory: what is remembered of earlier conversations, put before the first message; None:
            nothing is.
        extras: further abilities of tools; None: none.
        spawn_agent: calls other agents, a `SubAgentManager`; None: it may not.
        oauth: sees calls that fail; None: the error is the tool's answer.
        interactive: whether the run is one turn of a conversation that goes on: its answer is
            appended to the messages, and it waits for input.
        stop: ends it from outside; None: only a cancellation of its task does.
    """

    client: Client
    model: str
    tools: ToolRegistry
    messages: Sequence[ModelMessage]
    agent_path: str = "main"
    channel: str = ""
    chat_id: str = ""
    sender_id: str = ""
    sender_name: str = ""
    max_iterations: int = 0
    tool_activation_key: str = ""
    session: Keeping | None = None
    progress: Progress | None = None
    auto_compress: CompressConfig | None = None
    send: Send | None = None
    memory: Recalling | None = None
    extras: ToolContextExtras | None = None
    spawn_agent: Any | None = None
    oauth: OAuth | None = None
    interactive: bool = False
    stop: Stop | None = None

    @property
    def activation_key(self) -> str:
        """The session whose tools are offered, "" for none."""
        own = f"{self.channel}:{self.chat_id}" if self.channel else ""
        return self.tool_activation_key or own


class Usage(NamedTuple):
    """Tokens."""

    input: int = 0
    output: int = 0


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run went.

    Attributes:
        content: what goes to whoever asked, without thoughts; "" where there is an error only.
        tools_used: names of the tools that were called, in order, however it ended.
        waiting_user: whether a tool waits for a person.
        waiting_for_input: whether an interactive run waits for its next message.
        error: why there is no better answer; what the model layer raised is its `__cause__`.
        messages: the conversation as it is now, compressed where it was.
        media: what tools want to go out with the answer.
        usage: what the model has counted, of all its answers together.
        context_tokens: what it counted for its last answer: what the conversation takes of its
            window; 0: not known.
        limit_reached: whether it was not asked further although it wanted to go on.
    """

    content: str = ""
    tools_used: tuple[str, ...] = ()
    waiting_user: bool = False
    waiting_for_input: bool = False
    error: Exception | None = None
    messages: tuple[ModelMessage, ...] = ()
    media: tuple[str, ...] = ()
    usage: Usage = field(default_factory=Usage)
    context_tokens: int = 0
    limit_reached: bool = False


async def run(config: RunConfig) -> RunResult:
    """Run an agent until its model has answered, has failed, or was asked often enough.

    Raises:
        BridgeError: `usage`: the number of iterations is negative.
    """
    if config.max_iterations < 0:
        raise BridgeError("usage", "The number of iterations is negative.", hint="0 is for 100.")
    running = _Running(config)
    stop = config.stop or Stop()
    with stop.scope:
        try:
            return await running.result()
        except BridgeError as error:
            # What a cancelled call raises is no failure of the model's.
            if not stop.requested:
                return running.outcome("", error=error)
    why = BridgeError("request_cancelled", CANCELLED_TEXT)
    return running.outcome(CANCELLED_TEXT, error=why)


def context_of(config: RunConfig) -> ToolContext:
    """Return what the tools of a run get to know and to use."""
    extras = config.extras or ToolContextExtras()
    key = config.activation_key
    return ToolContext(
        agent_path=config.agent_path,
        channel=config.channel,
        chat_id=config.chat_id,
        sender_id=config.sender_id,
        sender_name=config.sender_name,
        activation_key=key,
        send=config.send,
        manager=config.spawn_agent,
        activate=(lambda name: config.tools.activate(key, name)) if key else None,
        tenant=extras.tenant,
        inject_inbound=extras.inject_inbound,
        invalidate_all_session_mcp=extras.invalidate_all_session_mcp,
        services=extras.services,
    )


@dataclass(slots=True)
class _Running:
    """A run under way."""

    config: RunConfig
    messages: list[ModelMessage] = field(init=False)
    calls: Calls = field(init=False)
    lines: list[str] = field(default_factory=list)
    recalled: list[ModelMessage] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)
    context_tokens: int = 0

    def __post_init__(self) -> None:
        config = self.config
        self.messages = list(config.messages)
        self.calls = Calls(config.tools, context_of(config), config.oauth)

    def outcome(self, content: str, **fields: Any) -> RunResult:
        """Return a result with what was done so far."""
        return RunResult(
            content,
            tuple(self.calls.used),
            waiting_user=self.calls.waiting_user,
            messages=tuple(self.messages),
            media=tuple(self.calls.media),
            usage=self.usage,
            context_tokens=self.context_tokens,
            **fields,
        )

    async def result(self) -> RunResult:
        """Go round until there is an answer.

        Raises:
            BridgeError: there will be none.
        """
        config, key = self.config, self.config.activation_key
        if key:
            config.tools.tick(key)
        await self._recall()
        compressor = Compressor(config.auto_compress, config.model)
        for iteration in range(config.max_iterations or DEFAULT_ITERATIONS):
            self.messages = await compressor(self.messages)
            if iteration:
                await self._show(THINKING)
            tools = await config.tools.offered(key)
            answer = await self._ask(tools.values())
            wanted = [part for part in answer.parts if isinstance(part, ToolCallPart)]
            if not wanted:
                return await self._answered(answer)
            await self._add(answer)
            compressor.answered(answer, len(self.messages))
            self.lines += shown(wanted)
            if iteration:
                await self._show()
            await self._add(ModelRequest(await self.calls.run(wanted, tools)))
        return self.outcome(LIMIT_TEXT, limit_reached=True)

    async def _recall(self) -> None:
        if self.config.memory is not None:
            text = await self.config.memory(self.messages)
            self.recalled = [system(text)] if text else []

    async def _ask(self, tools: Iterable[Tool]) -> ModelResponse:
        await anyio.lowlevel.checkpoint()  # a run that is to end asks for nothing more
        messages = [*self.recalled, *self.messages]
        try:
            answer = await self.config.client.generate(self.config.model, messages, tools)
        except Exception as error:
            # The boundary of a call: a model, and the network before it.
            raise LLMGenerateError(error) from error
        told = answer.usage
        self.usage = Usage(
            self.usage.input + told.input_tokens, self.usage.output + told.output_tokens
        )
        self.context_tokens = told.input_tokens + told.output_tokens
        return answer

    async def _add(self, message: ModelMessage) -> None:
        self.messages.append(message)
        await self._keep(message)

    async def _keep(self, message: ModelMessage) -> None:
        if self.config.session is not None:
            await self.config.session([message])

    async def _answered(self, answer: ModelResponse) -> RunResult:
        content = strip_think_blocks(text_of(answer))
        message = assistant(content)
        if self.config.interactive:
            self.messages.append(message)
        await self._keep(message)
        return self.outcome(content, waiting_for_input=self.config.interactive)

    async def _show(self, *now: str) -> None:
        if self.config.progress is None:
            return
        try:
            with anyio.move_on_after(PROGRESS_SECONDS):
                await self.config.progress([*self.lines, *now])
        except Exception:
            # The boundary of a call: somebody's channel.
            log.exception("progress could not be shown")
