"""A model that says what a test has written down, in pydantic-ai's own words."""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import (
    AgentInfo,
    DeltaToolCall,
    DeltaToolCalls,
    FunctionModel,
)
from pydantic_ai.usage import RequestUsage

from acpbridge.agents.client import PydanticClient, system, user
from acpbridge.agents.loop import RunConfig, RunResult, run
from acpbridge.agents.registry import Tool, ToolCode, ToolRegistry

Step = ModelResponse | Exception | Callable[[], Awaitable[ModelResponse]]


def says(text: str, tokens: int = 0) -> ModelResponse:
    return ModelResponse([TextPart(text)], usage=RequestUsage(input_tokens=tokens))


def calls(*named: str | tuple[str, Any], text: str = "") -> ModelResponse:
    """Return an answer that calls tools: by their names, or by name and arguments."""
    pairs = [(one, {}) if isinstance(one, str) else one for one in named]
    parts = [ToolCallPart(name, args, f"call-{at}") for at, (name, args) in enumerate(pairs)]
    return ModelResponse([*([TextPart(text)] if text else []), *parts])


class Scripted:
    """A model with its steps, and what it was asked."""

    def __init__(self, *steps: Step, forever: ModelResponse | None = None) -> None:
        self._steps = list(steps)
        self._forever = forever
        self.asked: list[list[ModelMessage]] = []
        self.offered: list[list[str]] = []
        self.model = FunctionModel(self._answer, stream_function=self._stream)
        self.client = PydanticClient.of(self.model)

    async def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.asked.append(list(messages))
        self.offered.append([tool.name for tool in info.function_tools])
        step = self._steps.pop(0) if self._steps else self._forever
        assert step is not None, "the model was asked once too often"
        if isinstance(step, Exception):
            raise step
        return step if isinstance(step, ModelResponse) else await step()

    async def _stream(
        self, messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | DeltaToolCalls]:
        """Answer in pieces of three characters, calls whole."""
        answer = await self._answer(messages, info)
        for at, part in enumerate(answer.parts):
            if isinstance(part, ToolCallPart):
                arguments = part.args if isinstance(part.args, str) else json.dumps(part.args)
                yield {at: DeltaToolCall(part.tool_name, arguments, tool_call_id=part.tool_call_id)}
            elif isinstance(part, TextPart):
                for begin in range(0, len(part.content), 3):
                    yield part.content[begin : begin + 3]


def tool(name: str, code: ToolCode | None = None, **fields: Any) -> Tool:
    async def done(_context: object, _arguments: object) -> str:
        return f"{name} done"

    return Tool(name, f"Does {name}.", code or done, **fields)


def config(model: Scripted, *tools: Tool, **fields: Any) -> RunConfig:
    messages = fields.pop("messages", [system("You help."), user("Do it.")])
    registry = fields.pop("registry", None) or ToolRegistry(tools)
    return RunConfig(model.client, "scripted", registry, messages, **fields)


async def result(model: Scripted, *tools: Tool, **fields: Any) -> RunResult:
    return await run(config(model, *tools, **fields))


def returns(messages: Sequence[ModelMessage]) -> list[str]:
    """Return what the tools have told, in order."""
    parts = (part for message in messages for part in message.parts)
    return [str(part.content) for part in parts if isinstance(part, ToolReturnPart)]
