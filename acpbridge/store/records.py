"""Records of the ledger as JSON text and back; pure.

The text holds a whole record, so that a field that is added to one needs no new column. Reading
raises `UnreadableError` for whatever does not have the shape: a damaged row must never be believed.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.model.sessions import (
    CloseReason,
    Lineage,
    Outcome,
    RunRecord,
    SessionRecord,
    SessionState,
)
from acpbridge.model.settings import Settings

T = TypeVar("T")

# What reading raises where a flipped bit made another word, type or shape of a value.
_BROKEN = (ValueError, TypeError, KeyError, AttributeError, RecursionError, BridgeError)


class UnreadableError(ValueError):
    """A stored row is not what was once written."""


@dataclass(frozen=True, slots=True)
class QuestionRecord:
    """What the ledger keeps of a question; `decided_at` is None while it is open.

    Attributes:
        id: of the permission request.
        session: whose turn it belongs to.
        turn: id of that turn.
        asked_at: ISO 8601, UTC.
        expires_at: ISO 8601, UTC.
        decided_at: ISO 8601, UTC.
        decision: as `Decision.to_json` gives it.
    """

    id: str
    session: SessionKey
    turn: str | None
    asked_at: str
    expires_at: str
    decided_at: str | None = None
    decision: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class OutboxEntry:
    """A completion on its way to an address.

    Attributes:
        id: of the entry; a second one with the same id is the same delivery.
        run_id: whose completion it is.
        address: where it goes.
        payload: what there is to say of the delivery, JSON; the run itself is on record.
        state: `pending`; `sent` from just before the words go out; then `delivered`, `blocked` or
            `dismissed`.
        attempts: how often it was tried.
    """

    id: str
    run_id: str
    address: str
    payload: Mapping[str, Any]
    state: str = "pending"
    attempts: int = 0


def completion(run_id: str, address: str, *, pulled: bool, quiet: bool = False) -> OutboxEntry:
    """Return the entry by which a session hears of the end of a run: there is one for each run.

    Args:
        run_id: that has ended.
        address: key of the session.
        pulled: whether that one fetches it.
        quiet: whether nobody is woken for it: it is told once the session is prompted again.
    """
    marks = {"pulled": pulled, "quiet": quiet}
    payload = {name: True for name, holds in marks.items() if holds}
    return OutboxEntry(f"announce:{run_id}", run_id, address, payload)


def dumps(value: Any) -> str:
    """Return JSON in ASCII: SQLite takes no lone surrogate, and paths and agents may hold one."""
    return json.dumps(value, separators=(",", ":"))


def ascii_text(text: str) -> str:
    """Return a text to look a foreign name up by; different texts give different ones."""
    return dumps(text)[1:-1]


def without_secrets(record: SessionRecord, redact: Callable[[Any], Any]) -> SessionRecord:
    """Return a record as it may be stored.

    A choice that is a secret is left out: after a restart the session goes on without it.
    """
    chosen = record.settings
    settings = Settings(
        None if redact(chosen.model) != chosen.model else chosen.model,
        None if redact(chosen.mode) != chosen.mode else chosen.mode,
        {name: value for name, value in chosen.options.items() if redact(value) == value},
    )
    said = {
        "mode": redact(record.mode),
        "last_error": redact(record.last_error),
        "label": redact(record.label),
    }
    return replace(record, settings=settings, **said)


def write_session(record: SessionRecord) -> str:
    """Return the text of a session's record."""
    lineage = record.lineage
    return dumps(
        {
            "key": str(record.key),
            "state": record.state,
            "cwd": record.cwd,
            "createdAt": record.created_at,
            "runtime": record.runtime,
            "agentSessionId": record.agent_session_id,
            "lineage": [_text(lineage.parent), _text(lineage.root), lineage.depth],
            "oneShot": record.one_shot,
            "mode": record.mode,
            "closeReason": record.close_reason,
            "lastError": _plain(record.last_error),
            "opens": record.opens,
            "openedAt": record.opened_at,
            "formerSessionIds": record.former_session_ids,
            "settings": record.settings.to_json(),
            "mcpServers": record.mcp_servers,
            "additionalDirectories": record.additional_directories,
            "authSource": record.auth_source,
            "definition": _plain(record.definition),
            "label": record.label,
            "taskName": record.task_name,
            "cleanup": record.cleanup,
        }
    )


