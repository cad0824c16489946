"""A permission: what is asked, what may be answered, what was decided. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from acpbridge.model.keys import SessionKey


class OptionKind(StrEnum):
    """What an option of a request means; a hint of the agent's, the id is what counts."""

    ALLOW_ONCE = "allow_once"
    ALLOW_ALWAYS = "allow_always"
    REJECT_ONCE = "reject_once"
    REJECT_ALWAYS = "reject_always"
    UNKNOWN = "unknown"


class ToolKind(StrEnum):
    """What a tool call does, by the agent's word; absent and unknown kinds read as `other`."""

    READ = "read"
    EDIT = "edit"
    DELETE = "delete"
    MOVE = "move"
    SEARCH = "search"
    EXECUTE = "execute"
    THINK = "think"
    FETCH = "fetch"
    SWITCH_MODE = "switch_mode"
    OTHER = "other"


class Source(StrEnum):
    """Where a question comes from: what the bridge itself will do is known for certain."""

    AGENT = "agent"
    FILES = "fs"
    TERMINAL = "terminal"


class OnPermission(StrEnum):
    """The rule for one run: `--on-permission`."""

    ASK = "ask"
    ALLOW = "allow"
    DENY = "deny"


@dataclass(frozen=True, slots=True)
class Option:
    """One answer that the agent offers, as it came; `raw_kind` keeps an unknown word."""

    option_id: str
    name: str
    kind: OptionKind
    raw_kind: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the option as the agent wrote it."""
        return {"optionId": self.option_id, "name": self.name, "kind": self.raw_kind or self.kind}


@dataclass(frozen=True, slots=True)
class ToolSubject:
    """The tool call that is asked about, joined with what was announced of it before.

    Attributes:
        tool_call_id: unique in the agent's session.
        title: the agent's words; never evidence.
        kind: of the request, else of the announcement, else `other`.
        known_kind: whether the agent gave a kind that is known.
        raw_input: the tool's arguments, JSON, None if nobody said them.
        locations: paths that the agent names.
        content: the agent's content blocks (diffs, text), JSON.
        changed: what differs from the announcement ("kind", "rawInput"); rules do not apply then.
        announced: as it was first told, what is in `changed`, by the same names.
        tool: the tool's own name, "" where nobody said it.
        server: the MCP server that the tool is of, "" where nobody said it.
        source: who will act on the answer: the agent by itself, or the bridge for it.
        cautions: what the bridge found that a person should know first; rules do not apply then.
    """

    tool_call_id: str
    title: str = ""
    kind: ToolKind = ToolKind.OTHER
    known_kind: bool = False
    raw_input: Any = None
    locations: tuple[str, ...] = ()
    content: tuple[Mapping[str, Any], ...] = ()
    changed: tuple[str, ...] = ()
    tool: str = ""
    server: str = ""
    source: Source = Source.AGENT
    announced: Mapping[str, Any] = field(default_factory=dict)
    cautions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PermissionAsk:
    """What an agent asks, checked in form; the session adds whose turn it is.

    Attributes:
        subject: the tool call; other kinds of subjects come later.
        options: as offered, in order.
        wire_id: the JSON-RPC id as JSON text, for the audit.
        raw_sha256: of the request's bytes, for the audit.
        agent_pid: of the process that asks, 0 in process.
        outside_turn: whether it came before the agent had the prompt, or after it had answered it.
        agent_start: when that started, in clock ticks since boot; with the pid it is unique.
    """

    subject: ToolSubject
    options: tuple[Option, ...]
    wire_id: str = ""
    raw_sha256: str = ""
    agent_pid: int = 0
    outside_turn: bool = False
    agent_start: int = 0


@dataclass(frozen=True, slots=True)
class PermissionRequest:
    """An ask with its place: what the broker decides on.

    Attributes:
        id: our own name for it, which operators use.
        session: whose turn it belongs to.
        turn: id of the running turn, None outside any.
        run_rule: what the run says of permissions.
        ask: the question itself.
        allow_bypass: whether a person may pick a mode in which nobody is asked any more.
        forward_always: whether an `allow_always` that a person picks is sent as it is.
        label: of the session, "" without one.
        roots: directories of the session, the one it works in first; absolute.
        offered: at how many clients a person was asked when it came in, for the audit.
    """

    id: str
    session: SessionKey
    turn: str | None
    run_rule: OnPermission
    ask: PermissionAsk
    allow_bypass: bool = False
    forward_always: bool = False
    label: str = ""
    roots: tuple[str, ...] = ()
    offered: int = 0


class Reason(StrEnum):
    """Why a question was decided the way it was; in the audit and in `permission_decided`."""

    RULE = "rule"
    OPERATOR = "operator"
    DEADLINE = "timed_out"
    CANCELLED = "turn_cancelled"
    WITHDRAWN = "withdrawn"
    KILLED = "killed"
    STOPPING = "daemon_stopping"
    AGENT_DIED = "agent_died"
    MALFORMED = "malformed"
    AUDIT_FAILED = "audit_failed"
    FLOOD = "too_many_open"
    JUDGE_FAILED = "judge_failed"
    GRANT_ENDED = "grant_ended"


class Lasts(StrEnum):
    """How long an answer holds: this once, as a grant of ours, or as long as the agent likes."""

    ONCE = "once"
    SESSION = "session"
    AGENT = "agent"


class Effect(StrEnum):
    """What a decision comes to."""

    ALLOW = "allow"
    DENY = "deny"
    CANCEL = "cancel"


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to one question.

    Attributes:
        effect: what it comes to.
        option_id: the offered id to send; None sends the outcome `cancelled`.
        reason: why.
        by: label of who decided, or the rule's id.
        note: a person's words.
        lasts: how long it holds; with `session` a grant was made, of the question's id.
    """

    effect: Effect
    option_id: str | None
    reason: Reason
    by: str = ""
    note: str = ""
    lasts: Lasts = Lasts.ONCE

    def to_json(self) -> dict[str, Any]:
        """Return the fields as events and lists show them."""
        return {
            "effect": self.effect,
            "optionId": self.option_id,
            "reason": self.reason,
            "by": self.by,
            "note": self.note,
            "lasts": self.lasts,
        }


