"""An agent that is a model: what its definition says, run over a `Turn` as any Python agent is.

Above is `serving`, which reads the definition that the daemon hands to the process, and hands in
the tools of the session. Each turn is one run of the loop; the conversation is kept in the
session's process, and ends with it.
"""

import os
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from anyio import to_thread
from pydantic_ai.exceptions import ModelAuthenticationError, UserError
from pydantic_ai.messages import BinaryContent, ModelMessage, ModelResponse, UserContent
from pydantic_ai.models import Model, infer_model, infer_model_profile
from pydantic_ai.providers import Provider, infer_provider_class

from acpbridge.agents.client import PydanticClient, assistant, system, user
from acpbridge.agents.compression import CompressConfig
from acpbridge.agents.context import ToolContext
from acpbridge.agents.family import DaemonCall, role_tools, roles_beside, with_roles
from acpbridge.agents.house import House, not_allowed
from acpbridge.agents.loop import RunConfig, RunResult, run
from acpbridge.agents.registry import Tool, ToolRegistry, ToolResult
from acpbridge.agents.summary import Summary
from acpbridge.agents.thinking import Separator
from acpbridge.config.catalogue import MODEL_VENDORS
from acpbridge.errors import BridgeError
from acpbridge.model.modelagent import HOUSE_TOOLS, SESSION_TOOLS, ModelAgent
from acpbridge.runtimes.turn import StopReason, Turn

SessionTools = Callable[[Sequence[str]], Awaitable[list[Tool]]]
"""Returns those of some session tools, by their names, that this session is given.

Raises:
    BridgeError: the daemon is not there.
"""

# Where the conversation is kept between the turns of a session.
_MESSAGES: Final = "acpbridge.messages"

NOT_ANSWERED: Final = "(This turn was cancelled before I had answered.)"


class ModelDriven:
    """The agent: called with a turn.

    Args:
        agent: what it is made of.
        session_tools: see `SessionTools`; None: there are none.
        resolve: returns the model of a name; None: that of the vendor which the name has.
        daemon: has a call served by the daemon that runs this process; None: there is none.
    """

    def __init__(
        self,
        agent: ModelAgent,
        session_tools: SessionTools | None = None,
        resolve: Callable[[str], Model] | None = None,
        daemon: DaemonCall | None = None,
    ) -> None:
        self._daemon = daemon
        self._agent = agent
        self._session_tools = session_tools
        self._resolve = resolve or self._vendors
        self._model: Model | None = None
        # 0 where nobody knows: then the conversation grows until the model refuses it.
        self._window = infer_model_profile(agent.model).get("context_window") or 0

    async def __call__(self, turn: Turn) -> StopReason | None:
        """Run one turn.

        Raises:
            BridgeError: `auth_required` without a key that is taken, `turn_failed`, or what a
                session tool cannot be had for.
        """
        before: tuple[ModelMessage, ...] = turn.state.get(_MESSAGES) or self._beginning(turn)
        messages = (*before, user(_content(turn)))
        # Kept from now on: a turn that is cut off is part of the conversation, whole or as this.
        turn.state[_MESSAGES] = (*messages, assistant(NOT_ANSWERED))
        house = House(turn, os.environ, frozenset(self._key_names))
        with house.open() as tools:
            registry = ToolRegistry(await self._chosen(turn, tools))
            quiet = PydanticClient(self._of)
            config = RunConfig(
                client=_Voice(turn, self._of),
                model=self._agent.model,
                tools=registry,
                messages=messages,
                max_iterations=self._agent.max_iterations,
                auto_compress=CompressConfig(Summary(quiet), model_tokens=self._window),
                interactive=True,
            )
            if self._agent.config:
                # In pieces too: vendors cut off a long answer that is awaited whole.
                unheard = PydanticClient(self._of, said=lambda _piece: None)
                async with with_roles(config, turn, unheard, self._daemon) as able:
                    result = await run(able)
            else:
                result = await run(config)
        turn.state[_MESSAGES] = result.messages
        return self._told(turn, result)

    @property
    def _key_names(self) -> tuple[str, ...]:
        return MODEL_VENDORS[self._agent.model.partition(":")[0]]

    def _beginning(self, turn: Turn) -> tuple[ModelMessage, ...]:
        where = f"Working directory: {turn.cwd}"
        return (system("\n\n".join(filter(None, (self._agent.instructions, where)))),)

    async def _chosen(self, turn: Turn, house: Mapping[str, Tool]) -> list[Tool]:
        own = [house[name] for name in self._agent.tools if name in HOUSE_TOOLS]
        others = [name for name in self._agent.tools if name in SESSION_TOOLS]
        if self._agent.config:
            own += role_tools(turn, await to_thread.run_sync(roles_beside, self._agent.config))
        if not others:
            return own
        if self._session_tools is None:
            message = f"There is no daemon here that could give {', '.join(others)}."
            raise BridgeError("usage", message)
        return [*own, *(_gated(turn, tool) for tool in await self._session_tools(others))]

    def _told(self, turn: Turn, result: RunResult) -> StopReason | None:
        """Tell what a run has come to, besides what it has said already."""
        turn.tokens(input=result.usage.input, output=result.usage.output)
        if self._window and result.context_tokens:
            turn.usage(result.context_tokens, self._window)
        if result.error is not None:
            raise self._failure(result.error)
        if result.limit_reached:
            turn.say(f"\n\n{result.content}" if turn.said else result.content)
            return StopReason.MAX_TURN_REQUESTS
        return None

    def _failure(self, error: Exception) -> Exception:
        cause = error.__cause__
        if isinstance(cause, ModelAuthenticationError | _NoKeyError):
            name = self._key_names[0]
            what = "has no API key" if isinstance(cause, _NoKeyError) else "refused the API key"
            # All in the message: on the wire of ACP there is no hint.
            message = (
                f"{self._agent.model} {what}: set {name} where you call acpbridge, and pass it on "
                f"with `env: {{pass: [{name}]}}` in the agent's entry."
            )
            return BridgeError("auth_required", message)
        return error

    def _of(self, name: str) -> Model:
        if self._model is None:
            self._model = self._resolve(name)
        return self._model

    def _vendors(self, name: str) -> Model:
        return infer_model(name, provider_factory=self._provider)

    def _provider(self, vendor: str) -> Provider[Any]:
        made: Callable[..., Provider[Any]] = infer_provider_class(vendor)
        try:
            return made(base_url=self._agent.base_url) if self._agent.base_url else made()
        except UserError as error:
            raise _NoKeyError(str(error)) from error