def read_session(text: str) -> SessionRecord:
    """Return the record that `write_session` wrote.

    Raises:
        UnreadableError: the text is damaged.
    """

    def build(fields: dict[str, Any]) -> SessionRecord:
        parent, root, depth = fields["lineage"]
        return SessionRecord(
            key=SessionKey.parse(fields["key"]),
            state=SessionState(fields["state"]),
            cwd=fields["cwd"],
            created_at=fields["createdAt"],
            runtime=fields["runtime"],
            agent_session_id=fields["agentSessionId"],
            lineage=Lineage(_key(parent), _key(root), depth),
            one_shot=fields["oneShot"],
            mode=fields["mode"],
            close_reason=_maybe(CloseReason, fields["closeReason"]),
            last_error=_maybe(dict, fields["lastError"]),
            opens=fields["opens"],
            # An older version wrote none of these.
            opened_at=fields.get("openedAt", ""),
            former_session_ids=tuple(fields.get("formerSessionIds", ())),
            settings=Settings.from_json(fields.get("settings", {})),
            mcp_servers=tuple(fields.get("mcpServers", ())),
            additional_directories=tuple(fields["additionalDirectories"]),
            auth_source=fields["authSource"],
            definition=dict(fields["definition"]),
            label=fields.get("label", ""),
            task_name=fields.get("taskName", ""),
            cleanup=fields.get("cleanup", "keep"),
        )

    return read_record(text, build)


def write_run(record: RunRecord) -> str:
    """Return the text of a run as it was accepted; how it ended is stored beside it."""
    return dumps(
        {
            "runId": record.run_id,
            "session": str(record.session),
            "requestedBy": record.requested_by,
            "acceptedAt": record.accepted_at,
            "origin": record.origin,
            "correlationId": record.correlation_id,
            "idempotencyKey": record.idempotency_key,
            "task": record.task,
            "requestedByKey": record.requested_by_key,
            "deliverTo": record.deliver_to,
            "pulled": record.pulled,
        }
    )


def write_ending(
    outcome: Outcome,
    stop_reason: str | None,
    error: Mapping[str, Any] | None,
    ended_at: str | None,
    usage: Mapping[str, Any] | None = None,
    started_at: str | None = None,
) -> str:
    """Return the text of how a run ended, and when it had begun."""
    return dumps([outcome, stop_reason, _plain(error), ended_at, _plain(usage), started_at])


def read_run(text: str, ending: str | None) -> RunRecord:
    """Return the run that `write_run` and, if it has ended, `write_ending` wrote.

    Raises:
        UnreadableError: a text is damaged.
    """

    def build(fields: dict[str, Any]) -> RunRecord:
        # An older version wrote neither usage nor when it began.
        told = [*json.loads(ending or "[null,null,null,null]"), None, None]
        outcome, stop_reason, error, ended_at, usage, started_at = told[:6]
        return RunRecord(
            run_id=fields["runId"],
            session=SessionKey.parse(fields["session"]),
            requested_by=fields["requestedBy"],
            accepted_at=fields["acceptedAt"],
            origin=fields["origin"],
            correlation_id=fields["correlationId"],
            idempotency_key=fields["idempotencyKey"],
            # An older version wrote none of these.
            task=fields.get("task", ""),
            requested_by_key=fields.get("requestedByKey", ""),
            deliver_to=fields.get("deliverTo", ""),
            pulled=fields.get("pulled", False),
            outcome=_maybe(Outcome, outcome),
            stop_reason=stop_reason,
            error=_maybe(dict, error),
            ended_at=ended_at,
            usage=_maybe(dict, usage),
            started_at=_maybe(str, started_at),
        )

    return read_record(text, build)


def write_outbox(entry: OutboxEntry) -> str:
    """Return the text of an entry; its state and attempts are stored beside it."""
    return dumps([entry.id, entry.run_id, entry.address, _plain(entry.payload)])


def read_outbox(text: str, state: str, attempts: int) -> OutboxEntry:
    """Return the entry that `write_outbox` wrote.

    Raises:
        UnreadableError: the text is damaged.
    """

    def build(fields: list[Any]) -> OutboxEntry:
        id, run_id, address, payload = fields
        return OutboxEntry(id, run_id, address, dict(payload), state, attempts)

    return read_record(text, build)


def read_question(row: tuple[Any, ...]) -> QuestionRecord:
    """Return the question of a row: id, session, turn, the three times, decision.

    Raises:
        UnreadableError: the row is damaged.
    """

    def build(decision: dict[str, Any] | None) -> QuestionRecord:
        id, session, turn, asked, expires, decided = row[:-1]
        key = SessionKey.parse(session)
        return QuestionRecord(id, key, turn, asked, expires, decided, _maybe(dict, decision))

    return read_record(row[-1] or "null", build)


def read_record(text: str, build: Callable[[Any], T]) -> T:
    """Return what a function builds of a stored text.

    Raises:
        UnreadableError: the text is damaged.
    """
    try:
        return build(json.loads(text))
    except _BROKEN as error:
        raise UnreadableError(str(error)) from error


def _maybe(make: Callable[[Any], T], value: Any) -> T | None:
    return None if value is None else make(value)


def _text(key: SessionKey | None) -> str | None:
    return _maybe(str, key)


def _key(text: str | None) -> SessionKey | None:
    return _maybe(SessionKey.parse, text)


def _plain(value: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return None if value is None else dict(value)
