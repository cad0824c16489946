"""The ledger's tables and what a restart makes of them. Blocking, for the ledger's one thread.

Columns are what rows are looked up by; `record` is the whole. Above is the ledger.
"""

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from acpbridge.model.permission import Decision, Effect, Reason
from acpbridge.model.sessions import (
    CloseReason,
    Outcome,
    RunRecord,
    SessionRecord,
    SessionState,
)
from acpbridge.store.database import Schema
from acpbridge.store.delegations import (
    DELEGATIONS,
    DELEGATIONS_TABLE,
    OWNERS,
    read_delegation,
)
from acpbridge.store.outbox import OUTBOX, insert_entry, recover_entries
from acpbridge.store.records import (
    UnreadableError,
    ascii_text,
    completion,
    dumps,
    read_outbox,
    read_question,
    read_run,
    read_session,
    write_ending,
    write_run,
    write_session,
)

SCHEMA: Final = Schema(
    application_id=0x4143504C,  # "ACPL"
    version=2,
    script=f"""
        CREATE TABLE sessions (
            session_key TEXT PRIMARY KEY, agent_id TEXT NOT NULL, state TEXT NOT NULL,
            record TEXT NOT NULL, {OWNERS});
        CREATE TABLE runs (
            run_id TEXT PRIMARY KEY, session_key TEXT NOT NULL, idempotency_key TEXT,
            record TEXT NOT NULL, outcome TEXT, ending TEXT, {OWNERS});
        CREATE INDEX runs_by_session ON runs (session_key);
        CREATE UNIQUE INDEX runs_by_idempotency ON runs (idempotency_key)
            WHERE idempotency_key IS NOT NULL;
        CREATE TABLE outbox (
            id TEXT PRIMARY KEY, run_id TEXT NOT NULL, address TEXT NOT NULL,
            state TEXT NOT NULL, attempts INTEGER NOT NULL, payload TEXT NOT NULL, {OWNERS});
        CREATE INDEX outbox_by_state ON outbox (state);
        CREATE TABLE questions (
            id TEXT PRIMARY KEY, session_key TEXT NOT NULL, turn TEXT, asked_at TEXT NOT NULL,
            expires_at TEXT NOT NULL, decided_at TEXT, decision TEXT, {OWNERS});
        {DELEGATIONS_TABLE};
    """,
    tables=("sessions", "runs", "outbox", "questions", "delegations"),
    settings=(
        "journal_mode=WAL",
        "synchronous=FULL",  # what was acknowledged survives a power loss too
    ),
    check=True,
    steps=(DELEGATIONS_TABLE,),  # from 1
)

SESSIONS: Final = "SELECT record FROM sessions"
RUNS: Final = "SELECT record, ending FROM runs"
QUESTIONS: Final = (
    "SELECT id, session_key, turn, asked_at, expires_at, decided_at, decision FROM questions"
)

_OF_THESE: Final = "session_key IN (SELECT value FROM json_each(?))"
RUNS_OF: Final = (
    f"{RUNS} WHERE {_OF_THESE} AND (outcome IS NULL OR json_extract(ending, '$[3]') >= ?)"
    " ORDER BY rowid DESC LIMIT ?"
)
LATEST_RUNS: Final = (
    f"{RUNS} WHERE rowid IN (SELECT max(rowid) FROM runs WHERE {_OF_THESE} GROUP BY session_key)"  # noqa: S608 -- our own names
)
DELIVERIES: Final = (
    "SELECT run_id, state FROM outbox WHERE run_id IN (SELECT value FROM json_each(?))"
)

