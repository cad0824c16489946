"""What the code of a Python agent sees: one turn, with the ways to speak, to act and to ask.

It is the same whether the agent runs in its caller's process or is served as a process of its own.
Everything said here becomes an event of the session at once, in the order in which it was said.

A turn that is cancelled is ended by cancellation: the `await` that the code is in raises the event
loop's own exception (`anyio.get_cancelled_exc_class()`; with asyncio, `CancelledError`), and so
does every later one. Clean up in `finally`, where `turn.say` still works, and let the exception
pass: code that swallows it is cancelled again at its next `await`. What a cancelled turn returns or
raises counts for nothing, its outcome is `cancelled`; a question that is open then is a no.
"""

import json
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath
from typing import Any, Final

from acpbridge.model.events import Update
from acpbridge.model.permission import Effect, Option, OptionKind, PermissionAsk, ToolKind
from acpbridge.permissions import policy
from acpbridge.protocol import strict
from acpbridge.runtimes.base import SessionHost
from acpbridge.runtimes.content import (
    Image,
    Resource,
    images_of,
    instructions_of,
    resources_of,
    text_of,
)
from acpbridge.runtimes.toolcall import NO, OPTIONS, Told, ToolCall


class StopReason(StrEnum):
    """How an agent's code may say that its turn ended."""

    END_TURN = "end_turn"
    MAX_TOKENS = "max_tokens"
    MAX_TURN_REQUESTS = "max_turn_requests"
    REFUSAL = "refusal"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class PlanEntry:
    """A step of a plan; status is pending, in_progress or completed."""

    content: str
    status: str = "pending"
    priority: str = "medium"


@dataclass(frozen=True, slots=True)
class Exchange:
    """An earlier turn of the session: what was asked and what the agent said."""

    prompt: tuple[Mapping[str, Any], ...]
    said: str

    @property
    def text(self) -> str:
        """The text of the prompt."""
        return text_of(self.prompt)


# The counts of a turn, as the protocol names them.
_TOKENS: Final = {
    "input": "inputTokens",
    "output": "outputTokens",
    "thought": "thoughtTokens",
    "cached_read": "cachedReadTokens",
    "cached_write": "cachedWriteTokens",
}


