"""How an agent calls another one inside its run: the values, and the seams on both sides.

A call is an `InboundMessage` and its answer an `OutboundMessage`, whoever is called. A tool sees a
`SubAgentManager`; below that is the hook `SpawnAgent`. `Engine` runs a loop, and `RunRegistry`
makes a child known to the router: it has a key, a lineage, a state and an end like any other.
"""

from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol, Self

from acpbridge.agents.chain import CallChain
from acpbridge.agents.roles import Capabilities
from acpbridge.model.address import Address, DeliveryContext
from acpbridge.model.inbound import InboundMessage
from acpbridge.model.outbound import OutboundMessage
from acpbridge.model.sessions import Outcome

SpawnAgent = Callable[[InboundMessage], Awaitable[OutboundMessage]]
"""Has a message of one agent answered by another. Failures are the answer's `error`."""


class Toolset(Protocol):
    """The tools of an agent, as far as those of a child are made from them."""

    def clone(self) -> Self:
        """Return the same tools in a set of its own."""
        ...

    def unregister(self, name: str) -> None:
        """Take a tool away; nothing happens where there is none."""
        ...

    def limit(self, names: Collection[str]) -> None:
        """Keep no tool but these."""
        ...

    def names(self) -> Sequence[str]:
        """Return the names of all."""
        ...


@dataclass(frozen=True, slots=True)
class Child:
    """One that is called, made ready.

    Attributes:
        chain: with the child as its last entry.
        role: as what it is called.
        system_prompt: its instruction, with the directory that it works in.
        tools: its own; taking from them takes nothing from the caller.
        capabilities: what it may do besides; what is not given it cannot do.
        origin: where an answer to the first message would go.
        channel: in which it all began.
        chat_id: the chat there.
        sender_id: who began it.
        sender_name: for people.
        compress: the caller's automatic compression, None for none.
        manager: calls further ones; None: it may not.
        interactive: whether it waits for its caller after an answer.
        key: its session key.
    """

    chain: CallChain
    role: str
    system_prompt: str
    tools: Any
    capabilities: Capabilities
    origin: DeliveryContext
    channel: str = ""
    chat_id: str = ""
    sender_id: str = ""
    sender_name: str = ""
    compress: Any = None
    manager: "SubAgentManager | None" = None
    interactive: bool = False
    key: str = ""

    @property
    def agent_path(self) -> str:
        """Its call path, such as `main/reviewer`."""
        return str(self.chain.path)

    @property
    def address(self) -> Address:
        """Its address."""
        return Address.agent(self.agent_path)


@dataclass(frozen=True, slots=True)
class Answered:
    """What came of one run of a loop.

    Attributes:
        answer: what goes back to the caller.
        messages: the conversation after it; of an interactive one the assistant's is the last.
        waiting_for_input: whether it waits for its caller. To wait for a person is another thing:
            that is `answer.waiting_user`.
    """

    answer: OutboundMessage
    messages: tuple[Any, ...] = ()
    waiting_for_input: bool = False


class Engine(Protocol):
    """Runs the loop of a child. What messages are is its own affair."""

    def begin(self, child: Child) -> list[Any]:
        """Return the messages that a conversation begins with: the instruction."""
        ...

    def user(self, text: str) -> Any:
        """Return the message of whoever calls."""
        ...

    async def run(self, child: Child, messages: Sequence[Any]) -> Answered:
        """Run until there is an answer. A failure is the answer's `error`."""
        ...


class SubAgentManager(Protocol):
    """What a tool may do with sub-agents. Each answer is whole; a failure is its `error`."""

    async def run_sub_agent(
        self,
        task: str,
        system_prompt: str,
        allowed_tools: Sequence[str],
        capabilities: Capabilities,
        role_name: str,
    ) -> OutboundMessage:
        """Call one for a single task."""
        ...

    async def interactive_sub_agent(
        self,
        task: str,
        system_prompt: str,
        allowed_tools: Sequence[str],
        capabilities: Capabilities,
        role_name: str,
    ) -> OutboundMessage:
        """Say something to the one of this role, which is called if it was not yet."""
        ...

    async def unload_sub_agent(self, role_name: str) -> str:
        """End the interactive one of a role; return what to tell of it."""
        ...


class InnerTurn(Protocol):
    """A run of a child, as the router has it."""

    def end(self, outcome: Outcome, error: Exception | None = None, text: str = "") -> None:
        """Say how it ended; without a word it has failed."""
        ...


class InnerSession(Protocol):
    """A child, as the router has it."""

    @property
    def key(self) -> str:
        """Its session key."""
        ...

    def turn(self, task: str, cancel: Callable[[], None]) -> AbstractAsyncContextManager[InnerTurn]:
        """Have a run on record for as long as the block lasts.

        Args:
            task: what it is asked.
            cancel: called when somebody cancels or kills it.

        Raises:
            BridgeError: `session_closed`: it was ended by somebody.
        """
        ...

    async def close(self) -> None:
        """Say that there will be no further run. Twice does no harm."""
        ...


@dataclass(frozen=True, slots=True)
class InnerCall:
    """Whom the router is to take in.

    Attributes:
        parent: session key of the caller.
        role: as what it is called.
        path: its call path.
    """

    parent: str
    role: str
    path: str


class RunRegistry(Protocol):
    """Takes in children that run inside a run of their caller."""

    async def open(self, call: InnerCall) -> InnerSession:
        """Give a child its key.

        Raises:
            BridgeError: `subagent_policy`, `session_closed`: there may be no further child.
        """
        ...
