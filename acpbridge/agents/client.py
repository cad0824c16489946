"""A model as the loop asks it: messages and tools in, one answer out.

Below is the model layer of pydantic-ai, which speaks the APIs of the vendors; a prompt is sent
once, and again only where the vendor's own client does so. Importing this module takes a second, so
only what runs an agent by a model does.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from pydantic_ai import direct
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    SystemPromptPart,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    UserContent,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from acpbridge.agents.registry import Tool
from acpbridge.errors import BridgeError

Heard = Callable[[str], None]
"""Told a piece of what the model says or thinks, as it comes."""


class LLMGenerateError(BridgeError):
    """A model has not answered; why is its `__cause__`."""

    def __init__(self, cause: BaseException) -> None:
        said = " ".join(str(cause).split())[:1000]
        text = f"The model gave no answer: {type(cause).__name__}" + (f": {said}" if said else ".")
        super().__init__("turn_failed", text)
        self.__cause__ = cause


class Client(Protocol):
    """Whatever answers; raises what it likes when it cannot."""

    async def generate(
        self, model: str, messages: Sequence[ModelMessage], tools: Iterable[Tool]
    ) -> ModelResponse:
        """Return the model's next answer."""
        ...


class PydanticClient:
    """A model of pydantic-ai.

    Args:
        resolve: returns the model of a name.
        said: told each piece of text as it comes; None: the answer is awaited whole.
        thought: the same of what the model thinks, where it says so apart from its text.
    """

    def __init__(
        self,
        resolve: Callable[[str], Model],
        *,
        said: Heard | None = None,
        thought: Heard | None = None,
    ) -> None:
        self._resolve = resolve
        self._said = said
        self._thought = thought

    @classmethod
    def of(cls, model: Model) -> "PydanticClient":
        """Return a client of one model, whatever name is asked for."""
        return cls(lambda _: model)

    async def generate(
        self, model: str, messages: Sequence[ModelMessage], tools: Iterable[Tool]
    ) -> ModelResponse:
        """Return the model's next answer; see `Client`."""
        offered = ModelRequestParameters(function_tools=[_definition(tool) for tool in tools])
        found = self._resolve(model)
        if self._said is None:
            return await direct.model_request(
                found, messages, model_request_parameters=offered, instrument=False
            )
        stream = direct.model_request_stream(
            found, messages, model_request_parameters=offered, instrument=False
        )
        async with stream as pieces:
            async for event in pieces:
                self._hear(event)
            return pieces.get()

    def _hear(self, event: object) -> None:
        text, to = "", self._said
        match event:
            case PartStartEvent(part=TextPart(content=content)):
                text = content
            case PartDeltaEvent(delta=TextPartDelta(content_delta=content)):
                text = content
            case PartStartEvent(part=ThinkingPart(content=content)):
                text, to = content, self._thought
            case PartDeltaEvent(delta=ThinkingPartDelta(content_delta=some)):
                text, to = some or "", self._thought
            case _:
                return
        if text and to is not None:
            to(text)


def system(text: str) -> ModelMessage:
    """Return the instructions that a conversation begins with."""
    return ModelRequest([SystemPromptPart(text)])


def user(content: str | Sequence[UserContent]) -> ModelMessage:
    """Return what a person, or a parent agent, says."""
    return ModelRequest([UserPromptPart(content)])


def assistant(text: str) -> ModelMessage:
    """Return what the model has said."""
    return ModelResponse([TextPart(text)])


def text_of(answer: ModelResponse) -> str:
    """Return the text of an answer, thoughts of the text included."""
    return "".join(part.content for part in answer.parts if isinstance(part, TextPart))


def _definition(tool: Tool) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name,
        description=tool.description,
        parameters_json_schema=dict(tool.parameters),
    )
