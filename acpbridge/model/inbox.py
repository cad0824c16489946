"""What one agent hands over to another one, and hears of later: values, and where they may go.

An item of the inbox is frozen: each move makes the next one. What the agents answer is no part of
it; the conversations have that. Above are the store, which keeps items over a restart, and the
inbox, which moves them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Self


class InboxStatus(StrEnum):
    """Where an item stands."""

    QUEUED = "queued"
    RUNNING = "running"  # the target works on it
    REPLYING = "replying"  # the source is told what came of it
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


# Only forwards: an item is never worked on twice.
MOVES: Final[Mapping[InboxStatus, frozenset[InboxStatus]]] = {
    InboxStatus.QUEUED: frozenset({InboxStatus.RUNNING, InboxStatus.CANCELLED}),
    InboxStatus.RUNNING: frozenset(
        {InboxStatus.REPLYING, InboxStatus.FAILED, InboxStatus.CANCELLED}
    ),
    InboxStatus.REPLYING: frozenset({InboxStatus.DONE, InboxStatus.FAILED, InboxStatus.CANCELLED}),
    InboxStatus.DONE: frozenset(),
    InboxStatus.FAILED: frozenset(),
    InboxStatus.CANCELLED: frozenset(),
}

OPEN: Final = frozenset(status for status, after in MOVES.items() if after)
"""The statuses of an item whose end is not known yet."""


@dataclass(frozen=True, slots=True)
class InboxMessage:
    """One item: work for a target, and where its answer goes.

    Attributes:
        id: its name for whoever asks after it.
        target_agent_id: who is to do it.
        source_agent_id: who wants it, and is told of the end.
        source_thread_id: the conversation of the source that goes on with the answer; None for
            a new one.
        message: what is to be done.
        user_id: for whom.
        created_at: ISO 8601, UTC.
        updated_at: of its last move, ISO 8601, UTC.
        status: where it stands.
        original_user_prompt: what the person had asked the source, for the follow-up.
        error_text: why it failed.
        metadata: of whoever put it in; handed on to the callback as it is.
    """

    id: str
    target_agent_id: str
    source_agent_id: str
    source_thread_id: str | None
    message: str
    user_id: str | int
    created_at: str
    updated_at: str
    status: InboxStatus = InboxStatus.QUEUED
    original_user_prompt: str | None = None
    error_text: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @property
    def open(self) -> bool:
        """Whether its end is not known yet."""
        return self.status in OPEN

    def moved(self, status: InboxStatus, now: str, error_text: str | None = None) -> Self:
        """Return it one move further.

        Raises:
            ValueError: there is no such move; a fault of ours.
        """
        if status not in MOVES[self.status]:
            raise ValueError(f"an item does not go from {self.status} to {status}")
        return replace(self, status=status, updated_at=now, error_text=error_text)


@dataclass(frozen=True, slots=True)
class ReplyEvent:
    """How an item ended, for whoever shows it to a person.

    Attributes:
        inbox_id: of the item.
        status: `done`, `failed` or `cancelled`.
        source_agent_id: who had wanted it.
        source_thread_id: the conversation that went on with it.
        target_agent_id: who had it to do.
        user_id: for whom.
        reply_text: what the source said of it, whole; None where it said nothing.
        error_text: why it failed.
        metadata: as it was given with the item.
    """

    inbox_id: str
    status: InboxStatus
    source_agent_id: str
    source_thread_id: str | None
    target_agent_id: str
    user_id: str | int
    reply_text: str | None = None
    error_text: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, message: InboxMessage, reply_text: str | None) -> "ReplyEvent":
        """Return the event of an item that has ended."""
        return cls(
            inbox_id=message.id,
            status=message.status,
            source_agent_id=message.source_agent_id,
            source_thread_id=message.source_thread_id,
            target_agent_id=message.target_agent_id,
            user_id=message.user_id,
            reply_text=reply_text,
            error_text=message.error_text,
            metadata=message.metadata,
        )


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """What an agent is called with.

    Attributes:
        message: the text.
        thread: the conversation that it belongs to; None for a new one.
        name: a second call of the same name is the same call; "" for one of no name.
        chain: the agents that wait for one another, the one that is called last.
        context: of whoever asks, for the caller alone; the agent never sees it.
    """

    message: str
    thread: str | None = None
    name: str = ""
    chain: tuple[str, ...] = ()
    context: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PeerResult:
    """What another agent answered.

    Attributes:
        agent_id: who.
        response: its visible words.
        raw: all that the caller got.
    """

    agent_id: str
    response: str
    raw: Mapping[str, Any] = field(default_factory=dict)
