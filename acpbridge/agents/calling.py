"""The tool calls of one answer of a model: what reads runs side by side, what writes in its order.

A write is a wall: what stands before it in the answer is done before it, what stands behind it
afterwards, so that a read behind a write sees what was written. Whatever goes wrong in a tool is
told to the model as its answer; only a cancellation ends the run.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

import anyio
from pydantic_ai.messages import ToolCallPart, ToolReturnPart

from acpbridge.agents.context import ToolContext
from acpbridge.agents.registry import Tool, ToolRegistry, ToolResult
from acpbridge.errors import BridgeError
from acpbridge.logline import Logger

log = Logger(__name__)

# A model may ask for hundreds of reads at once, each with files or connections of its own.
AT_ONCE: Final = 8

# A model that is told more than that of an error learns nothing from it.
LONGEST_ERROR: Final = 2000

OAuth = Callable[[ToolCallPart, Exception], Awaitable[str | None]]
"""Sees a call that has failed; returns what the model is told instead, None if it is not for it."""


@dataclass(slots=True)
class Calls:
    """What the tool calls of one run have in common.

    Attributes:
        registry: of the run.
        context: what tools get to know.
        oauth: see `OAuth`; None: an error is the tool's answer.
        used: names of the tools that were called, in order.
        waiting_user: whether one of them waits for a person.
        media: what they want to go out with the answer.
    """

    registry: ToolRegistry
    context: ToolContext
    oauth: OAuth | None = None
    used: list[str] = field(default_factory=list)
    waiting_user: bool = False
    media: list[str] = field(default_factory=list)

    async def run(
        self, parts: Sequence[ToolCallPart], tools: Mapping[str, Tool]
    ) -> list[ToolReturnPart]:
        """Run the calls of one answer; return what the model is told, in the order of the calls."""
        answers: dict[int, ToolReturnPart] = {}
        places = enumerate(parts)
        for reads, group in groupby(places, lambda at: _reads(tools.get(at[1].tool_name))):
            if reads:
                await self._together(list(group), tools, answers)
            else:
                for place, part in group:
                    answers[place] = await self._one(part, tools)
        return [answers[place] for place in range(len(parts))]

    async def _together(
        self,
        group: Iterable[tuple[int, ToolCallPart]],
        tools: Mapping[str, Tool],
        answers: dict[int, ToolReturnPart],
    ) -> None:
        places = anyio.Semaphore(AT_ONCE)

        async def one(place: int, part: ToolCallPart) -> None:
            async with places:
                answers[place] = await self._one(part, tools)

        async with anyio.create_task_group() as tasks:
            for place, part in group:
                tasks.start_soon(one, place, part)

    async def _one(self, part: ToolCallPart, tools: Mapping[str, Tool]) -> ToolReturnPart:
        self.used.append(part.tool_name)
        try:
            result = await self._result(part, tools)
        except Exception as error:
            # The boundary of a call: a tool's own code, or its arguments.
            told = None if self.oauth is None else await self.oauth(part, error)
            if told is None:
                if not isinstance(error, BridgeError):
                    log.exception("a tool raised", tool=part.tool_name)
                return ToolReturnPart(part.tool_name, _said(error), part.tool_call_id)
            result = ToolResult(told)
        self.waiting_user = self.waiting_user or result.waiting_user
        self.media += result.media
        return ToolReturnPart(part.tool_name, result.content, part.tool_call_id)

    async def _result(self, part: ToolCallPart, tools: Mapping[str, Tool]) -> ToolResult:
        tool = tools.get(part.tool_name)
        if tool is None:
            there = ", ".join(tools) or "none"
            raise BridgeError("usage", f"There is no tool {part.tool_name!r}; there is: {there}.")
        try:
            arguments = part.args_as_dict(raise_if_invalid=True)
        except (ValueError, AssertionError):
            raise BridgeError("usage", "The arguments are no JSON object.") from None
        self.registry.used(self.context.activation_key, tool.name)
        result = await tool.run(self.context, arguments)
        return ToolResult(result) if isinstance(result, str) else result


def _reads(tool: Tool | None) -> bool:
    return tool is not None and tool.reads


def _said(error: Exception) -> str:
    text = " ".join(str(error).split())[:LONGEST_ERROR]
    if isinstance(error, BridgeError):
        return f"Error: {text}"
    return f"Error: {type(error).__name__}: {text}"


def shown(parts: Iterable[ToolCallPart]) -> Iterator[str]:
    """Yield a line for each call, for people: what it is, and what it is about."""
    for part in parts:
        yield f"> {part.tool_name} {part.args_as_json_str()[:80]}"
