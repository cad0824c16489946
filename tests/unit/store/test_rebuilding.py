"""G17, G18: a file that is made anew, or made smaller, and a kill in the middle of it."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path
from uuid import UUID

import pytest

from acpbridge.model.faults import Faults, no_faults
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.store.eventfile import DELETE_ROWS, EventFile
from acpbridge.store.ring import Stream
from tests.unit.killing import killed_at

KEY = SessionKey.acp(AgentId("codex"), UUID(int=1))
COUNT = 300


def file(path: Path, faults: Faults = no_faults) -> EventFile:
    return EventFile(path, lambda line: line, faults)


def filled(path: Path) -> None:
    """Write rows of 1000 bytes, so that they take many pages, some of them in the log of writes."""
    events = file(path)
    stream = Stream(KEY, 0)
    for number in range(1, COUNT + 1):
        chunk = stream.add(b"%d" % number + b"x" * 1000)
        stream.filling = None
        assert chunk is not None
        events.write([chunk], again=False)
    events.close()


def damage(path: Path) -> None:
    """Break a page in the middle: rows on both sides of it can be rescued."""
    with path.open("r+b") as raw:
        raw.seek(path.stat().st_size // 2 // 16384 * 16384)
        raw.write(os.urandom(16384))


def stored(path: Path) -> int:
    with closing(sqlite3.connect(path)) as connection:
        (number,) = connection.execute("SELECT count(*) FROM events").fetchone()
    return int(number)


def mend(path: Path, faults: Faults = no_faults) -> EventFile:
    """Read all of it, which meets the damage, and have the file rebuilt."""
    events = file(path, faults)
    events.last(str(KEY))
    try:
        events.read(str(KEY), 0, COUNT)
        for at in range(0, COUNT, 10):
            events.read(str(KEY), at, COUNT)
    except sqlite3.Error:
        events.mend()
    return events


@pytest.mark.parametrize(
    ("point", "nth"),
    [
        *(("store.create", 1), ("store.rescued", 1), ("store.replace", 1)),
        *(("store.aside", nth) for nth in (1, 2, 3)),
    ],
)
def test_g18_a_rebuilding_that_is_cut_off_loses_no_row_that_was_rescued(
    tmp_path: Path, point: str, nth: int
) -> None:
    """Without the file `.rescued`, a start after `store.aside` found only an empty new file.

    Without the call of `_replace` in `open_database`: `assert 0 > 200` after `store.replace`.
    """
    path = tmp_path / "sessions" / "events.db"
    filled(path)
    damage(path)
    assert killed_at(point, nth, lambda faults: mend(path, faults))
    events = mend(path)
    assert stored(path) > COUNT * 2 // 3
    assert events.last(str(KEY)) == COUNT
    assert [found.name for found in path.parent.glob("*.corrupt-*") if "-wal" not in found.name]
    assert not list(path.parent.glob("*.rescued"))
    assert all(p.stat().st_mode & 0o077 == 0 for p in path.parent.iterdir())
    events.close()


@pytest.mark.parametrize("nth", [1, 2, 3])
def test_g17_a_deletion_that_is_cut_off_leaves_the_end_of_the_log(tmp_path: Path, nth: int) -> None:
    path = tmp_path / "sessions" / "events.db"
    filled(path)

    def forget(faults: Faults) -> None:
        events = file(path, faults)
        while events.forget(str(KEY)):
            pass

    assert killed_at("log.forget", nth, forget)
    assert stored(path) == COUNT - (nth - 1) * DELETE_ROWS
    events = file(path)
    assert events.last(str(KEY)) == COUNT
    forget(no_faults)
    assert stored(path) == 0

    def reclaim(faults: Faults) -> None:
        events = file(path, faults)
        while events.reclaim():
            pass

    assert killed_at("log.reclaim", 1, reclaim)
    size = path.stat().st_size
    reclaim(no_faults)
    assert path.stat().st_size < size
    events.close()
