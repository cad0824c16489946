"""Conversations with sub-agents that wait for more: one for each caller and role.

They are in memory only, and nothing ends them but their caller: by unloading, or by the end of its
run. What a conversation consists of is the affair of a `Backend`: the loop of this process
(`agents.subagents`), or a session of the bridge (`agents.sessions`). Here is who may say something
when, and in which order a conversation is ended: it is found by nobody any more, its turn is
stopped, what it learnt is kept, and then it is let go of. Each wait in that is bounded.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final, Protocol

import anyio

from acpbridge.errors import BridgeError
from acpbridge.logline import Logger
from acpbridge.model.inbound import InboundMessage
from acpbridge.model.outbound import OutboundMessage

log = Logger(__name__)

CANCELLED: Final = "Agent was cancelled."

# A turn that is stopped ends at its next await; one that does not is left to itself. Seconds.
STOP_WAIT: Final = 10.0

# To keep what was learnt may take a call of a model. Seconds.
CONSOLIDATE_WAIT: Final = 60.0

# For the end of an agent's process, politely. Seconds.
CLOSE_WAIT: Final = 15.0


class Talk(Protocol):
    """One conversation."""

    async def turn(self, message: InboundMessage) -> OutboundMessage:
        """Say something, and return the answer. Never called while another turn runs."""
        ...

    async def consolidate(self) -> None:
        """Keep what was learnt."""
        ...

    async def close(self) -> None:
        """Let go of whatever it holds."""
        ...


class Backend(Protocol):
    """Begins conversations."""

    async def open(self, message: InboundMessage) -> Talk:
        """Begin one, before its first turn; if that fails, nothing is left of it."""
        ...


@dataclass(eq=False, slots=True)
class _Active:
    """A conversation, from the moment when somebody wants it.

    Attributes:
        talk: None until it was begun.
        mutex: held by the one turn; the others have it in the order in which they came.
        stopping: cancels the turn.
        expected: how many turns run or wait.
        ended: nothing is said in it any more.
    """

    talk: Talk | None = None
    mutex: anyio.Lock = field(default_factory=anyio.Lock)
    stopping: anyio.CancelScope | None = None
    expected: int = 0
    ended: bool = False


@dataclass(frozen=True, slots=True)
class Unloaded:
    """What came of unloading: whether there was a conversation, and what went wrong with it."""

    found: bool
    problem: str = ""


class Conversations:
    """All conversations of a process, by their caller's session key (or run) and the role."""

    def __init__(self) -> None:
        self._active: dict[tuple[str, str], _Active] = {}
        self._callers: set[str] = set()

    def roles(self, caller: str) -> tuple[str, ...]:
        """Return the roles that a caller talks with, in the order in which it began."""
        return tuple(role for one, role in self._active if one == caller)

    @asynccontextmanager
    async def caller(self, key: str) -> AsyncIterator[None]:
        """Have a caller call for as long as the block lasts; then all its conversations end."""
        self.begin(key)
        try:
            yield
        finally:
            await self.end(key)

    def begin(self, key: str) -> None:
        """Let a caller have conversations; `end` must follow.

        Raises:
            BridgeError: `busy`: it has some already, for another run.
        """
        if key in self._callers:
            raise BridgeError("busy", f"A run of {key} calls sub-agents already.")
        self._callers.add(key)

    async def end(self, key: str) -> None:
        """End all conversations of a caller, side by side; it begins no further one."""
        self._callers.discard(key)
        active = [self._active.pop((key, role)) for role in self.roles(key)]
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as tasks:
                for one in active:
                    tasks.start_soon(_end, one)

    async def call(
        self, caller: str, role: str, message: InboundMessage, backend: Backend
    ) -> OutboundMessage:
        """Say something to the one of a role, and return its answer; begin with it if need be.

        Of several at once each is said, one after the other, in one conversation. One that is
        unloaded meanwhile answers nothing: what comes back then is a cancelled answer.

        Raises:
            BridgeError: `session_closed`: the caller's run is over; or why it could not begin.
        """
        if caller not in self._callers:
            raise BridgeError("session_closed", f"The run of {caller} is over.")
        active = self._active.setdefault((caller, role), _Active())
        active.expected += 1
        try:
            async with active.mutex:
                return await _turn(active, message, backend)
        finally:
            active.expected -= 1
            self._forget(caller, role, active)

    def _forget(self, caller: str, role: str, active: _Active) -> None:
        """Know no more of a conversation that could not be begun, and that nobody waits for."""
        mine = self._active.get((caller, role)) is active
        if mine and active.talk is None and not active.expected:
            del self._active[caller, role]

    async def unload(self, caller: str, role: str) -> Unloaded:
        """End a conversation. Of two who want that at once, the second finds none."""
        active = self._active.pop((caller, role), None)
        if active is None:
            return Unloaded(found=False)
        problem = ""
        with anyio.CancelScope(shield=True):
            problem = await _end(active)
        return Unloaded(found=True, problem=problem)


async def _turn(active: _Active, message: InboundMessage, backend: Backend) -> OutboundMessage:
    if active.ended:
        return cancelled(message)
    answer = cancelled(message)
    with anyio.CancelScope() as stopping:
        active.stopping = stopping
        try:
            if active.talk is None:
                active.talk = await backend.open(message)
            answer = await active.talk.turn(message)
        finally:
            active.stopping = None
    return answer


async def _end(active: _Active) -> str:
    """End a conversation that nobody finds any more; return what went wrong."""
    active.ended = True
    if active.stopping is not None:
        active.stopping.cancel()
    with anyio.move_on_after(STOP_WAIT) as limit:
        async with active.mutex:
            pass
    if limit.cancelled_caught:
        log.error("the turn of a sub-agent goes on although it was stopped")
    return "" if active.talk is None else await let_go(active.talk)


async def let_go(talk: Talk) -> str:
    """Have a conversation keep what it has learnt, and end it; return what went wrong."""
    problem = ""
    try:
        with anyio.fail_after(CONSOLIDATE_WAIT):
            await talk.consolidate()
    except Exception as error:
        # The boundary of a call: whatever becomes of its memory, it is let go of.
        log.exception("what a sub-agent has learnt could not be kept")
        problem = f"What it has learnt could not be kept: {type(error).__name__}."
    return f"{problem} {await _close(talk)}".strip()


async def _close(talk: Talk) -> str:
    try:
        with anyio.fail_after(CLOSE_WAIT):
            await talk.close()
    except Exception as error:
        # The boundary of a call: the others are let go of all the same.
        log.exception("a sub-agent could not be let go of")
        return f"It could not be ended: {type(error).__name__}."
    return ""


def cancelled(message: InboundMessage) -> OutboundMessage:
    """Return the answer to a message whose turn was stopped."""
    return OutboundMessage(
        content=CANCELLED,
        sender=message.recipient,
        recipient=message.sender,
        error=BridgeError("request_cancelled", "The sub-agent's turn was stopped.", hint=""),
    )