@dataclass(frozen=True, slots=True)
class GrantOffer:
    """What a person would grant by an option that allows always.

    Attributes:
        scope: in words.
        seconds: how long it would be in force, unless its session ends before.
    """

    scope: str
    seconds: float

    def to_json(self) -> dict[str, Any]:
        """Return the shape within a question."""
        return {"scope": self.scope, "seconds": self.seconds}


@dataclass(frozen=True, slots=True)
class Question:
    """A request that waits for a person; its times are for display only.

    Attributes:
        request: what is asked.
        asked_at: ISO 8601, UTC.
        expires_at: ISO 8601, UTC; the deadline itself is kept on the monotonic clock.
        grant: what `allow_always` would grant, None if nothing.
        always: how long an `allow_always` would hold; None if none is offered.
    """

    request: PermissionRequest
    asked_at: str
    expires_at: str
    grant: GrantOffer | None = None
    always: Lasts | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the shape of the lists of open questions."""
        request, subject = self.request, self.request.ask.subject
        return {
            "id": request.id,
            "sessionKey": str(request.session),
            "agentId": request.session.agent,
            "title": subject.title,
            "kind": subject.kind,
            "subject": {
                "type": "tool_call",
                "runId": request.turn,
                "toolCallId": subject.tool_call_id,
                "rawInput": subject.raw_input,
                "locations": list(subject.locations),
                "content": list(subject.content),
                "changed": list(subject.changed),
                "announced": dict(subject.announced),
                "knownKind": subject.known_kind,
                "tool": subject.tool,
                "server": subject.server,
                "source": subject.source,
                "cautions": list(subject.cautions),
            },
            "outsideTurn": request.turn is None,
            "cwd": request.roots[0] if request.roots else "",
            "options": [option.to_json() for option in request.ask.options],
            "always": self.always,
            "grant": None if self.grant is None else self.grant.to_json(),
            "askedAt": self.asked_at,
            "expiresAt": self.expires_at,
        }
