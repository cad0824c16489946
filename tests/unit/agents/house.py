"""A house of sub-agents with nothing below it: an engine that is scripted by what it is told.

Messages are pairs of who and what. The first word of a task says what the model does with it.
"""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import anyio

from acpbridge.agents.calls import Answered, Child, InnerCall, InnerTurn
from acpbridge.agents.roles import Capabilities
from acpbridge.agents.spawning import SpawnAdapter
from acpbridge.agents.subagents import Household, SubAgents
from acpbridge.errors import BridgeError
from acpbridge.model.address import Address
from acpbridge.model.inbound import InboundMessage
from acpbridge.model.outbound import OutboundMessage
from acpbridge.model.sessions import Outcome

Said = tuple[str, str]

CAUSE = InboundMessage(
    content="please",
    sender=Address.im("telegram", "7"),
    sender_name="Ada",
    chat_id="-100",
    account="second",
    thread="9",
    request_id="r1",
)
NOTHING = Capabilities()


class Tools:
    """A set of names."""

    def __init__(self, *names: str) -> None:
        self._names = list(names)

    def clone(self) -> "Tools":
        return Tools(*self._names)

    def unregister(self, name: str) -> None:
        self._names = [one for one in self._names if one != name]

    def limit(self, names: Collection[str]) -> None:
        self._names = [one for one in self._names if one in names]

    def names(self) -> list[str]:
        return list(self._names)


@dataclass
class Scripted:
    """An engine. Its messages are pairs; `seen` are the conversations as the model got them.

    `wait` goes on until `go` is set or it is cancelled; `call ROLE TASK` calls a further one.
    """

    seen: list[list[Said]] = field(default_factory=list)
    children: list[Child] = field(default_factory=list)
    diary: list[str] = field(default_factory=list)
    go: anyio.Event = field(default_factory=anyio.Event)
    begun: anyio.Event = field(default_factory=anyio.Event)
    longest: int = 1000
    running: int = 0

    def begin(self, child: Child) -> list[Any]:
        return [("system", child.system_prompt)]

    def user(self, text: str) -> Any:
        return ("user", text)

    async def run(self, child: Child, messages: Sequence[Any]) -> Answered:
        self.children.append(child)
        self.seen.append(list(messages))
        self.diary.append(f"run {messages[-1][1]}")
        self.running += 1
        assert self.running == 1 or not child.interactive, "two turns of one conversation at once"
        self.begun.set()
        try:
            return await self._answer(child, messages)
        finally:
            self.running -= 1

    async def _answer(self, child: Child, messages: Sequence[Any]) -> Answered:
        word, _, rest = messages[-1][1].partition(" ")
        error: Exception | None = None
        match word:
            case "wait":
                await self.go.wait()
            case "raise":
                raise RuntimeError(rest)
            case "fail":
                error = BridgeError("turn_failed", rest or "The model gave no answer.")
            case "call":
                assert child.manager is not None, "it may call nobody"
                role, _, task = rest.partition(" ")
                said = await child.manager.run_sub_agent(task, "", (), NOTHING, role)
                rest, error = said.content, said.error
            case _:
                await anyio.lowlevel.checkpoint()
        text = f"done {rest}".strip()
        answer = OutboundMessage(
            content=text,
            sender=child.address,
            tools_used=("Read",),
            media=("/tmp/a.png",),
            error=error,
        )
        # As automatic compression does: the instruction and the end of it stay.
        kept = [*messages, ("assistant", text)]
        if len(kept) > self.longest:
            kept = [kept[0], *kept[-self.longest + 1 :]]
        return Answered(answer, tuple(kept), waiting_for_input=child.interactive)


@dataclass
class Registered:
    """A registry that writes down what it is told, and can kill."""

    lines: list[str] = field(default_factory=list)
    calls: dict[str, InnerCall] = field(default_factory=dict)
    cancels: dict[str, Callable[[], None]] = field(default_factory=dict)
    refuses: BridgeError | None = None
    killed: set[str] = field(default_factory=set)
    _count: Any = field(default_factory=lambda: count(1))

    async def open(self, call: InnerCall) -> "RegisteredSession":
        if self.refuses is not None:
            raise self.refuses
        key = f"key-{next(self._count)}"
        self.calls[key] = call
        self.lines.append(f"open {key} {call.path} below {call.parent}")
        return RegisteredSession(self, key)


@dataclass
class RegisteredSession:
    registry: Registered
    key: str

    def check(self) -> None:
        if self.key in self.registry.killed:
            raise BridgeError("session_closed", f"The session {self.key} is closed.")

    @asynccontextmanager
    async def turn(self, task: str, cancel: Callable[[], None]) -> AsyncIterator[InnerTurn]:
        self.check()
        self.registry.lines.append(f"turn {self.key} {task}")
        self.registry.cancels[self.key] = cancel
        turn = RegisteredTurn()
        try:
            yield turn
        finally:
            self.registry.lines.append(f"{turn.outcome} {self.key}")
            del self.registry.cancels[self.key]

    async def close(self) -> None:
        self.registry.lines.append(f"close {self.key}")


@dataclass
class RegisteredTurn:
    outcome: Outcome = Outcome.FAILED

    def end(self, outcome: Outcome, error: Exception | None = None, text: str = "") -> None:
        self.outcome = outcome


def manager(agents: SubAgents, path: str = "main", cause: InboundMessage = CAUSE) -> SpawnAdapter:
    return SpawnAdapter(agents.answer, cause, path, "/srv/here", agents.unload)


def house(engine: Scripted, **fields: Any) -> Household:
    async def consolidate(child: Child, messages: Sequence[Any]) -> None:
        engine.diary.append(f"consolidate {child.role} {len(messages)}")

    return Household(engine, **{"consolidate": consolidate, **fields})