class _NoKeyError(Exception):
    """There is no API key in the environment."""


class _Voice:
    """A client that says what the model says, as it comes: each answer as a paragraph."""

    def __init__(self, turn: Turn, resolve: Callable[[str], Model]) -> None:
        self._turn = turn
        self._client = PydanticClient(resolve, said=self._said, thought=turn.think)
        self._parts = Separator()
        self._apart = False

    async def generate(
        self, model: str, messages: Sequence[ModelMessage], tools: Iterable[Tool]
    ) -> ModelResponse:
        """Return the model's next answer, which was said meanwhile; see `Client`."""
        self._parts, self._apart = Separator(), bool(self._turn.said)
        try:
            return await self._client.generate(model, messages, tools)
        finally:
            self._tell(*self._parts.end())

    def _said(self, piece: str) -> None:
        self._tell(*self._parts.feed(piece))

    def _tell(self, said: str, thought: str) -> None:
        if thought:
            self._turn.think(thought)
        if said:
            between = "\n\n" if self._apart else ""
            self._apart = False
            self._turn.say(between + said)


def _gated(turn: Turn, tool: Tool) -> Tool:
    """Return a session tool that is shown like every other, and asked for if it does something."""

    async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult | str:
        title = tool.name if tool.reads else f"{tool.name}: have other agents work"
        kind = "read" if tool.reads else "other"
        async with turn.tool(title, kind=kind, raw_input=dict(arguments)) as call:
            if not tool.reads and not await call.ask():
                raise not_allowed(tool.name)
            return await tool.run(context, arguments)

    return replace(tool, run=run)


def _content(turn: Turn) -> str | list[UserContent]:
    """Return a prompt as the model is given it: text, pictures, and what it refers to."""
    texts = [turn.text]
    for resource in turn.resources:
        about = f"<resource uri={resource.uri!r}>"
        texts.append(about if resource.text is None else f"{about}\n{resource.text}\n</resource>")
    text = "\n\n".join(filter(None, texts))
    images = [BinaryContent(image.data, media_type=image.mime_type) for image in turn.images]
    return [*([text] if text else []), *images] if images else text
