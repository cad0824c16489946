"""What the code of a Python agent sees: one turn, with the ways to speak, to act and to ask.

It is the same whether the agent runs in its caller's process or is served as a process of its own.
Everything said here becomes an event of the session at once, in the order in which it was said.
"""

import json
import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import PurePath
from typing import Any, Final

from acpbridge.model.events import Update
from acpbridge.model.permission import (
    Effect,
    Option,
    OptionKind,
    PermissionAsk,
    ToolKind,
    ToolSubject,
)
from acpbridge.permissions import policy
from acpbridge.protocol import strict
from acpbridge.runtimes.base import SessionHost

# What a question of a Python agent offers: nothing that lasts.
OPTIONS: Final = (
    Option("allow_once", "Allow", OptionKind.ALLOW_ONCE),
    Option("reject_once", "Reject", OptionKind.REJECT_ONCE),
)


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


def text_of(blocks: Iterable[Mapping[str, Any]]) -> str:
    """Return the text blocks of a prompt, joined by line ends."""
    texts = (block.get("text") for block in blocks if block.get("type") == "text")
    return "\n".join(text for text in texts if isinstance(text, str))


def text_content(text: str) -> dict[str, Any]:
    """Return text as an item of a tool call's content."""
    return {"type": "content", "content": {"type": "text", "text": text}}


def diff_content(path: str, old: str | None, new: str) -> dict[str, Any]:
    """Return a diff as an item of a tool call's content; `old` is None for a new file."""
    return {"type": "diff", "path": path, "oldText": old, "newText": new}


@dataclass(frozen=True, slots=True)
class _Told:
    """What is said of a tool call, in the words of the bridge and of the wire."""

    title: str
    kind: ToolKind
    raw_input: Any
    locations: tuple[str, ...]
    content: tuple[Mapping[str, Any], ...]

    def fields(self) -> dict[str, Any]:
        optional = {
            "rawInput": self.raw_input,
            "locations": [{"path": path} for path in self.locations] or None,
            "content": [dict(item) for item in self.content] or None,
        }
        told = {name: value for name, value in optional.items() if value is not None}
        return {"title": self.title, "kind": str(self.kind), **told}


class ToolCall:
    """A tool call under way, inside the `async with turn.tool(...)` block that announced it."""

    def __init__(self, turn: "Turn", call_id: str, told: _Told) -> None:
        self.id = call_id
        self.status = "completed"
        self._turn = turn
        self._told = told
        self._content = [dict(item) for item in told.content]

    def content(self, text: str) -> None:
        """Add text to what the call shows."""
        self._add(text_content(text))

    def diff(self, path: str, old: str | None, new: str) -> None:
        """Add a diff to what the call shows; `old` is None for a new file."""
        self._add(diff_content(self._turn.absolute(path), old, new))

    def output(self, value: Any) -> None:
        """Tell the raw output of the call: any JSON value."""
        self._turn.update("tool_call_update", toolCallId=self.id, rawOutput=value)

    def fail(self, why: str = "") -> None:
        """Have the call end as `failed` although nothing is raised."""
        self.status = "failed"
        if why:
            self.content(why)

    async def ask(self) -> bool:
        """Have this call permitted; True only for an explicit yes. Denied, it ends as failed."""
        told = self._told
        subject = ToolSubject(
            self.id,
            told.title,
            told.kind,
            known_kind=True,
            raw_input=told.raw_input,
            locations=told.locations,
            content=tuple(self._content),
        )
        allowed = await self._turn.decide(PermissionAsk(subject, OPTIONS))
        if not allowed:
            self.status = "failed"
        return allowed

    def _add(self, item: dict[str, Any]) -> None:
        # An update replaces the whole list, so it is always told whole.
        self._content.append(item)
        self._turn.update("tool_call_update", toolCallId=self.id, content=self._content)


@dataclass(eq=False, slots=True)
class Turn:
    """One turn, as the agent's code sees it.

    Attributes:
        prompt: the content blocks as they came.
        cwd: absolute directory of the session, whatever the process's own is.
        history: the earlier turns of the session.
        cancelled: whether the turn is being cancelled; the code is ended by cancellation anyway.
        said: what the agent said in this turn so far.
    """

    prompt: tuple[Mapping[str, Any], ...]
    cwd: str
    history: tuple[Exchange, ...]
    host: SessionHost = field(repr=False)
    cancelled: bool = False
    tools_running: int = 0
    _said: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """The text of the prompt."""
        return text_of(self.prompt)

    @property
    def said(self) -> str:
        """What the agent has said in this turn."""
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
        call = self._announce(told, "pending")
        call.status = "failed"
        try:
            if await call.ask():
                call.status = "completed"
                return True
            return False
        finally:
            self.update("tool_call_update", toolCallId=call.id, status=call.status)

    async def decide(self, ask: PermissionAsk) -> bool:
        """Put a question to the session's host; True only for an offered option that allows."""
        decision = await self.host.ask(ask)
        valid = decision.effect is Effect.ALLOW and policy.still_valid(ask, decision)
        return valid and not self.cancelled

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
    ) -> _Told:
        paths = tuple(self.absolute(path) for path in locations)
        # A copy, for the agent may go on changing what it passed; and proof that it is JSON.
        frozen = None if raw_input is None else json.loads(strict.dumps(raw_input))
        return _Told(title, ToolKind(kind), frozen, paths, tuple(dict(item) for item in content))

    def _announce(self, told: _Told, status: str) -> ToolCall:
        call = ToolCall(self, f"call-{uuid.uuid4().hex[:12]}", told)
        self.update("tool_call", toolCallId=call.id, status=status, **told.fields())
        return call