# The times are text of one shape in UTC, so that the greatest is the latest.
LAST_USED: Final = (
    "SELECT session_key, max(coalesce(json_extract(ending, '$[3]'),"
    " json_extract(record, '$.acceptedAt'))) FROM runs GROUP BY session_key"
)
DAYS_USED: Final = "SELECT DISTINCT substr(json_extract(record, '$.acceptedAt'), 1, 10) FROM runs"
# What is to be fetched, and never is, is kept no longer than the session whose run it tells of.
UNFINISHED: Final = (
    "WITH told AS (SELECT run_id, address FROM outbox WHERE state IN ('pending', 'sent')"
    " AND json_extract(payload, '$[3].pulled') IS NOT TRUE)"
    " SELECT session_key FROM runs WHERE outcome IS NULL"
    " UNION SELECT session_key FROM runs JOIN told ON told.run_id = runs.run_id"
    " UNION SELECT address FROM told UNION SELECT session_key FROM delegations"
)

# Returns what is known elsewhere of questions, by id: what each came to just before the end.
Decided = Callable[[Sequence[str]], Mapping[str, Decision]]

# Where a session of a daemon that is gone stands: its process is dead, its record is not.
_AFTER_RESTART: Final = {
    SessionState.RUNNING: SessionState.INTERRUPTED,
    SessionState.READY: SessionState.IDLE,
    # Nothing starts but for a turn, or for a person who will see that it did not come up.
    SessionState.STARTING: SessionState.INTERRUPTED,
    SessionState.STOPPING: SessionState.IDLE,
}


@dataclass(frozen=True, slots=True)
class RecoveryReport:
    """What a start made of what the last daemon left behind.

    Attributes:
        sessions: those whose state was changed, as they are now.
        runs: ids of those that were under way, now `interrupted`.
        questions: ids of those that were open, now cancelled.
        unreadable: how many damaged rows were dropped.
        notices: for the operator: a damaged ledger that was moved aside.
    """

    sessions: tuple[SessionRecord, ...] = ()
    runs: tuple[str, ...] = ()
    questions: tuple[str, ...] = ()
    unreadable: int = 0
    notices: tuple[str, ...] = ()


def upsert_session(connection: sqlite3.Connection, record: SessionRecord) -> None:
    """Store a session, in place of what was stored of it."""
    connection.execute(
        "INSERT INTO sessions (session_key, agent_id, state, record) VALUES (?, ?, ?, ?)"
        " ON CONFLICT (session_key) DO UPDATE SET state = excluded.state, record = excluded.record",
        (str(record.key), record.key.agent, record.state, write_session(record)),
    )


def insert_run(connection: sqlite3.Connection, record: RunRecord) -> bool:
    """Store a run; False if its id or idempotency key is taken."""
    ending = None
    if record.outcome is not None:
        ending = write_ending(
            record.outcome,
            record.stop_reason,
            record.error,
            record.ended_at,
            record.usage,
            record.started_at,
        )
    done = connection.execute(
        "INSERT INTO runs (run_id, session_key, idempotency_key, record, outcome, ending)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (
            ascii_text(record.run_id),
            str(record.session),
            ascii_text(record.idempotency_key) or None,
            write_run(record),
            record.outcome,
            ending,
        ),
    )
    return done.rowcount == 1


def delete_sessions(connection: sqlite3.Connection, names: Sequence[str]) -> None:
    """Delete sessions by key, and all that belongs to them; at most some hundreds at a time."""
    marks = ",".join("?" * len(names))
    of_them = f"session_key IN ({marks})"
    connection.execute(
        f"DELETE FROM outbox WHERE run_id IN (SELECT run_id FROM runs WHERE {of_them})",  # noqa: S608 -- marks only
        names,
    )
    for table in ("runs", "questions", "delegations", "sessions"):
        connection.execute(f"DELETE FROM {table} WHERE {of_them}", names)  # noqa: S608 -- our own names


def recover(
    connection: sqlite3.Connection,
    now: str,
    notices: tuple[str, ...],
    killed: Mapping[str, CloseReason],
    decided: Decided,
) -> RecoveryReport:
    """Drop what cannot be read, then end what only a living daemon could go on with."""
    unreadable = _drop_unreadable(connection)
    recover_entries(connection, now)
    return RecoveryReport(
        tuple(_recover_sessions(connection, killed)),
        tuple(_recover_runs(connection, now, killed)),
        tuple(_recover_questions(connection, now, killed, decided)),
        unreadable,
        notices,
    )


