"""What the inbox is handed: who calls agents, who hears of ends, and where items are kept."""

from collections.abc import Mapping
from typing import Any, Protocol

from acpbridge.model.inbox import ChatRequest, InboxMessage, ReplyEvent
from acpbridge.router.followup import followup_prompt


class AgentCaller(Protocol):
    """Calls agents; all that the inbox knows of them."""

    async def call(self, agent_id: str, request: ChatRequest) -> Mapping[str, Any]:
        """Have an agent do something, and return what it answered (see `answers`).

        Where this is cancelled the agent is, too. A request whose name was used before is not made
        again: its answer is returned, or how it failed is raised.
        """
        ...


class TeamProcessor(Protocol):
    """What a host makes of ends."""

    def compose_followup(self, message: InboxMessage, result_text: str) -> str:
        """Return what the source is told of a result."""
        return followup_prompt(message, result_text)

    async def on_reply(self, event: ReplyEvent) -> None:
        """Show the end of an item to a person; no agent is called for it."""
        ...


class InboxStore(Protocol):
    """Keeps items over a restart."""

    async def put(self, message: InboxMessage, *, told: bool) -> None:
        """Store an item, and whether its end was told."""
        ...

    async def untold(self) -> list[InboxMessage]:
        """Return the items whose end nobody was told of, the oldest first."""
        ...
