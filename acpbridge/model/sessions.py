"""Sessions, turns and runs: their states and their stored records."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any
from uuid import UUID

from acpbridge.model.keys import SessionKey
from acpbridge.model.settings import Settings


class SessionState(StrEnum):
    """Where a session stands; `closed` is final, every other one can be prompted again."""

    STARTING = "starting"
    READY = "ready"
    RUNNING = "running"
    IDLE = "idle"
    STOPPING = "stopping"
    CLOSED = "closed"
    FAILED = "failed"
    DIED = "died"
    INTERRUPTED = "interrupted"


LIVE_STATES = frozenset(
    {SessionState.STARTING, SessionState.READY, SessionState.RUNNING, SessionState.STOPPING}
)


class CloseReason(StrEnum):
    """Why a session is closed."""

    CLOSED = "closed"
    KILLED = "killed"
    PARENT = "parent"
    CLEANUP = "cleanup"


class TurnState(StrEnum):
    """Where a turn stands."""

    QUEUED = "queued"
    RUNNING = "running"
    WAITING = "waiting"
    CANCELLING = "cancelling"


class WaitsFor(StrEnum):
    """Whom a turn waits for."""

    MODEL = "model"
    PERMISSION = "permission"
    TOOL = "tool"
    NOBODY = "nobody"


class Outcome(StrEnum):
    """How a run ended; exactly one."""

    COMPLETED = "completed"
    CANCELLED = "cancelled"
    FAILED = "failed"
    TIMED_OUT = "timed_out"
    INTERRUPTED = "interrupted"


class CancelRung(StrEnum):
    """How far down the ladder a cancel had to go."""

    NONE = "none"
    CANCEL = "cancel"
    CLOSE = "close"
    KILL = "kill"


@dataclass(frozen=True, slots=True)
class Lineage:
    """Who spawned a session, and how deep it lies; stored, never in the key."""

    parent: SessionKey | None = None
    root: SessionKey | None = None
    depth: int = 0


@dataclass(frozen=True, slots=True)
class SessionRecord:
    """What the ledger keeps of a session, over restarts of the daemon.

    Attributes:
        key: its address.
        state: as last committed.
        cwd: absolute directory of its turns.
        created_at: ISO 8601, UTC.
        runtime: `acp` or `python`.
        agent_session_id: the agent's own id, for resume and load; None until it was opened.
        lineage: who spawned it.
        one_shot: the process ends with the turn.
        mode: the agent's session mode as verified; None: unknown.
        close_reason: why it is closed.
        last_error: `{code, message, hint, data}` of the last failure.
        opens: how often it was opened.
        opened_at: when that was last, ISO 8601, UTC; "": never, or nobody wrote it down.
        former_session_ids: the agent's ids of conversations that were lost, the oldest first.
        settings: what runs chose for it, set again after each opening.
        mcp_servers: names of the MCP servers that runs gave it; never what is in them.
        additional_directories: further roots, absolute.
        auth_source: where the agent's login comes from, `unknown` unless it was told.
        definition: snapshot of the definition it was opened with, JSON.
        label: a short title that who spawned it gave; "" for none.
        task_name: a handle by which who spawned it knows it; "" for none.
        cleanup: `delete` to archive it once its end was announced, else `keep`.
    """

    key: SessionKey
    state: SessionState
    cwd: str
    created_at: str
    runtime: str = "acp"
    agent_session_id: str | None = None
    lineage: Lineage = field(default_factory=Lineage)
    one_shot: bool = True
    mode: str | None = None
    close_reason: CloseReason | None = None
    last_error: Mapping[str, Any] | None = None
    opens: int = 0
    opened_at: str = ""
    former_session_ids: tuple[str, ...] = ()
    settings: Settings = field(default_factory=Settings)
    mcp_servers: tuple[str, ...] = ()
    additional_directories: tuple[str, ...] = ()
    auth_source: str = "unknown"
    definition: Mapping[str, Any] = field(default_factory=dict)
    label: str = ""
    task_name: str = ""
    cleanup: str = "keep"


@dataclass(frozen=True, slots=True)
class Birth:
    """What is said of a session that a spawn makes, besides its first prompt.

    Attributes:
        label: a short title.
        task_name: a handle by which who spawns it knows it.
        cleanup: as in its record.
        resume: the agent's own id of a conversation that it takes up; "" for a new one.
        unique: its part of the key, where who spawns it has to know that; None: any.
    """

    label: str = ""
    task_name: str = ""
    cleanup: str = "keep"
    resume: str = ""
    unique: UUID | None = None

    def put_on(self, record: SessionRecord) -> SessionRecord:
        """Return the record of the session, new so far, with what is said of it."""
        return replace(
            record,
            label=self.label,
            task_name=self.task_name,
            cleanup=self.cleanup,
            agent_session_id=self.resume or None,
        )


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One accepted piece of work; `outcome` is None while it is under way.

    Attributes:
        run_id: of it alone.
        session: where it is done.
        requested_by: a short name of who asked.
        accepted_at: ISO 8601, UTC.
        origin: address that the request first came from.
        correlation_id: joins the records of one piece of work.
        idempotency_key: a second request with the same key is the same run.
        task: what was asked, its beginning.
        requested_by_key: key of the session that asked, "" for a person.
        deliver_to: key of the session that hears of its end, "" for nobody.
        pulled: whether that one fetches its completions, and is never prompted with them.
        outcome: how it ended.
        stop_reason: of its turn.
        error: `{code, message, hint, data}` of one that failed.
        ended_at: ISO 8601, UTC.
        usage: what the agent said that it used; None: it did not say.
        started_at: when it was begun, ISO 8601, UTC, known once it has ended; None: never.
    """

    run_id: str
    session: SessionKey
    requested_by: str
    accepted_at: str
    origin: str = ""
    correlation_id: str = ""
    idempotency_key: str = ""
    task: str = ""
    requested_by_key: str = ""
    deliver_to: str = ""
    pulled: bool = False
    outcome: Outcome | None = None
    stop_reason: str | None = None
    error: Mapping[str, Any] | None = None
    ended_at: str | None = None
    usage: Mapping[str, Any] | None = None
    started_at: str | None = None
