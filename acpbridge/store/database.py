"""Opening a SQLite file that is ours: private, versioned, and rebuilt where it is damaged.

Blocking calls only, for worker threads. Above are the ledger and the event files, which own the
tables; this module knows neither. A damaged file is never deleted and never stops a start.
"""

import errno
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import count, product
from pathlib import Path
from typing import Final
from urllib.parse import quote

from acpbridge.errors import BridgeError
from acpbridge.model.faults import Faults, no_faults

# The low byte of a SQLite result code names its family (sqlite.org/rescode.html).
_FAMILY: Final = 0xFF
_DAMAGE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_FORMAT})
_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_PARTS: Final = ("-wal", "-shm", "")

# Another process holds the file for moments only: a checkpoint, or a person with the sqlite3 shell.
BUSY_MILLISECONDS: Final = 5000


@dataclass(frozen=True, slots=True)
class Schema:
    """What a file of ours looks like.

    Attributes:
        application_id: in its header; tells our files from any other program's.
        version: in its header (`user_version`).
        script: creates the tables where they are missing.
        tables: their names, all with a rowid; what is rescued from a damaged file.
        settings: pragmas of each connection, `page_size` first.
        check: whether all its pages are looked at when it is opened, not only those in use.
        steps: from each older version to the next one, the oldest first; each may find its work
            done.
    """

    application_id: int
    version: int
    script: str
    tables: tuple[str, ...]
    settings: tuple[str, ...]
    check: bool
    steps: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Opened:
    """An open file; `aside` is where its damaged predecessor lies, of which `rescued` rows live."""

    connection: sqlite3.Connection
    aside: Path | None = None
    rescued: int = 0

    @property
    def notices(self) -> tuple[str, ...]:
        """What an operator should be told of the opening."""
        if self.aside is None:
            return ()
        text = f"A damaged file was moved to {self.aside}; {self.rescued} rows were rescued."
        return (text,)


class ForeignFileError(sqlite3.DatabaseError):
    """The file, sound or not, cannot be one of ours."""


def open_database(path: Path, schema: Schema, faults: Faults = no_faults) -> Opened:
    """Open the file, creating it where it is missing and rebuilding it where it is damaged.

    A rebuilding that was cut off once everything was rescued is brought to its end.

    Raises:
        BridgeError: `daemon_version`, when a newer version wrote it.
        sqlite3.Error, OSError: it can be neither used nor rebuilt (disk full, no access).
    """
    make_private(path.parent)
    aside = _replace(path, faults) if _rescued(path).exists() else None
    try:
        return Opened(_connect(path, schema, faults), aside)
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        if not _is_damage_at_opening(error, path):
            raise
    return rebuild(path, schema, faults)


def rebuild(path: Path, schema: Schema, faults: Faults = no_faults) -> Opened:
    """Begin a new file with every row that can still be read, and move the old one aside."""
    fresh = path.with_name(path.name + ".new")
    for part in _PARTS:
        fresh.with_name(fresh.name + part).unlink(missing_ok=True)
    with closing(_connect(fresh, schema, faults)) as connection:
        rescued = _rescue(path, connection, schema.tables)
    faults("store.rescued")
    # From here on the new file is the better one: a start that finds it goes on with it.
    fresh.rename(_rescued(path))
    aside = _replace(path, faults)
    return Opened(_connect(path, schema, faults), aside, rescued)


def _rescued(path: Path) -> Path:
    return path.with_name(path.name + ".rescued")


def _replace(path: Path, faults: Faults) -> Path:
    """Move the damaged file aside, or what is left of it, and put the rescued one in its place."""
    aside = next(name for number in count(1) if not _taken(name := _aside(path, number)))
    for part in _PARTS:
        faults("store.aside")
        with suppress(FileNotFoundError):
            path.with_name(path.name + part).rename(aside.with_name(aside.name + part))
    faults("store.replace")
    _rescued(path).rename(path)
    return aside


def _aside(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.corrupt-{number}")


def _taken(aside: Path) -> bool:
    # The file itself is moved last: one that is missing is a set that was cut off, to be completed.
    return os.path.lexists(aside)


def is_damage(error: Exception) -> bool:
    """Tell whether an error of SQLite means that the file's content is broken."""
    return _family(error) in _DAMAGE or isinstance(error, ForeignFileError)


def store_error(error: Exception, path: Path) -> BridgeError:
    """Return what a person is told when a file of the store cannot be written."""
    full = _family(error) == sqlite3.SQLITE_FULL
    if isinstance(error, OSError):
        full = error.errno in _NO_ROOM
    hint = None if full else f"Make sure that {path.parent} can be written, then run again."
    return BridgeError("store_full", f"{path} cannot be written: {error}.", hint=hint)


def make_private(directory: Path) -> None:
    """Create a directory and those above it that are missing, for the owner alone."""
    if not directory.is_dir():
        make_private(directory.parent)
        directory.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Commit what the block writes, or nothing of it."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _family(error: Exception) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & _FAMILY


def _is_damage_at_opening(error: Exception, path: Path) -> bool:
    if isinstance(error, UnicodeDecodeError):
        return True  # SQLite quotes the damaged schema in its complaint
    if _family(error) == sqlite3.SQLITE_READONLY:
        # A flipped bit in the header's version bytes makes a file read-only.
        return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)
    # The statements of an opening are fixed: where one is wrong, the file is.
    return is_damage(error) or _family(error) == sqlite3.SQLITE_ERROR


