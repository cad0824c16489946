"""The sub-agents of one run: whoever is called is made ready, run, and ended with its caller.

`SubAgents.answer` is the hook that a run's configuration is given; a child that may call others
gets one of its own. Above is the loop; below are conversations, children and the router's registry.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from typing import Self

import anyio

from acpbridge.agents.calls import (
    Answered,
    Child,
    Engine,
    InnerCall,
    InnerSession,
    RunRegistry,
    SubAgentManager,
)
from acpbridge.agents.interactive import Backend, Conversations, cancelled, let_go
from acpbridge.agents.preparing import SUB_AGENT, UNLOAD_SUB_AGENT, Caller, prepare
from acpbridge.agents.spawning import SpawnAdapter, interactive, none_active
from acpbridge.agents.unlisted import Unlisted
from acpbridge.errors import BridgeError
from acpbridge.model.inbound import WORKSPACE_ROOT, InboundMessage
from acpbridge.model.outbound import OutboundMessage
from acpbridge.model.sessions import Outcome

Consolidate = Callable[[Child, tuple[object, ...]], Awaitable[None]]
"""Keeps what a child has learnt in a conversation, by its messages."""


async def _forgets(_child: Child, _messages: tuple[object, ...]) -> None:
    return None


def _nobody(_name: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Household:
    """What all runs of a process share.

    Attributes:
        engine: runs the loop of a child.
        registry: makes a child known to the router.
        conversations: those that wait for more.
        consolidate: keeps what an interactive child has learnt.
        elsewhere: begins conversations with an agent that is no role, such as an ACP agent, by its
            name; None for a role.
    """

    engine: Engine
    registry: RunRegistry = field(default_factory=Unlisted)
    conversations: Conversations = field(default_factory=Conversations)
    consolidate: Consolidate = _forgets
    elsewhere: Callable[[str], Backend | None] = _nobody


class SubAgents:
    """The sub-agents of one run, for which it is entered; they end when it is left, by whatever.

    Args:
        caller: whose run it is.
        house: what it shares with others.
    """

    def __init__(self, caller: Caller, house: Household) -> None:
        self._caller = caller
        self._house = house

    def begin(self) -> None:
        """Let the run have conversations; `end` must follow.

        Raises:
            BridgeError: `busy`: another run of the same session has some.
        """
        self._house.conversations.begin(self._caller.key)

    async def end(self) -> None:
        """End all conversations of the run."""
        await self._house.conversations.end(self._caller.key)

    async def __aenter__(self) -> Self:
        self.begin()
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.end()

    async def answer(self, message: InboundMessage) -> OutboundMessage:
        """Have a message answered by the one that it calls; see `SpawnAgent`.

        Raises:
            BridgeError: it may not be called.
        """
        role = message.role_name
        backend = self._house.elsewhere(role)
        if backend is None:
            backend = _Loops(self._caller, self._house)
        else:
            self._caller.chain.check(role)
        if interactive(message):
            key, talks = self._caller.key, self._house.conversations
            return await talks.call(key, role, message, backend)
        talk = await backend.open(message)
        try:
            return await talk.turn(message)
        finally:
            with anyio.CancelScope(shield=True):
                await let_go(talk)

    async def unload(self, role: str) -> str:
        """End the interactive one of a role; return what to tell of it."""
        done = await self._house.conversations.unload(self._caller.key, role)
        if not done.found:
            return none_active(role)
        return f"The sub-agent {role!r} was ended. {done.problem}".rstrip()


class _Loops:
    """Begins conversations with roles: loops of this process.

    Args:
        caller: whose tools they get.
        house: what they share.
    """

    def __init__(self, caller: Caller, house: Household) -> None:
        self._caller = caller
        self._house = house

    async def open(self, message: InboundMessage) -> "_Loop":
        """Make a child ready and known."""
        child = prepare(message, self._caller)
        loop = _Loop(self._house)
        call = InnerCall(self._caller.key, child.role, child.agent_path)
        session = await self._house.registry.open(call)
        try:
            loop.enter(replace(child, key=session.key), session)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await session.close()
            raise
        return loop


class _Loop:
    """A conversation with a role, or one task of it."""

    def __init__(self, house: Household) -> None:
        self._house = house
        self._below: SubAgents | None = None

    def enter(self, child: Child, session: InnerSession) -> None:
        """Begin, with nothing said yet."""
        self._session = session
        if SUB_AGENT in child.tools.names():
            caller = Caller(child.key, child.tools, child.chain, child.compress)
            self._below = SubAgents(caller, self._house)
            self._below.begin()
        self._child = child
        self._messages = self._house.engine.begin(child)

    async def turn(self, message: InboundMessage) -> OutboundMessage:
        """Say something, and run until there is an answer."""
        self._messages = [*self._messages, self._house.engine.user(message.content)]
        try:
            answered = await self._run(message)
        except BridgeError as error:
            if error.code != "session_closed":
                raise
            # Not a new one in silence: its caller would think that this one knows what was said.
            hint = f"Unload it to begin anew: {UNLOAD_SUB_AGENT}."
            raise BridgeError(error.code, error.message, hint=hint) from error
        self._messages = list(answered.messages) or self._messages
        return answered.answer

    async def _run(self, message: InboundMessage) -> Answered:
        with anyio.CancelScope() as scope:
            async with self._session.turn(message.content, scope.cancel) as turn:
                try:
                    child = replace(self._child, manager=self._manager(message))
                    answered = await self._house.engine.run(child, self._messages)
                except anyio.get_cancelled_exc_class():
                    turn.end(Outcome.CANCELLED)
                    raise
                error = answered.answer.error
                turn.end(_outcome(error), error, answered.answer.content)
                return answered
        return Answered(cancelled(message))

    def _manager(self, cause: InboundMessage) -> SubAgentManager | None:
        below = self._below
        if below is None:
            return None
        where = cause.metadata.get(WORKSPACE_ROOT, "")
        return SpawnAdapter(below.answer, cause, self._child.agent_path, where, below.unload)

    async def consolidate(self) -> None:
        """Keep what was learnt, if it has a memory."""
        if self._child.capabilities.memory:
            await self._house.consolidate(self._child, tuple(self._messages))

    async def close(self) -> None:
        """End whom it has called, and be known no more."""
        try:
            if self._below is not None:
                await self._below.end()
        finally:
            await self._session.close()


def _outcome(error: Exception | None) -> Outcome:
    if error is None:
        return Outcome.COMPLETED
    stopped = isinstance(error, BridgeError) and error.code == "request_cancelled"
    return Outcome.CANCELLED if stopped else Outcome.FAILED
