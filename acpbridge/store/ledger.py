"""The ledger: one durable file for sessions, runs, questions and what is to be delivered.

What a call has returned is on disk, power loss included. Calls happen one at a time in a worker
thread, never on the event loop. Above is the router; below are the tables.
"""

import sqlite3
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import anyio
from anyio.to_thread import run_sync

from acpbridge.errors import BridgeError
from acpbridge.model.faults import Faults, no_faults
from acpbridge.model.inbox import InboxMessage
from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import Decision
from acpbridge.model.sessions import CloseReason, Outcome, RunRecord, SessionRecord
from acpbridge.store.database import Opened, open_database, store_error, transaction
from acpbridge.store.delegations import (
    DELEGATIONS,
    end_delegation,
    put_delegation,
    read_delegation,
    redacted,
)
from acpbridge.store.outbox import OUTBOX, Settled, insert_entry, move_entry
from acpbridge.store.records import (
    OutboxEntry,
    QuestionRecord,
    ascii_text,
    dumps,
    read_outbox,
    read_question,
    read_run,
    read_session,
    without_secrets,
    write_ending,
)
from acpbridge.store.tables import (
    DAYS_USED,
    DELIVERIES,
    LAST_USED,
    LATEST_RUNS,
    QUESTIONS,
    RUNS,
    RUNS_OF,
    SCHEMA,
    SESSIONS,
    UNFINISHED,
    Decided,
    RecoveryReport,
    delete_sessions,
    insert_run,
    recover,
    upsert_session,
)

T = TypeVar("T")

FILE_NAME: Final = "state.db"

# Of what a run was asked, characters that are kept with it.
TASK: Final = 500

_CLOSE_SECONDS: Final = 2.0

_NOBODY: Final[Mapping[str, CloseReason]] = {}