@dataclass(eq=False, slots=True)
class Turn:
    """One turn, as the agent's code sees it.

    Attributes:
        prompt: the content blocks as they came.
        cwd: absolute directory of the session, whatever the process's own is.
        history: the earlier turns of the session, for as long as its process lives.
        host: where everything goes; the agent's code has no business with it.
        cancelled: whether the turn is being cancelled; the code is ended by cancellation anyway.
        tools_running: how many tool calls are under way.
        tokens_used: what `tokens` was told.
        state: whatever the code wants to find again in the session's next turn; it is empty at the
            first, and lasts for as long as the session's process lives.
    """

    prompt: tuple[Mapping[str, Any], ...]
    cwd: str
    history: tuple[Exchange, ...]
    host: SessionHost = field(repr=False)
    cancelled: bool = False
    tools_running: int = 0
    tokens_used: Mapping[str, int] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict, repr=False)
    _said: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text of the prompt."""
        return text_of(self.prompt)

    @property
    def instructions(self) -> str:
        """What a sub-agent is told of its place, with its first task; "" for everybody else."""
        return instructions_of(self.prompt)

    @property
    def images(self) -> tuple[Image, ...]:
        """The pictures of the prompt."""
        return images_of(self.prompt)

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The files and other resources that the prompt links to or embeds."""
        return resources_of(self.prompt)

    @property
    def said(self) -> str:
        """What the agent has said in this turn so far."""
        return "".join(self._said)

    # Speaking.

    def say(self, text: str) -> None:
        """Say something to whoever prompted; the pieces are joined as they are."""
        self.update("agent_message_chunk", content={"type": "text", "text": text})
        self._said.append(text)

    def think(self, text: str) -> None:
        """Tell a thought."""
        self.update("agent_thought_chunk", content={"type": "text", "text": text})

    def plan(self, entries: Sequence[PlanEntry | str]) -> None:
        """Tell the whole plan; it replaces an earlier one. A plain string is a pending step."""
        steps = [PlanEntry(entry) if isinstance(entry, str) else entry for entry in entries]
        told = [{"content": s.content, "priority": s.priority, "status": s.status} for s in steps]
        self.update("plan", entries=told)

    def usage(
        self, used: int, size: int, *, cost: float | None = None, currency: str = "USD"
    ) -> None:
        """Tell how full the model's context window is, and what the session has cost so far.

        Args:
            used: tokens that are in the window now.
            size: tokens that it can hold.
            cost: of the whole session, None if it is not known.
            currency: of the cost, an ISO 4217 code.
        """
        price = {} if cost is None else {"cost": {"amount": cost, "currency": currency}}
        self.update("usage_update", used=used, size=size, **price)

    def tokens(self, *, input: int = 0, output: int = 0, **others: int) -> None:  # noqa: A002
        """Tell what this turn has taken of the model; it goes out with the turn's end.

        Each call adds. Further counts are named as the protocol does, in snake_case: `thought`,
        `cached_read`, `cached_write`.
        """
        unknown = others.keys() - _TOKENS.keys()
        if unknown:
            raise ValueError(f"unknown counts: {', '.join(sorted(unknown))}")
        counts = dict(self.tokens_used)
        for name, count in {"input": input, "output": output, **others}.items():
            counts[_TOKENS[name]] = counts.get(_TOKENS[name], 0) + count
        counts["totalTokens"] = sum(n for name, n in counts.items() if name != "totalTokens")
        self.tokens_used = counts

    def update(self, kind: str, /, **fields: Any) -> None:
        """Send any update: its `sessionUpdate` word and its fields, JSON values."""
        raw = strict.dumps({"sessionUpdate": kind, **fields})
        self.host.emit(Update(raw, kind))

    async def room(self) -> None:
        """Wait until what was said has been taken up; for code that says very much."""
        await self.host.room()

    # Acting and asking.

    @asynccontextmanager
    async def tool(
        self,
        title: str,
        *,
        kind: str = "other",
        raw_input: Any = None,
        locations: Sequence[str] = (),
        content: Sequence[Mapping[str, Any]] = (),
    ) -> AsyncIterator[ToolCall]:
        """Announce a tool call and end it with the block: failed if the block raises."""
        told = self._told(title, kind, raw_input, locations, content)
        call = self._announce(told, "in_progress")
        self.tools_running += 1
        try:
            yield call
        except BaseException:
            call.status = "failed"
            raise
        finally:
            self.tools_running -= 1
            self.update("tool_call_update", toolCallId=call.id, status=call.status)

    async def ask(
        self,
        title: str,
        *,
        kind: str = "other",
        raw_input: Any = None,
        locations: Sequence[str] = (),
        content: Sequence[Mapping[str, Any]] = (),
    ) -> bool:
        """Ask a person; True only for an explicit yes.

        The question is shown as a tool call of its own that ends with the answer. To ask for a call
        that goes on afterwards, use `call.ask()` inside `turn.tool`.
        """
        told = self._told(title, kind, raw_input, locations, content)
        return await self._ask_alone(told, OPTIONS) is not None

    async def choose(
        self,
        title: str,
        options: Mapping[str, str] | Sequence[str],
        *,
        kind: str = "other",
        raw_input: Any = None,
        content: Sequence[Mapping[str, Any]] = (),
    ) -> str | None:
        """Have a person choose one of several options; return its id, None for none of them.

        None is also what comes of a no, of nobody who answers in time, and of anything that is not
        clearly one of the options. Each choice is good for this once.

        Args:
            title: the question.
            options: ids with what is shown for them; or ids that are shown as they are.
            kind: what it is about, as for a tool call.
            raw_input: the same.
            content: the same.
        """
        named = (
            options if isinstance(options, Mapping) else dict(zip(options, options, strict=True))
        )
        if not named or NO in named or len(named) != len(options):
            raise ValueError(f"options must be named each by an id of its own, other than {NO}")
        offered = [Option(name, text, OptionKind.ALLOW_ONCE) for name, text in named.items()]
        none = Option(NO, "None of these", OptionKind.REJECT_ONCE)
        told = self._told(title, kind, raw_input, (), content)
        return await self._ask_alone(told, (*offered, none))

    async def _ask_alone(self, told: Told, options: Sequence[Option]) -> str | None:
        """Put a question as a tool call of its own, which ends with the answer."""
        call = self._announce(told, "pending")
        call.status = "failed"
        try:
            chosen = await call.choose(options)
            if chosen is not None:
                call.status = "completed"
            return chosen
        finally:
            self.update("tool_call_update", toolCallId=call.id, status=call.status)

    async def decide(self, ask: PermissionAsk) -> str | None:
        """Put a question to the session's host; return the offered option that allows, if any."""
        decision = await self.host.ask(ask)
        valid = decision.effect is Effect.ALLOW and policy.still_valid(ask, decision)
        return decision.option_id if valid and not self.cancelled else None

    def absolute(self, path: str) -> str:
        """Return a path as the protocol wants it: absolute, relative ones taken from `cwd`."""
        return str(PurePath(self.cwd, path))

    def _told(
        self,
        title: str,
        kind: str,
        raw_input: Any,
        locations: Sequence[str],
        content: Sequence[Mapping[str, Any]],
    ) -> Told:
        paths = tuple(self.absolute(path) for path in locations)
        # A copy, for the agent may go on changing what it passed; and proof that it is JSON.
        frozen = None if raw_input is None else json.loads(strict.dumps(raw_input))
        told = Told(title, ToolKind(kind), frozen, paths, ())
        for item in content:
            told = told.with_content(self._placed(item))
        return told

    def _placed(self, item: Mapping[str, Any]) -> dict[str, Any]:
        """Return an item of content, its path as the protocol wants it."""
        path = item.get("path")
        return {**item, "path": self.absolute(path)} if isinstance(path, str) else dict(item)

    def _announce(self, told: Told, status: str) -> ToolCall:
        call = ToolCall(self, f"call-{uuid.uuid4().hex[:12]}", told)
        self.update("tool_call", toolCallId=call.id, status=status, **told.fields())
        return call
