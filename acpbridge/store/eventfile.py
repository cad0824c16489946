"""The event database of one agent: a row per session and chunk. Blocking, for worker threads.

Above is the writer, which calls it from one thread at a time; `read` alone may run beside that, on
a connection of its own. What is stored is the redacted copy, with a checksum: SQLite has none, and
a row that is not what was written reads as lost.
"""

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote
from zlib import crc32

from acpbridge.model.faults import Faults
from acpbridge.store.copies import Copies
from acpbridge.store.database import (
    BUSY_MILLISECONDS,
    Schema,
    is_damage,
    open_database,
    rebuild,
    transaction,
)
from acpbridge.store.joins import Searcher, State
from acpbridge.store.ring import CHUNK_BYTES, Chunk
from acpbridge.store.traces import Traces

_SCHEMA: Final = Schema(
    application_id=0x41435045,  # "ACPE"
    version=1,
    script="""
        CREATE TABLE events (
            session_key TEXT NOT NULL,
            first_seq INTEGER NOT NULL,
            last_seq INTEGER NOT NULL,
            checksum INTEGER NOT NULL,
            lines BLOB NOT NULL,
            tenant_id TEXT NOT NULL DEFAULT '',
            user_id TEXT NOT NULL DEFAULT '',
            host_id TEXT NOT NULL DEFAULT ''
        );
        CREATE UNIQUE INDEX events_by_session ON events (session_key, last_seq);
    """,
    tables=("events",),
    settings=(
        "page_size=16384",  # 0.8 us of CPU an event; 2.4 with pages of 4 KiB
        "auto_vacuum=INCREMENTAL",  # what is deleted can be given back to the disk bit by bit
        "journal_mode=WAL",
        "synchronous=NORMAL",  # safe against SIGKILL; decisions go to the ledger, which is FULL
        "journal_size_limit=33554432",
    ),
    check=False,  # a log may be large: a damaged page shows when it is met
)

_INSERT: Final = (
    "INSERT INTO events (session_key, first_seq, last_seq, checksum, lines)"
    " VALUES (:key, :first, :last, :checksum, :lines)"
)
_SELECT: Final = (
    "SELECT first_seq, checksum, lines FROM events"
    " WHERE session_key = ? AND last_seq > ? AND last_seq <= ? ORDER BY last_seq"
)
_SELECT_ALL: Final = "SELECT checksum, lines FROM events WHERE session_key = ? ORDER BY last_seq"

_SELECT_ONE: Final = (
    "SELECT rowid, first_seq, checksum, lines FROM events"
    " WHERE session_key = ? AND last_seq >= ? ORDER BY last_seq LIMIT 1"
)
_UPDATE: Final = "UPDATE events SET checksum = ?, lines = ? WHERE rowid = ?"

# The oldest first: what is left when a deletion is cut off is the end of a log, and its numbers.
_DELETE: Final = (
    "DELETE FROM events WHERE rowid IN"
    " (SELECT rowid FROM events WHERE session_key = ? ORDER BY last_seq LIMIT ?)"
)

# One step of a deletion and of giving space back: 16 MiB and 4 MiB, so that commits come between.
DELETE_ROWS: Final = 64
_RECLAIM_PAGES: Final = 256

_INCREMENTAL: Final = 2

Row = dict[str, str | int | bytes]