class Ledger:
    """The ledger of one state directory; a context manager that opens and closes the file.

    Every method raises BridgeError `store_full` where the file cannot be read or written; nothing
    of a call that raised is stored, and the next one may work again.

    Args:
        root: the state directory.
        faults: passes `ledger.before_commit` and `ledger.after_commit` around each change.
        redact: takes the secrets out of what agents and people said, a JSON tree.
    """

    def __init__(
        self,
        root: Path,
        faults: Faults = no_faults,
        redact: Callable[[Any], Any] = lambda value: value,
    ) -> None:
        self.path = root / FILE_NAME
        self._faults = faults
        self._redact = redact
        self._opened: Opened | None = None
        # A cancelled call is waited for, so that this limit also keeps the connection to one.
        self._thread = anyio.CapacityLimiter(1)

    @property
    def notices(self) -> tuple[str, ...]:
        """What an operator should know of a damaged file that was moved aside."""
        return () if self._opened is None else self._opened.notices

    async def put_session(self, record: SessionRecord) -> None:
        """Store a session, in place of what was stored of it."""
        clean = without_secrets(record, self._redact)
        await self._change(lambda connection: upsert_session(connection, clean))

    async def session(self, key: SessionKey) -> SessionRecord | None:
        """Return a session, None if there never was one of this key."""
        query = f"{SESSIONS} WHERE session_key = ?"
        rows = await self._rows(query, (str(key),))
        return read_session(*rows[0]) if rows else None

    async def sessions(self) -> list[SessionRecord]:
        """Return all sessions, in the order they were first stored."""
        return [read_session(*row) for row in await self._rows(f"{SESSIONS} ORDER BY rowid")]

    async def put_run(self, record: RunRecord) -> bool:
        """Store a run; False, and nothing stored, if its id or idempotency key is taken."""
        # First what is a secret is taken out, then it is cut: half of one would not be known.
        clean = replace(record, task=self._redact(record.task)[:TASK])
        return await self._change(lambda connection: insert_run(connection, clean))

    async def finish_run(  # noqa: PLR0913 -- all of one ending, by name
        self,
        run_id: str,
        outcome: Outcome,
        stop_reason: str | None,
        error: Mapping[str, Any] | None,
        ended_at: str,
        *,
        usage: Mapping[str, Any] | None = None,
        started_at: str | None = None,
        delivery: OutboxEntry | None = None,
        settled: Settled | None = None,
    ) -> bool:
        """Store how a run ended; False, and nothing stored, if it had ended or never was.

        Args:
            run_id: of the run.
            outcome: the one that it has from now on.
            stop_reason: of its turn.
            error: of one that failed.
            ended_at: ISO 8601, UTC.
            usage: what the agent said that it used.
            started_at: ISO 8601, UTC; None: it never began.
            delivery: who is to hear of it; on record with the outcome, or neither is.
            settled: what became of the delivery that this run was; the same.
        """
        stop_reason, error = self._redact(stop_reason), self._redact(error)
        ending = write_ending(outcome, stop_reason, error, ended_at, usage, started_at)

        def finish(connection: sqlite3.Connection) -> bool:
            done = connection.execute(
                "UPDATE runs SET outcome = ?, ending = ? WHERE run_id = ? AND outcome IS NULL",
                (outcome, ending, ascii_text(run_id)),
            )
            if done.rowcount != 1:
                return False
            if delivery is not None:
                insert_entry(connection, delivery)
            if settled is not None:
                move_entry(connection, settled)
            return True

        return await self._change(finish)

    async def run(self, run_id: str) -> RunRecord | None:
        """Return a run, None if there never was one of this id."""
        rows = await self._rows(f"{RUNS} WHERE run_id = ?", (ascii_text(run_id),))
        return read_run(*rows[0]) if rows else None

    async def runs(self, key: SessionKey) -> list[RunRecord]:
        """Return the runs of a session, in the order they were accepted."""
        rows = await self._rows(f"{RUNS} WHERE session_key = ? ORDER BY rowid", (str(key),))
        return [read_run(*row) for row in rows]

    async def runs_of(
        self, keys: Iterable[SessionKey], *, since: str = "", newest: int = 1000
    ) -> list[RunRecord]:
        """Return runs of several sessions, in the order they were accepted.

        Args:
            keys: of the sessions.
            since: only those under way, or that ended at this moment or later; "" for all.
            newest: so many at most, the ones accepted last.
        """
        values = (dumps([*map(str, keys)]), since, newest)
        return [read_run(*row) for row in reversed(await self._rows(RUNS_OF, values))]

    async def latest_runs(self, keys: Iterable[SessionKey]) -> dict[SessionKey, RunRecord]:
        """Return the run that was accepted last of each session that ever had one."""
        rows = await self._rows(LATEST_RUNS, (dumps([*map(str, keys)]),))
        return {run.session: run for run in (read_run(*row) for row in rows)}

    async def delivery_states(self, run_ids: Iterable[str]) -> dict[str, str]:
        """Return how far the completion of each run has come that is to be delivered."""
        return dict(await self._rows(DELIVERIES, (dumps([*run_ids]),)))

    async def run_by_idempotency(self, idempotency_key: str) -> RunRecord | None:
        """Return the run that was accepted under a key, None if there is none."""
        query = f"{RUNS} WHERE idempotency_key = ?"
        rows = await self._rows(query, (ascii_text(idempotency_key),))
        return read_run(*rows[0]) if rows else None

    async def put_question(self, question: QuestionRecord) -> None:
        """Store an open question, before anybody is asked."""
        row = (
            question.id,
            str(question.session),
            question.turn,
            question.asked_at,
            question.expires_at,
        )
        await self._update(
            "INSERT INTO questions (id, session_key, turn, asked_at, expires_at)"
            " VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            row,
        )

    async def decide_question(self, question_id: str, decision: Decision, decided_at: str) -> bool:
        """Store the decision; False, and nothing stored, if there is one or no such question."""
        return await self._update(
            "UPDATE questions SET decided_at = ?, decision = ? WHERE id = ? AND decided_at IS NULL",
            (decided_at, dumps(self._redact(decision.to_json())), question_id),
        )

    async def question(self, question_id: str) -> QuestionRecord | None:
        """Return a question, open or decided; None if there never was one of this id."""
        rows = await self._rows(f"{QUESTIONS} WHERE id = ?", (question_id,))
        return read_question(rows[0]) if rows else None

    async def put_outbox(self, entry: OutboxEntry) -> bool:
        """Store a delivery to be made; False, and nothing stored, if its id is taken."""
        return await self._change(lambda connection: insert_entry(connection, entry))

    async def try_outbox(self, entry_id: str) -> bool:
        """Count an attempt at a delivery; False if it has been made or never was."""
        return await self._update(
            "UPDATE outbox SET attempts = attempts + 1 WHERE id = ? AND state = 'pending'",
            (entry_id,),
        )

    async def ack_outbox(self, entry_id: str) -> bool:
        """Store that a delivery was made; False if it had been or never was."""
        return await self._update(
            "UPDATE outbox SET state = 'delivered' WHERE id = ? AND state = 'pending'",
            (entry_id,),
        )

    async def settle_outbox(self, settled: Settled) -> bool:
        """Store what became of a delivery; False, and nothing stored, if it stands otherwise."""
        return await self._change(lambda connection: move_entry(connection, settled))

    async def outbox(
        self, states: Collection[str] = ("pending",), address: str = ""
    ) -> list[OutboxEntry]:
        """Return deliveries, oldest first: without arguments those that are still to be made.

        Args:
            states: where they stand.
            address: only those to this one; "" for any.
        """
        marks = ",".join("?" * len(states))
        query = f"{OUTBOX} WHERE state IN ({marks}) AND (? = '' OR address = ?) ORDER BY rowid"
        rows = await self._rows(query, (*states, address, ascii_text(address)))
        return [read_outbox(*row) for row in rows]

    async def delivery(self, entry_id: str) -> OutboxEntry | None:
        """Return a delivery wherever it stands, None if there never was one of this id."""
        rows = await self._rows(f"{OUTBOX} WHERE id = ?", (entry_id,))
        return read_outbox(*rows[0]) if rows else None

    async def put_delegation(self, item: InboxMessage, *, told: bool) -> None:
        """Store an item of the inbox in place of what was stored of it; gone once it was told."""
        clean = redacted(item, self._redact)

        def change(connection: sqlite3.Connection) -> None:
            end_delegation(connection, item.id) if told else put_delegation(connection, clean)

        await self._change(change)

    async def delegations(self) -> list[InboxMessage]:
        """Return the items of the inbox whose end was told to nobody, the oldest first."""
        rows = await self._rows(f"{DELEGATIONS} ORDER BY rowid")
        return [read_delegation(*row) for row in rows]

    async def delegation_goes_out(self, inbox_id: str, call: str) -> None:
        """Store that the words of a call for an item are sent now."""
        await self._update(
            "UPDATE delegations SET went_out = ? WHERE id = ?", (ascii_text(call), inbox_id)
        )

    async def delegation_went_out(self, inbox_id: str) -> str:
        """Return the last call for an item whose words were sent, "" if none were."""
        query = "SELECT went_out FROM delegations WHERE id = ?"
        return "".join(text for (text,) in await self._rows(query, (inbox_id,)))

    async def last_used(self) -> dict[str, str]:
        """Return when each session that ever had a run last took or ended one, by its key."""
        return dict(await self._rows(LAST_USED))

    async def days_used(self) -> list[str]:
        """Return the days on which any run was accepted, ISO 8601, UTC."""
        return [str(day) for (day,) in await self._rows(DAYS_USED)]

    async def unfinished(self) -> set[str]:
        """Return the keys of sessions with a run under way or a delivery to be made."""
        return {key for (key,) in await self._rows(UNFINISHED)}

    async def forget(self, keys: list[SessionKey]) -> None:
        """Delete sessions with their runs, questions and deliveries, all or none of them."""
        names = [str(key) for key in keys]
        await self._change(lambda connection: delete_sessions(connection, names))

    async def recover(
        self,
        now: str,
        killed: Mapping[str, CloseReason] = _NOBODY,
        decided: Decided = lambda _questions: {},
    ) -> RecoveryReport:
        """End what only a living daemon could go on with; once, at the daemon's start.

        Sessions: running and starting become interrupted, ready and stopping idle, and so does one
        that is running by its record and has no run under way. Runs under way become interrupted,
        open questions cancelled: never allowed. One that was decided before the end keeps that
        decision.

        Args:
            now: ISO 8601, UTC.
            killed: sessions that a person ended past the earlier daemon: they are closed.
            decided: looks up, where the ledger has no decision yet, whether there was one; blocks.
        """
        notices = self.notices
        return await self._change(
            lambda connection: recover(connection, now, notices, killed, decided)
        )

    async def __aenter__(self) -> Self:
        try:
            self._opened = await run_sync(
                open_database, self.path, SCHEMA, self._faults, limiter=self._thread
            )
        except (sqlite3.Error, OSError) as error:
            raise store_error(error, self.path) from error
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._opened is not None
        connection, self._opened = self._opened.connection, None
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            await run_sync(connection.close, abandon_on_cancel=True, limiter=self._thread)

    async def _rows(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        return await self._call(lambda connection: connection.execute(query, values).fetchall())

    async def _update(self, statement: str, values: tuple[Any, ...]) -> bool:
        return await self._change(
            lambda connection: connection.execute(statement, values).rowcount == 1
        )

    async def _change(self, change: Callable[[sqlite3.Connection], T]) -> T:
        def commit(connection: sqlite3.Connection) -> T:
            with transaction(connection):
                result = change(connection)
                self._faults("ledger.before_commit")
            self._faults("ledger.after_commit")
            return result

        return await self._call(commit)

    async def _call(self, call: Callable[[sqlite3.Connection], T]) -> T:
        if self._opened is None:
            raise BridgeError("daemon_stopping", "The ledger is closed.")
        try:
            return await run_sync(call, self._opened.connection, limiter=self._thread)
        except (sqlite3.Error, OSError) as error:
            raise store_error(error, self.path) from error
