"""What the store forgets is gone whole, its room is given back, and nobody reads on in silence."""

import json
import sqlite3
import uuid
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acpbridge.errors import BridgeError
from acpbridge.model.events import Update
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.sessions import Outcome, RunRecord, SessionRecord, SessionState
from acpbridge.store.ledger import Ledger
from acpbridge.store.records import OutboxEntry, QuestionRecord
from acpbridge.store.sessionlog import SessionLog

CODEX = AgentId("codex")
START = datetime(2026, 1, 2, tzinfo=UTC)
BIG = "x" * 100_000


@dataclass
class Clock:
    seconds: float = 0.0

    def wall(self) -> datetime:
        return START + timedelta(seconds=self.seconds)

    def monotonic(self) -> float:
        return self.seconds


def a_log(root: Path, clock: Clock | None = None, **options: Any) -> SessionLog:
    options.setdefault("redact", lambda line: line)
    return SessionLog(root, clock or Clock(), "e1", **options)


def a_key() -> SessionKey:
    return SessionKey.acp(CODEX, uuid.uuid4())


def say(text: str) -> Update:
    return Update(json.dumps({"text": text}).encode())


async def fill(log: SessionLog, key: SessionKey, number: int, text: str = BIG) -> None:
    await log.open(key)
    for _ in range(number):
        log.append(key, None, say(text))
    await log.committed(key)


def database(root: Path) -> Path:
    return root / "agents" / CODEX / "sessions" / "events.db"


def sessions_in(root: Path) -> set[str]:
    with closing(sqlite3.connect(database(root))) as connection:
        return {key for (key,) in connection.execute("SELECT DISTINCT session_key FROM events")}


async def refused(code: str, awaitable: Any) -> BridgeError:
    with pytest.raises(BridgeError) as caught:
        await awaitable
    assert caught.value.code == code
    return caught.value


async def test_a_forgotten_sessions_events_are_gone_and_its_neighbours_stay(tmp_path: Path) -> None:
    one, two = a_key(), a_key()
    async with a_log(tmp_path) as log:
        await fill(log, one, 300)
        await fill(log, two, 3)
        await log.forget(one)
        assert sessions_in(tmp_path) == {str(two)}
        assert await log.sizes(CODEX) == {str(two): pytest.approx(300_000, rel=0.1)}
        async with log.follow(two, live=False) as follower:
            assert len(await follower.read()) > 0


async def test_its_room_is_given_back_to_the_disk(tmp_path: Path) -> None:
    one, two = a_key(), a_key()
    async with a_log(tmp_path) as log:
        await fill(log, one, 200)
        await fill(log, two, 1)
        before = await log.bytes_on_disk()
        assert before > 20_000_000
        await log.forget(one)
        await log.reclaim(CODEX)
        # Measured by the files themselves: the database, and the log of writes beside it.
        size = database(tmp_path).stat().st_size
        assert size < 1_000_000
        assert size <= await log.bytes_on_disk() < 1_000_000
    assert sessions_in(tmp_path) == {str(two)}


async def test_the_room_in_a_file_of_an_earlier_version_is_given_back_too(tmp_path: Path) -> None:
    one = a_key()
    async with a_log(tmp_path) as log:
        await fill(log, one, 100)
    with closing(sqlite3.connect(database(tmp_path), isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
        connection.execute("PRAGMA auto_vacuum=NONE")
        connection.execute("VACUUM")
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (0,)
    assert database(tmp_path).stat().st_size > 10_000_000
    async with a_log(tmp_path) as log:
        await log.forget(one)
        await log.reclaim(CODEX)
        assert database(tmp_path).stat().st_size < 1_000_000


async def test_whoever_follows_it_is_told_and_does_not_wait_for_ever(tmp_path: Path) -> None:
    key = a_key()
    async with a_log(tmp_path) as log:
        await fill(log, key, 1)
        behind, waiting = log.follow(key), log.follow(key, 1)
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(refused, "no_such_session", waiting.read())
                await anyio.wait_all_tasks_blocked()
                await log.forget(key)
                log.drop(key)
        await refused("no_such_session", behind.read())
    assert sessions_in(tmp_path) == set()


async def test_g17_a_number_is_not_used_again_for_one_that_is_kept_after_all(
    tmp_path: Path,
) -> None:
    key = a_key()
    async with a_log(tmp_path) as log:
        await fill(log, key, 3, "a")
        await log.forget(key)
        assert log.append(key, None, say("b")) == 4
        await log.committed(key)
        async with log.follow(key, live=False, stored=True) as follower:
            assert [json.loads(line)["seq"] for line in await follower.read()] == [4]


async def test_what_was_on_its_way_to_the_disk_is_not_left_there(tmp_path: Path) -> None:
    key = a_key()
    async with a_log(tmp_path) as log:
        await log.open(key)
        for _ in range(50):
            log.append(key, None, say(BIG))
        await log.forget(key)
        assert sessions_in(tmp_path) == set()
    assert sessions_in(tmp_path) == set()


async def test_what_cannot_be_deleted_is_said_and_may_be_tried_again(tmp_path: Path) -> None:
    key = a_key()
    async with a_log(tmp_path) as log:
        await fill(log, key, 2)
        with closing(sqlite3.connect(database(tmp_path), isolation_level=None)) as other:
            other.execute(
                "CREATE TRIGGER no BEFORE DELETE ON events BEGIN SELECT raise(FAIL,'x'); END"
            )
            await refused("store_full", log.forget(key))
            other.execute("DROP TRIGGER no")
        await log.forget(key)
        assert sessions_in(tmp_path) == set()


async def test_nothing_is_made_for_an_agent_without_a_database(tmp_path: Path) -> None:
    async with a_log(tmp_path) as log:
        await log.forget(a_key())
        await log.reclaim(CODEX)
        assert await log.sizes(CODEX) == {}
        assert await log.bytes_on_disk() == 0
    assert not database(tmp_path).exists()


# ---- Reading a part of it ----


async def test_a_log_can_be_read_to_its_end_and_no_further(tmp_path: Path) -> None:
    key = a_key()
    async with a_log(tmp_path) as log:
        await fill(log, key, 5, "a")
        async with log.follow(key, 2, live=False) as follower:
            lines = await follower.read()
            assert [json.loads(line)["seq"] for line in lines] == [3, 4, 5]
            log.append(key, None, say("later"))
            await log.committed(key)
            assert await follower.read() == []
        async with log.follow(key, 6, live=False) as follower:
            assert await follower.read() == []


async def test_the_stored_copy_is_read_even_of_what_is_still_in_memory(tmp_path: Path) -> None:
    key = a_key()
    async with a_log(tmp_path, redact=lambda line: line.replace(b"secret", b"[gone]")) as log:
        await fill(log, key, 3, "secret")
        async with log.follow(key) as live, log.follow(key, live=False, stored=True) as stored:
            assert b"secret" in b"".join(await live.read())
            assert b"secret" not in (text := b"".join(await stored.read()))
            assert text.count(b"[gone]") == 3


async def test_a_stored_follower_ends_though_the_disk_has_lost_everything(tmp_path: Path) -> None:
    key = a_key()
    async with a_log(tmp_path) as log:
        await fill(log, key, 3, "a")
        with closing(sqlite3.connect(database(tmp_path), isolation_level=None)) as other:
            other.execute("DELETE FROM events")
        with anyio.fail_after(30):
            async with log.follow(key, live=False, stored=True) as follower:
                assert await follower.read() == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.integers(0, 3), max_size=12), st.integers(-1, 40))