def _connect(path: Path, schema: Schema, faults: Faults) -> sqlite3.Connection:
    _look(path)
    _touch(path)
    connection = sqlite3.connect(
        path, timeout=BUSY_MILLISECONDS / 1000, isolation_level=None, check_same_thread=False
    )
    connection.text_factory = _text
    try:
        _prepare(connection, schema, faults)
    except BaseException:
        connection.close()
        raise
    return connection


def _look(path: Path) -> None:
    """Refuse what is no file: a directory, a link to anywhere, a FIFO that would never open."""
    for part in _PARTS:
        with suppress(FileNotFoundError):
            place = path.with_name(path.name + part)
            found = place.lstat()
            if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
                raise OSError(errno.EEXIST, "it is no file of ours", str(place))


def _touch(path: Path) -> None:
    """Make the file, or close one that is open to others: SQLite gives its side files the mode."""
    path.touch(mode=0o600)
    for part in _PARTS:
        with suppress(FileNotFoundError):
            path.with_name(path.name + part).chmod(0o600)


def _text(raw: bytes) -> str:
    # A damaged text must reach the one who can tell which row is to be dropped.
    return raw.decode(errors="surrogateescape")


def _prepare(connection: sqlite3.Connection, schema: Schema, faults: Faults) -> None:
    empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    (application_id,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application_id != (0 if empty else schema.application_id):
        raise ForeignFileError(f"its application id is {application_id:#x}")
    if version > schema.version:
        raise BridgeError(
            "daemon_version",
            f"The state was written by a newer version (schema {version}, not {schema.version}).",
            hint="Use that version of acpbridge, or give another state directory with --home.",
        )
    for setting in schema.settings:
        connection.execute(f"PRAGMA {setting}")
    if empty:
        faults("store.create")
        connection.executescript(
            f"BEGIN IMMEDIATE; {schema.script} PRAGMA application_id={schema.application_id};"
            f"PRAGMA user_version={schema.version}; COMMIT;"
        )
        return
    connection.execute(f"PRAGMA user_version={version}")  # a header may say "read only"
    if schema.check and connection.execute("PRAGMA integrity_check(1)").fetchone() != ("ok",):
        raise ForeignFileError("its pages contradict one another")
    if version < schema.version:
        faults("store.upgrade")
        steps = "; ".join(schema.steps[max(version, 1) - 1 :])
        connection.executescript(
            f"BEGIN IMMEDIATE; {steps}; PRAGMA user_version={schema.version}; COMMIT;"
        )
    with closing(sqlite3.connect(":memory:")) as sound:
        sound.executescript(schema.script)
        known, found = _columns(sound, schema), _columns(connection, schema)
    if any(not known[table] <= found[table] for table in schema.tables):
        # A flipped bit in a name passes every check of SQLite's own.
        raise ForeignFileError("its tables have other columns")


def _columns(connection: sqlite3.Connection, schema: Schema) -> dict[str, set[str]]:
    return {
        table: {row[1].lower() for row in connection.execute(f"PRAGMA table_info({table})")}
        for table in schema.tables
    }


# A damaged name of a column is not even text.
_UNREADABLE: Final = (sqlite3.Error, UnicodeDecodeError)


def _rescue(path: Path, fresh: sqlite3.Connection, tables: tuple[str, ...]) -> int:
    """Copy rows from both ends of each table, as far as they can be read."""
    before = fresh.total_changes
    with suppress(*_UNREADABLE):
        old = sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True, isolation_level=None)
        with closing(old), transaction(fresh):
            # Else SQLite reads nothing of a file that is shorter than its header says.
            old.execute("PRAGMA writable_schema = ON")
            for table, order in product(tables, ("ASC", "DESC")):
                with suppress(*_UNREADABLE):
                    _copy(old, fresh, table, order)
    return fresh.total_changes - before


def _copy(old: sqlite3.Connection, fresh: sqlite3.Connection, table: str, order: str) -> None:
    # The names are those of a schema of ours, never input.
    for row in old.execute(f"SELECT rowid, * FROM {table} ORDER BY rowid {order}"):  # noqa: S608
        marks = ",".join("?" * (len(row) - 1))
        fresh.execute(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", row[1:])  # noqa: S608