def _drop_unreadable(connection: sqlite3.Connection) -> int:
    dropped = 0
    for table, query, read in (
        ("sessions", "SELECT session_key, record FROM sessions", _read_keyed),
        ("runs", RUNS, lambda row: read_run(*row)),
        ("outbox", OUTBOX, lambda row: read_outbox(*row)),
        ("questions", QUESTIONS, read_question),
        ("delegations", DELEGATIONS, lambda row: read_delegation(row[0])),
    ):
        rows = connection.execute(query.replace("SELECT ", "SELECT rowid, ")).fetchall()
        for rowid, *row in rows:
            try:
                read(tuple(row))
            except UnreadableError:
                connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (rowid,))  # noqa: S608 -- our own names
                dropped += 1
    return dropped


def _read_keyed(row: tuple[str, str]) -> SessionRecord:
    record = read_session(row[1])
    if str(record.key) != row[0]:
        raise UnreadableError("the row is not where its key says")
    return record


def _recover_sessions(
    connection: sqlite3.Connection, killed: Mapping[str, CloseReason]
) -> Iterator[SessionRecord]:
    under_way = "SELECT DISTINCT session_key FROM runs WHERE outcome IS NULL"
    busy = {key for (key,) in connection.execute(under_way)}
    for (text,) in connection.execute(SESSIONS).fetchall():
        record = read_session(text)
        if record.state is SessionState.RUNNING and str(record.key) not in busy:
            # Its turn was on record as over; that it was ready again could not be written any more.
            record = replace(record, state=SessionState.READY)
        reason = killed.get(str(record.key))
        if reason is not None and record.state is not SessionState.CLOSED:
            after = replace(record, state=SessionState.CLOSED, close_reason=reason)
        elif record.state in _AFTER_RESTART:
            after = replace(record, state=_AFTER_RESTART[record.state])
        else:
            continue
        upsert_session(connection, after)
        yield after


def _recover_runs(
    connection: sqlite3.Connection, now: str, killed: Mapping[str, CloseReason]
) -> Iterator[str]:
    for rowid, key, text in connection.execute(
        "SELECT rowid, session_key, record FROM runs WHERE outcome IS NULL"
    ).fetchall():
        outcome, stop_reason = Outcome.INTERRUPTED, None
        if key in killed:
            outcome, stop_reason = Outcome.CANCELLED, "cancelled"
        ending = write_ending(outcome, stop_reason, None, now)
        connection.execute(
            "UPDATE runs SET outcome = ?, ending = ? WHERE rowid = ?", (outcome, ending, rowid)
        )
        run = read_run(text, ending)
        if run.deliver_to:
            # In this same transaction: a run that is over, and of which somebody is to hear.
            insert_entry(connection, completion(run.run_id, run.deliver_to, pulled=run.pulled))
        yield run.run_id


def _recover_questions(
    connection: sqlite3.Connection, now: str, killed: Mapping[str, CloseReason], decided: Decided
) -> Iterator[str]:
    rows = connection.execute(
        "SELECT rowid, id, session_key FROM questions WHERE decided_at IS NULL"
    ).fetchall()
    said = decided([question_id for _, question_id, _ in rows]) if rows else {}
    for rowid, question_id, key in rows:
        reason = Reason.KILLED if key in killed else Reason.STOPPING
        cancelled = Decision(Effect.CANCEL, None, reason, by="system:recovery")
        decision = said.get(question_id, cancelled)
        connection.execute(
            "UPDATE questions SET decided_at = ?, decision = ? WHERE rowid = ?",
            (now, dumps(decision.to_json()), rowid),
        )
        yield question_id