async def test_a_moment_leads_to_the_first_event_from_it_on(
    tmp_path: Path, steps: list[int], asked: int
) -> None:
    clock, key = Clock(), a_key()
    times: list[float] = []
    async with a_log(tmp_path, clock) as log:
        await log.open(key)
        for step in steps:
            clock.seconds += step
            times.append(clock.seconds)
            log.append(key, None, say("a" * 200_000))  # a row of its own, but for every other
        await log.committed(key)
        at = (START + timedelta(seconds=asked)).isoformat(timespec="milliseconds")
        found = await log.number_before(key, at.replace("+00:00", "Z"))
        assert found == sum(time < asked for time in times)


# ---- The ledger ----


def a_run(key: SessionKey, at: str, **fields: Any) -> RunRecord:
    return RunRecord(str(uuid.uuid4()), key, "operator:1", at, **fields)


async def test_a_forgotten_session_takes_all_its_rows_along(tmp_path: Path) -> None:
    one, two = a_key(), a_key()
    async with Ledger(tmp_path) as ledger:
        for key in (one, two):
            await ledger.put_session(SessionRecord(key, SessionState.IDLE, "/src", "2026-01-01"))
            run = a_run(key, "2026-01-02", idempotency_key=f"k {key}")
            await ledger.put_run(run)
            await ledger.put_question(QuestionRecord(str(uuid.uuid4()), key, run.run_id, "a", "b"))
            await ledger.put_outbox(OutboxEntry(str(uuid.uuid4()), run.run_id, "x", {}))
        await ledger.forget([one])
        assert [record.key for record in await ledger.sessions()] == [two]
        assert await ledger.runs(one) == []
        assert await ledger.run_by_idempotency(f"k {one}") is None
        assert len(await ledger.outbox()) == 1
    with closing(sqlite3.connect(tmp_path / "state.db")) as connection:
        for table in ("sessions", "runs", "outbox", "questions"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (1,)


async def test_the_last_use_is_that_of_the_last_run_and_open_work_is_known(tmp_path: Path) -> None:
    used, working, owing = a_key(), a_key(), a_key()
    async with Ledger(tmp_path) as ledger:
        first, second = a_run(used, "2026-01-02T00:00:00"), a_run(used, "2026-01-03T00:00:00")
        for run in (first, second):
            await ledger.put_run(run)
        await ledger.finish_run(first.run_id, Outcome.FAILED, None, None, "2026-01-05T00:00:00")
        await ledger.finish_run(second.run_id, Outcome.COMPLETED, None, None, "2026-01-04T00:00:00")
        await ledger.put_run(a_run(working, "2026-01-01T00:00:00"))
        sent = a_run(owing, "2026-01-01T00:00:00")
        await ledger.put_run(sent)
        await ledger.finish_run(sent.run_id, Outcome.COMPLETED, None, None, "2026-01-01T00:00:01")
        assert await ledger.unfinished() == {str(working)}
        await ledger.put_outbox(OutboxEntry("o", sent.run_id, "x", {}))
        # Whoever is to hear of it is kept as well.
        assert await ledger.unfinished() == {str(working), str(owing), "x"}
        last = await ledger.last_used()
        assert last[str(used)] == "2026-01-05T00:00:00"
        assert last[str(working)] == "2026-01-01T00:00:00"


def test_files_are_still_the_owners_alone(tmp_path: Path) -> None:
    async def work() -> None:
        async with a_log(tmp_path) as log:
            await fill(log, a_key(), 2)
            await log.reclaim(CODEX)

    anyio.run(work)
    for path in database(tmp_path).parent.iterdir():
        assert path.stat().st_mode & 0o077 == 0