class EventFile:
    """One agent's events.

    Args:
        path: of the database; created with the first use.
        redact: makes the stored copy of a line; pure and total.
        faults: passes the points of the log and of a file that is made.
        searcher: finds the secrets that are said in pieces; None: nobody looks for them.
    """

    def __init__(
        self,
        path: Path,
        redact: Callable[[bytes], bytes],
        faults: Faults,
        searcher: Searcher | None = None,
    ) -> None:
        self.path = path
        self.notices: list[str] = []
        self._redact = redact
        self._faults = faults
        self._searcher = searcher
        self._states: dict[str, State] = {}
        self._connection: sqlite3.Connection | None = None
        self._suspect = False

    def last(self, session: str) -> int:
        """Return the highest number that is stored for the session, 0 for none."""
        query = "SELECT max(last_seq) FROM events WHERE session_key = ?"
        try:
            (last,) = self._open().execute(query, (session,)).fetchone()
        except sqlite3.DatabaseError as error:
            self._drop(error)
            if not is_damage(error):
                raise
            (last,) = self._open().execute(query, (session,)).fetchone()
        return int(last or 0)

    def write(self, chunks: Sequence[Chunk], *, again: bool) -> None:
        """Commit the chunks in one transaction.

        Args:
            chunks: to be stored.
            again: whether this was tried before; the failed attempt may have left them behind.

        Raises:
            sqlite3.Error, OSError: nothing is certain; to be called again.
        """
        copies = Copies(self._redact, self._searcher, self._states, chunks)
        pairs = zip(chunks, copies.lines(), strict=True)
        rows = [row for chunk, lines in pairs for row in _rows(chunk, lines)]
        try:
            self._faults("log.before_commit")
            connection = self._open()
            with transaction(connection):
                if again:
                    connection.executemany(
                        "DELETE FROM events WHERE session_key = ? AND last_seq >= ?",
                        [(chunk.stream.name, chunk.first) for chunk in chunks],
                    )
                _rewrite(connection, copies.again())
                connection.executemany(_INSERT, rows)
            self._faults("log.after_commit")
        except (sqlite3.Error, OSError) as error:
            self._drop(error)
            raise
        self._states = copies.kept()

    def settle(self) -> None:
        """Write what is withheld of the last events; nothing may follow.

        Raises:
            sqlite3.Error, OSError: it is lost, and marks stand in its place.
        """
        again = Copies(self._redact, self._searcher, self._states, (), last=True).again()
        self._states = {}
        if again:
            connection = self._open()
            with transaction(connection):
                _rewrite(connection, again)

    def read(self, session: str, after: int, upto: int) -> tuple[int, list[bytes]]:
        """Return the number of the first line after `after`, and lines up to a chunk's worth.

        The number is greater than `after + 1` only where a damaged file lost events; there are no
        lines if it lost all up to `upto`.

        Raises:
            sqlite3.Error: the file cannot be read, or not before `mend`.
        """
        first, lines, size = after + 1, list[bytes](), 0
        try:
            with closing(self._reader()) as connection:
                rows = connection.execute(_SELECT, (session, after, upto))
                for number, checksum, blob in rows:
                    if crc32(blob) != checksum:
                        continue
                    size += len(blob)
                    if not lines:
                        first = max(number, first)
                        lines = blob.split(b"\n")[first - number :]
                    elif size > CHUNK_BYTES or number != first + len(lines):
                        break
                    else:
                        lines += blob.split(b"\n")
        except sqlite3.DatabaseError as error:
            if is_damage(error):
                self._suspect = True
            raise
        return first, lines

    def traces(self, session: str) -> Traces:
        """Return what all stored events of a session say of its turns and questions.

        Raises:
            sqlite3.Error: the file cannot be read, or not before `mend`.
        """
        found = Traces()
        try:
            with closing(self._reader()) as connection:
                for checksum, blob in connection.execute(_SELECT_ALL, (session,)):
                    if crc32(blob) == checksum:
                        found.take(blob)
        except sqlite3.DatabaseError as error:
            if is_damage(error):
                self._suspect = True
            raise
        return found

    def _reader(self) -> sqlite3.Connection:
        # "rw": never create the file, should it be missing just while it is rebuilt.
        place = f"file:{quote(str(self.path))}?mode=rw"
        return sqlite3.connect(place, timeout=5.0, isolation_level=None, uri=True)

    def forget(self, session: str) -> bool:
        """Delete the oldest rows of a session; tell whether there may be more.

        Raises:
            sqlite3.Error, OSError: nothing is certain; to be called again.
        """
        self._states.pop(session, None)
        if not self.path.exists():
            return False
        try:
            connection = self._open()
            with transaction(connection):
                deleted = connection.execute(_DELETE, (session, DELETE_ROWS)).rowcount
                self._faults("log.forget")
        except (sqlite3.Error, OSError) as error:
            self._drop(error)
            raise
        return deleted == DELETE_ROWS

    def reclaim(self) -> bool:
        """Give some of the free space back to the disk; tell whether there is more."""
        if not self.path.exists():
            return False
        try:
            self._faults("log.reclaim")
            connection = self._open()
            if connection.execute("PRAGMA auto_vacuum").fetchone() != (_INCREMENTAL,):
                connection.execute("VACUUM")  # made by an earlier version: once for all
            connection.execute(f"PRAGMA incremental_vacuum({_RECLAIM_PAGES})").fetchall()
            (free,) = connection.execute("PRAGMA freelist_count").fetchone()
            if free:
                return True
            # A reader may hold the log of writes: then the next checkpoint shortens it.
            connection.execute("PRAGMA busy_timeout=0")
            with suppress(sqlite3.OperationalError):
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            connection.execute(f"PRAGMA busy_timeout={BUSY_MILLISECONDS}")
        except (sqlite3.Error, OSError) as error:
            self._drop(error)
            raise
        return False

    def sizes(self) -> dict[str, int]:
        """Return how many bytes of lines are stored, by session."""
        if not self.path.exists():
            return {}
        query = "SELECT session_key, sum(length(lines)) FROM events GROUP BY session_key"
        try:
            return dict(self._open().execute(query).fetchall())
        except (sqlite3.Error, OSError) as error:
            self._drop(error)
            raise

    def mend(self) -> None:
        """Rebuild the file if a read or a write has met damage; make it where it is missing."""
        self._open()

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        if self._connection is not None:
            connection, self._connection = self._connection, None
            connection.close()

    def _open(self) -> sqlite3.Connection:
        if self._suspect:
            self.close()
            opened = rebuild(self.path, _SCHEMA, self._faults)
            self._suspect = False
        elif self._connection is not None:
            return self._connection
        else:
            opened = open_database(self.path, _SCHEMA, self._faults)
        self.notices += opened.notices
        self._connection = opened.connection
        return opened.connection

    def _drop(self, error: Exception) -> None:
        # After an error of the disk a connection may not recover; a new one costs little.
        if is_damage(error):
            self._suspect = True
        with suppress(sqlite3.Error):
            self.close()


