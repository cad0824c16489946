"""Questions and answers as a program meets them. Values only."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from acpbridge.model.permission import Effect


@dataclass(frozen=True, slots=True)
class Choice:
    """One answer that is offered: what counts is the id."""

    id: str
    name: str
    kind: str


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A permission that waits for a decision.

    Attributes:
        id: names it.
        session: key of the session that asks.
        agent: id of its agent.
        title: the agent's own words; never evidence.
        kind: of the tool call: read, edit, execute, ...
        subject: what will really happen: `rawInput`, `locations`, `content` (diffs, text), and in
            `changed` what was first told otherwise.
        choices: what is offered, in order.
        expires_at: ISO 8601, UTC; denied then.
    """

    id: str
    session: str
    agent: str
    title: str
    kind: str
    subject: Mapping[str, Any]
    choices: tuple[Choice, ...]
    expires_at: str

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "OpenQuestion":
        """Return the question of a list of open ones, or of a `permission_asked` event."""
        return cls(
            id=value["id"],
            session=value["sessionKey"],
            agent=value["agentId"],
            title=value["title"],
            kind=value["kind"],
            subject=value["subject"],
            choices=tuple(Choice(o["optionId"], o["name"], o["kind"]) for o in value["options"]),
            expires_at=value["expiresAt"],
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """A decision: `Answer.allow()`, `Answer.deny()`, or `Answer.choose(id)`; a note for the audit.

    To allow needs exactly one offered "allow once"; where there is another choice to be made,
    choose. Nothing else is ever taken for a yes. `confirm` is the option's id once more, where it
    changes the agent's mode or its kind is unknown: without it such an answer is refused with
    `confirmation_needed`.
    """

    effect: Effect | None
    option_id: str | None = None
    note: str = ""
    confirm: str | None = None

    @classmethod
    def allow(cls, note: str = "", *, confirm: str | None = None) -> "Answer":
        """Allow this once."""
        return cls(Effect.ALLOW, note=note, confirm=confirm)

    @classmethod
    def deny(cls, note: str = "") -> "Answer":
        """Deny this once."""
        return cls(Effect.DENY, note=note)

    @classmethod
    def choose(cls, option_id: str, note: str = "", *, confirm: str | None = None) -> "Answer":
        """Choose one of the offered options by its exact id."""
        return cls(None, option_id, note, confirm)


Asked = Callable[[OpenQuestion], Awaitable[Answer | None]]
"""Decides a question. None leaves it to others: it waits in the inbox until its deadline denies."""