def _rows(chunk: Chunk, lines: list[bytes]) -> Iterator[Row]:
    start, size = 0, 0
    for index, line in enumerate(lines):
        size += len(line) + 1
        if size > CHUNK_BYTES and index > start:  # redaction can lengthen a line
            yield _row(chunk, start, lines[start:index])
            start, size = index, len(line) + 1
    yield _row(chunk, start, lines[start:])


def _rewrite(connection: sqlite3.Connection, again: list[tuple[str, int, bytes]]) -> None:
    """Put other lines in the place of stored ones; what damage has lost stays lost."""
    for session, number, line in again:
        found = connection.execute(_SELECT_ONE, (session, number)).fetchone()
        if found is None or crc32(found[3]) != found[2]:
            continue
        lines = found[3].split(b"\n")
        if not 0 <= number - found[1] < len(lines):
            continue
        lines[number - found[1]] = line
        blob = b"\n".join(lines)
        connection.execute(_UPDATE, (crc32(blob), blob, found[0]))


def _row(chunk: Chunk, start: int, lines: list[bytes]) -> Row:
    first = chunk.first + start
    blob = b"\n".join(lines)
    return {
        "key": chunk.stream.name,
        "first": first,
        "last": first + len(lines) - 1,
        "checksum": crc32(blob),
        "lines": blob,
    }
