"""The ledger: whole round trips, exactly-once endings, recovery, damage, full disks."""

import errno
import json
import os
import sqlite3
import stat
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acpbridge.errors import BridgeError
from acpbridge.model.inbox import InboxMessage, InboxStatus
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.permission import Decision, Effect, Reason
from acpbridge.model.sessions import (
    CloseReason,
    Lineage,
    Outcome,
    RunRecord,
    SessionRecord,
    SessionState,
)
from acpbridge.model.settings import Settings
from acpbridge.redact import Redactor
from acpbridge.store.ledger import Ledger
from acpbridge.store.outbox import Settled
from acpbridge.store.records import OutboxEntry, QuestionRecord, completion

NOW = "2026-01-02T03:04:05.000Z"
AGENT = AgentId("codex")


def new_key() -> SessionKey:
    return SessionKey.acp(AGENT, uuid.uuid4())


def a_session(state: SessionState = SessionState.READY, **fields: Any) -> SessionRecord:
    return SessionRecord(new_key(), state, "/src", NOW, **fields)


def a_run(key: SessionKey, **fields: Any) -> RunRecord:
    return RunRecord(str(uuid.uuid4()), key, "operator:1", NOW, **fields)


def a_question(key: SessionKey) -> QuestionRecord:
    return QuestionRecord(str(uuid.uuid4()), key, "turn-1", NOW, NOW)


# Any text that Python can hold: paths and agents bring lone surrogates.
texts = st.text(st.characters(codec=None), max_size=20)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, json_values, max_size=3)
keys = st.builds(lambda n: SessionKey.acp(AGENT, n), st.uuids(version=4))
session_records = st.builds(
    SessionRecord,
    key=keys,
    state=st.sampled_from(SessionState),
    cwd=texts,
    created_at=texts,
    runtime=texts,
    agent_session_id=st.none() | texts,
    lineage=st.builds(Lineage, st.none() | keys, st.none() | keys, st.integers(0, 9)),
    one_shot=st.booleans(),
    mode=st.none() | texts,
    close_reason=st.none() | st.sampled_from(CloseReason),
    last_error=st.none() | objects,
    opens=st.integers(0, 99),
    opened_at=texts,
    former_session_ids=st.lists(texts, max_size=3).map(tuple),
    settings=st.builds(
        Settings,
        model=st.none() | texts,
        mode=st.none() | texts,
        options=st.dictionaries(texts, texts | st.booleans(), max_size=3),
    ),
    mcp_servers=st.lists(texts, max_size=3).map(tuple),
    additional_directories=st.lists(texts, max_size=3).map(tuple),
    auth_source=texts,
    definition=objects,
)
run_records = st.builds(
    RunRecord,
    run_id=texts,
    session=keys,
    requested_by=texts,
    accepted_at=texts,
    origin=texts,
    correlation_id=texts,
    idempotency_key=texts,
    task=texts,
    requested_by_key=texts,
    deliver_to=texts,
    pulled=st.booleans(),
    outcome=st.none(),
    stop_reason=st.none(),
    error=st.none(),
    ended_at=st.none(),
)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=50)
@given(session_records)
async def test_every_field_of_a_session_survives_a_restart(record: SessionRecord) -> None:
    with tempfile.TemporaryDirectory() as home:
        async with Ledger(Path(home)) as ledger:
            await ledger.put_session(record)
        async with Ledger(Path(home)) as ledger:
            assert await ledger.session(record.key) == record
            assert await ledger.sessions() == [record]


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=50)
@given(run_records, st.sampled_from(Outcome), st.none() | texts, st.none() | objects)
async def test_every_field_of_a_run_survives_a_restart(
    record: RunRecord, outcome: Outcome, stop_reason: str | None, error: dict[str, Any] | None
) -> None:
    with tempfile.TemporaryDirectory() as home:
        async with Ledger(Path(home)) as ledger:
            assert await ledger.put_run(record)
            assert await ledger.runs(record.session) == [record]
            assert await ledger.finish_run(record.run_id, outcome, stop_reason, error, NOW)
        async with Ledger(Path(home)) as ledger:
            (found,) = await ledger.runs(record.session)
            assert found == await ledger.run(record.run_id)
            assert (found.outcome, found.stop_reason) == (outcome, stop_reason)
            assert (found.error, found.ended_at) == (error, NOW)


async def test_a_session_is_replaced_by_its_next_record_and_keeps_its_place(
    tmp_path: Path,
) -> None:
    first, second = a_session(), a_session()
    async with Ledger(tmp_path) as ledger:
        await ledger.put_session(first)
        await ledger.put_session(second)
        changed = SessionRecord(first.key, SessionState.RUNNING, "/other", NOW, opens=2)
        await ledger.put_session(changed)
        assert await ledger.sessions() == [changed, second]
        assert await ledger.session(new_key()) is None


async def test_a_run_ends_exactly_once(tmp_path: Path) -> None:
    run = a_run(new_key())
    async with Ledger(tmp_path) as ledger:
        await ledger.put_run(run)
        ends = [Outcome.COMPLETED, Outcome.FAILED, Outcome.CANCELLED]
        done = [await ledger.finish_run(run.run_id, end, None, None, NOW) for end in ends]
        assert done == [True, False, False]
        found = await ledger.run(run.run_id)
        assert found is not None
        assert found.outcome is Outcome.COMPLETED
        assert not await ledger.finish_run("unknown", Outcome.FAILED, None, None, NOW)
        assert await ledger.run("unknown") is None


async def test_an_idempotency_key_names_one_run(tmp_path: Path) -> None:
    key = new_key()
    first, second = a_run(key, idempotency_key="k"), a_run(key, idempotency_key="k")
    async with Ledger(tmp_path) as ledger:
        assert await ledger.put_run(first)
        assert not await ledger.put_run(second)
        assert await ledger.run_by_idempotency("k") == first
        assert await ledger.run_by_idempotency("other") is None
        assert await ledger.put_run(a_run(key))
        assert await ledger.put_run(a_run(key))
        assert len(await ledger.runs(key)) == 3


async def test_the_first_decision_of_a_question_wins(tmp_path: Path) -> None:
    question = a_question(new_key())
    allow = Decision(Effect.ALLOW, "once", Reason.OPERATOR, by="operator:7")
    deny = Decision(Effect.DENY, "no", Reason.DEADLINE)
    async with Ledger(tmp_path) as ledger:
        await ledger.put_question(question)
        assert await ledger.question(question.id) == question
        assert await ledger.decide_question(question.id, allow, NOW)
        assert not await ledger.decide_question(question.id, deny, NOW)
        assert not await ledger.decide_question("unknown", allow, NOW)
        found = await ledger.question(question.id)
        assert found is not None
        assert found.decided_at == NOW
        assert found.decision == allow.to_json()
        assert await ledger.question("unknown") is None


async def test_a_delivery_stays_in_the_outbox_until_it_is_acknowledged(tmp_path: Path) -> None:
    entry = OutboxEntry("1", "run", "agent:main:main", {"text": "done \ud800"})
    async with Ledger(tmp_path) as ledger:
        assert await ledger.put_outbox(entry)
        assert not await ledger.put_outbox(entry)
        assert await ledger.try_outbox("1")
    async with Ledger(tmp_path) as ledger:
        (found,) = await ledger.outbox()
        assert found == OutboxEntry("1", "run", entry.address, entry.payload, attempts=1)
        assert await ledger.ack_outbox("1")
        assert not await ledger.ack_outbox("1")
        assert not await ledger.try_outbox("1")
        assert await ledger.outbox() == []


async def test_recovery_ends_what_only_a_living_daemon_could_go_on_with(tmp_path: Path) -> None:
    records = {state: a_session(state) for state in SessionState}
    key = records[SessionState.RUNNING].key
    ended, running, question = a_run(key), a_run(key), a_question(key)
    async with Ledger(tmp_path) as ledger:
        for record in records.values():
            await ledger.put_session(record)
        for run in (ended, running):
            await ledger.put_run(run)
        await ledger.finish_run(ended.run_id, Outcome.COMPLETED, "end_turn", None, NOW)
        await ledger.put_question(question)
    async with Ledger(tmp_path) as ledger:
        report = await ledger.recover(NOW)
        after = {record.key: record for record in await ledger.sessions()}
        states = {state: after[records[state].key].state for state in SessionState}
        changed = {
            SessionState.RUNNING: SessionState.INTERRUPTED,
            SessionState.READY: SessionState.IDLE,
            SessionState.STARTING: SessionState.INTERRUPTED,
            SessionState.STOPPING: SessionState.IDLE,
        }
        assert states == {state: changed.get(state, state) for state in SessionState}
        assert {record.key for record in report.sessions} == {records[s].key for s in changed}
        assert (report.runs, report.questions) == ((running.run_id,), (question.id,))
        runs = {run.run_id: run.outcome for run in await ledger.runs(key)}
        assert runs == {
            ended.run_id: Outcome.COMPLETED,
            running.run_id: Outcome.INTERRUPTED,
        }
        decided = await ledger.question(question.id)
        assert decided is not None
        assert decided.decision is not None
        assert decided.decision["effect"] == "cancel"
        again = await ledger.recover(NOW)
        assert (again.sessions, again.runs, again.questions) == ((), (), ())


async def test_a_session_whose_run_was_on_record_as_over_was_not_interrupted(
    tmp_path: Path,
) -> None:
    """A disk can fill up between the two; without `busy`: `interrupted`."""
    session = a_session(SessionState.RUNNING)
    run = a_run(session.key)
    async with Ledger(tmp_path) as ledger:
        await ledger.put_session(session)
        await ledger.put_run(run)
        await ledger.finish_run(run.run_id, Outcome.COMPLETED, "end_turn", None, NOW)
    async with Ledger(tmp_path) as ledger:
        report = await ledger.recover(NOW)
        assert [record.state for record in report.sessions] == [SessionState.IDLE]
        assert [record.state for record in await ledger.sessions()] == [SessionState.IDLE]


async def test_who_was_killed_past_the_earlier_daemon_is_closed(tmp_path: Path) -> None:
    running, closed = a_session(SessionState.RUNNING), a_session(SessionState.CLOSED)
    run = a_run(running.key)
    async with Ledger(tmp_path) as ledger:
        for record in (running, closed):
            await ledger.put_session(record)
        await ledger.put_run(run)
    async with Ledger(tmp_path) as ledger:
        killed = dict.fromkeys(map(str, (running.key, closed.key)), CloseReason.KILLED)
        await ledger.recover(NOW, killed | {"agent:none:main": CloseReason.PARENT})
        after = await ledger.session(running.key)
        assert after is not None
        assert (after.state, after.close_reason) == (SessionState.CLOSED, CloseReason.KILLED)
        assert await ledger.session(closed.key) == closed
        ended = await ledger.run(run.run_id)
        assert ended is not None
        assert (ended.outcome, ended.stop_reason) == (Outcome.CANCELLED, "cancelled")


async def test_files_are_the_owners_alone(tmp_path: Path) -> None:
    home = tmp_path / "a" / "b"
    async with Ledger(home) as ledger:
        await ledger.put_session(a_session())
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in home.iterdir()}
        assert modes == dict.fromkeys(("state.db", "state.db-wal", "state.db-shm"), 0o600)
        assert {stat.S_IMODE(p.stat().st_mode) for p in (home, home.parent)} == {0o700}


async def test_rows_belong_to_a_tenant_a_user_and_a_host(tmp_path: Path) -> None:
    async with Ledger(tmp_path) as ledger:
        path = ledger.path
    connection = sqlite3.connect(path)
    for table in ("sessions", "runs", "outbox", "questions", "delegations"):
        columns = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        assert {"tenant_id", "user_id", "host_id"} <= columns
    connection.close()


async def test_a_file_of_a_newer_version_is_refused_and_left_alone(tmp_path: Path) -> None:
    async with Ledger(tmp_path) as ledger:
        path = ledger.path
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 3")
    connection.close()
    with pytest.raises(BridgeError, match="newer") as caught:
        async with Ledger(tmp_path):
            pass
    assert caught.value.code == "daemon_version"
    assert not await anyio.Path(tmp_path / "state.db.corrupt-1").exists()


def _as_of_version_1(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("DROP TABLE delegations")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()


def an_item(name: str = "i", **fields: Any) -> InboxMessage:
    key = str(SessionKey.main(AgentId("mine")))
    values = {"source_thread_id": key, "message": "m", "user_id": 7, **fields}
    return InboxMessage(name, "t", "s", created_at="0", updated_at="1", **values)


async def test_4_7b_a_file_of_the_version_before_gets_what_is_new_and_keeps_the_rest(
    tmp_path: Path,
) -> None:
    kept = a_session(SessionState.IDLE)
    async with Ledger(tmp_path) as ledger:
        await ledger.put_session(kept)
        path = ledger.path
    for _ in range(2):  # and a file that is half changed already is no damage
        _as_of_version_1(path)
        async with Ledger(tmp_path) as ledger:
            assert ledger.notices == ()
            assert await ledger.sessions() == [kept]
            await ledger.put_delegation(an_item(), told=False)
            assert await ledger.delegations() == [an_item()]
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (2,)
    connection.execute("PRAGMA user_version = 1")
    connection.close()
    async with Ledger(tmp_path) as ledger:
        assert await ledger.delegations() == [an_item()]


async def test_4_7b_an_upgrade_that_is_cut_off_has_not_begun(tmp_path: Path) -> None:
    async with Ledger(tmp_path) as ledger:
        path = ledger.path
    _as_of_version_1(path)

    def fails(point: str) -> None:
        if point == "store.upgrade":
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(BridgeError):
        async with Ledger(tmp_path, fails):
            pass
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA user_version").fetchone() == (1,)
    connection.close()
    async with Ledger(tmp_path) as ledger:
        assert await ledger.delegations() == []


async def test_4_7b_handed_over_work_is_kept_until_its_end_was_told(tmp_path: Path) -> None:
    first = an_item("a", metadata={"deep": [1, {"b": None}]}, original_user_prompt="why?")
    second = an_item("b", user_id="u", source_thread_id=None)
    async with Ledger(tmp_path) as ledger:
        for item in (first, second):
            await ledger.put_delegation(item, told=False)
        moved = first.moved(InboxStatus.RUNNING, "2")
        await ledger.put_delegation(moved, told=False)
    async with Ledger(tmp_path) as ledger:
        assert await ledger.delegations() == [moved, second]
        assert str(SessionKey.main(AgentId("mine"))) in await ledger.unfinished()
        await ledger.put_delegation(moved, told=True)
        await ledger.put_delegation(moved, told=True)
        assert await ledger.delegations() == [second]


async def test_handed_over_work_goes_with_its_session_and_has_no_secret(tmp_path: Path) -> None:
    def redact(value: Any) -> Any:
        return json.loads(json.dumps(value).replace("s3cret", "***"))

    said: dict[str, Any] = {"message": "s3cret", "original_user_prompt": "s3cret"}
    said["metadata"] = {"a": "s3cret"}
    async with Ledger(tmp_path, redact=redact) as ledger:
        item = (
            an_item(**said).moved(InboxStatus.RUNNING, "1").moved(InboxStatus.FAILED, "2", "s3cret")
        )
        await ledger.put_delegation(item, told=False)
        (kept,) = await ledger.delegations()
        assert "s3cret" not in repr(kept)
        assert "***" in repr(kept)
        await ledger.forget([SessionKey.main(AgentId("mine"))])
        assert await ledger.delegations() == []


async def test_handed_over_work_that_cannot_be_read_is_dropped_and_counted(tmp_path: Path) -> None:
    async with Ledger(tmp_path) as ledger:
        for name in "abcd":
            await ledger.put_delegation(an_item(name), told=False)
    connection = sqlite3.connect(ledger.path)
    for name, record in (("a", "[]"), ("b", '{"id": "b"}'), ("c", "x")):
        connection.execute("UPDATE delegations SET record = ? WHERE id = ?", (record, name))
    connection.commit()
    connection.close()
    async with Ledger(tmp_path) as ledger:
        assert (await ledger.recover(NOW)).unreadable == 3
        assert await ledger.delegations() == [an_item("d")]


async def test_a_file_of_another_program_is_moved_aside_whole(tmp_path: Path) -> None:
    path = tmp_path / "state.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE theirs (x)")
    connection.execute("INSERT INTO theirs VALUES (1)")
    connection.commit()
    connection.close()
    content = path.read_bytes()
    async with Ledger(tmp_path) as ledger:
        assert await ledger.sessions() == []
        assert (tmp_path / "state.db.corrupt-1").read_bytes() == content
        (notice,) = (await ledger.recover(NOW)).notices
        assert "state.db.corrupt-1" in notice


async def test_a_second_damaged_file_does_not_replace_the_first(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / "state.db").write_bytes(b"no database at all, " * 100)
        async with Ledger(tmp_path) as ledger:
            assert len(ledger.notices) == 1
        assert (tmp_path / f"state.db.corrupt-{number}").exists()


async def filled(home: Path) -> bytes:
    """Return the bytes of a ledger of many pages, with open questions."""
    async with Ledger(home) as ledger:
        for number in range(40):
            record = a_session(SessionState.READY, definition={"text": "x" * 500, "n": number})
            await ledger.put_session(record)
            await ledger.put_question(a_question(record.key))
            await ledger.put_run(a_run(record.key))
    return ledger.path.read_bytes()


async def start(home: Path, content: bytes) -> int:
    """Start with this as the ledger's file: it opens, is usable, and allows nothing.

    Returns:
        How many sessions are rescued.
    """
    path = home / "state.db"
    path.write_bytes(content)
    async with Ledger(home) as ledger:
        await ledger.recover(NOW)
        records = await ledger.sessions()
        assert all(record.state is not SessionState.READY for record in records)
        await ledger.put_session(a_session())
        assert len(await ledger.sessions()) == len(records) + 1
    connection = sqlite3.connect(path)
    decisions = connection.execute("SELECT decision FROM questions").fetchall()
    connection.close()
    assert all('"allow"' not in text for (text,) in decisions)
    return len(records)


async def test_any_prefix_of_the_file_starts(tmp_path: Path) -> None:
    content = await filled(tmp_path / "origin")
    step = len(content) // 25
    cuts = [0, 1, 15, 16, 99, 100, 101, 511, 512, *range(step, len(content), step), len(content)]
    rescued = []
    with anyio.fail_after(19):
        for cut in cuts:
            home = tmp_path / str(cut)
            home.mkdir()
            rescued.append(await start(home, content[:cut]))
    assert (rescued[0], rescued[-1]) == (0, 40)
    assert max(rescued) == 40


async def test_any_flipped_bit_of_the_header_starts(tmp_path: Path) -> None:
    content = await filled(tmp_path / "origin")
    with anyio.fail_after(19):
        for offset in range(100):
            if 60 <= offset < 64:
                continue  # the version: a higher one cannot be told from a newer program's
            home = tmp_path / str(offset)
            home.mkdir()
            flipped = bytearray(content)
            flipped[offset] ^= 1 << (offset % 8)
            assert await start(home, bytes(flipped)) <= 40


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=25)
@given(st.data())
async def test_any_damage_in_the_middle_starts(data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as home:
        content = bytearray(await filled(Path(home) / "origin"))
        for _ in range(data.draw(st.integers(1, 8))):
            offset = data.draw(st.integers(100, len(content) - 1))
            content[offset] = data.draw(st.integers(0, 255))
        (Path(home) / "damaged").mkdir()
        assert await start(Path(home) / "damaged", bytes(content)) <= 40


async def test_g18_a_damaged_name_of_a_column_starts_and_its_rows_are_rescued(
    tmp_path: Path,
) -> None:
    content = await filled(tmp_path / "origin")
    for name in (b"session_key TEXT PRIMARY", b"decision TEXT", b"ending TEXT"):
        home = tmp_path / name[:3].decode()
        home.mkdir()
        await start(home, content.replace(name, b"_" + name[1:]))
        async with Ledger(home) as ledger:
            assert len(await ledger.sessions()) == 41


async def test_rows_before_a_tear_are_rescued(tmp_path: Path) -> None:
    content = await filled(tmp_path)
    (tmp_path / "state.db").write_bytes(content[: len(content) * 3 // 4])
    async with Ledger(tmp_path) as ledger:
        await ledger.recover(NOW)  # a row may have been torn in two
        assert len(await ledger.sessions()) > 10
        assert "rescued" in ledger.notices[0]


async def test_a_row_that_cannot_be_believed_is_dropped_and_counted(tmp_path: Path) -> None:
    good = a_session(SessionState.IDLE)
    async with Ledger(tmp_path) as ledger:
        for record in (good, a_session(), a_session()):
            await ledger.put_session(record)
        bad = [record.key for record in (await ledger.sessions())[1:]]
    connection = sqlite3.connect(ledger.path)
    connection.execute("UPDATE sessions SET record = '[]' WHERE session_key = ?", (str(bad[0]),))
    connection.execute("UPDATE sessions SET record = x'00' WHERE session_key = ?", (str(bad[1]),))
    connection.commit()
    connection.close()
    async with Ledger(tmp_path) as ledger:
        assert (await ledger.recover(NOW)).unreadable == 2
        assert await ledger.sessions() == [good]


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)),
        OSError(errno.EIO, os.strerror(errno.EIO)),
        sqlite3.OperationalError("database or disk is full"),
    ],
)
async def test_a_failed_commit_stores_nothing_and_the_next_one_works(
    tmp_path: Path, error: Exception
) -> None:
    failing = [error]

    def faults(point: str) -> None:
        if point == "ledger.before_commit" and failing:
            raise failing.pop()

    record = a_session()
    async with Ledger(tmp_path, faults) as ledger:
        with pytest.raises(BridgeError) as caught:
            await ledger.put_session(record)
        assert caught.value.code == "store_full"
        assert await ledger.sessions() == []
        await ledger.put_session(record)
        assert await ledger.sessions() == [record]


async def test_a_closed_ledger_says_so(tmp_path: Path) -> None:
    async with Ledger(tmp_path) as ledger:
        pass
    with pytest.raises(BridgeError) as caught:
        await ledger.sessions()
    assert caught.value.code == "daemon_stopping"


async def test_a_directory_that_cannot_be_made_is_an_error_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(BridgeError) as caught:
        async with Ledger(tmp_path / "file"):
            pass
    assert caught.value.code == "store_full"
    assert "can be written" in caught.value.hint


CHILD = """
import sys
from pathlib import Path
import anyio, os, signal
from acpbridge.model.inbox import InboxMessage, InboxStatus
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.sessions import RunRecord
from acpbridge.redact import Redactor
from acpbridge.store.ledger import Ledger

home, point, nth = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
passed = 0

def faults(here):
    global passed
    passed += here == point
    if here == point and passed == nth:
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    async with Ledger(home, faults) as ledger:
        for number in range(nth + 1):
            key = SessionKey.main(AgentId("main"))
            await ledger.put_run(RunRecord(str(number), key, "me", "now"))
            print(number, flush=True)

anyio.run(main)
"""


@pytest.mark.parametrize("point", ["ledger.before_commit", "ledger.after_commit"])
async def test_what_was_acknowledged_is_there_after_a_kill(tmp_path: Path, point: str) -> None:
    done = await anyio.run_process(
        [sys.executable, "-c", CHILD, str(tmp_path), point, "5"],
        check=False,
        stderr=subprocess.DEVNULL,
    )
    shown = done.stdout.decode().split()
    assert shown == ["0", "1", "2", "3"]
    async with Ledger(tmp_path) as ledger:
        found = [run.run_id for run in await ledger.runs(SessionKey.main(AgentId("main")))]
    assert found == [*shown, *(["4"] if point == "ledger.after_commit" else [])]


async def test_g26_the_ledger_has_no_secret_that_an_agent_or_a_person_said(tmp_path: Path) -> None:
    secret = "hush-0b7c2d9e4f"
    redact = Redactor([("SHOP_API_KEY", secret)]).value
    chosen = Settings("fast", f"mode-{secret}", {"effort": "high", "login": f"with {secret}"})
    error = {"code": "agent_error", "message": f"no {secret}", "data": {"x": [secret]}}
    session = a_session(settings=chosen, mode=secret, last_error=error)
    async with Ledger(tmp_path, redact=redact) as ledger:
        await ledger.put_session(session)
        run, question = a_run(session.key), a_question(session.key)
        await ledger.put_run(run)
        await ledger.finish_run(run.run_id, Outcome.FAILED, secret, error, NOW)
        await ledger.put_question(question)
        decision = Decision(Effect.DENY, f"no-{secret}", Reason.OPERATOR, secret, f"why: {secret}")
        assert await ledger.decide_question(question.id, decision, NOW)
        kept = await ledger.session(session.key)
        assert kept is not None
        # A choice that is a secret is not made again; the others are.
        assert kept.settings == Settings("fast", None, {"effort": "high"})
        found = await ledger.question(question.id)
        assert found is not None
        assert str(dict(found.decision or {})["note"]).startswith("why: [redacted:env:")
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert files
    assert [path for path in files if secret.encode() in path.read_bytes()] == []


async def test_a_run_s_end_and_who_is_to_hear_of_it_are_on_record_together_or_not_at_all(
    tmp_path: Path,
) -> None:
    """R12: no outcome without its completion, wherever the disk refuses."""
    failing = False

    def faults(point: str) -> None:
        if failing and point == "ledger.before_commit":
            raise OSError(errno.ENOSPC, "full")

    run = a_run(new_key(), deliver_to="agent:main:main")
    entry = completion(run.run_id, run.deliver_to, pulled=False)
    async with Ledger(tmp_path, faults) as ledger:
        await ledger.put_run(run)
        failing = True
        with pytest.raises(BridgeError):
            await ledger.finish_run(
                run.run_id, Outcome.COMPLETED, "end_turn", None, NOW, delivery=entry
            )
        failing = False
        found = await ledger.run(run.run_id)
        assert found is not None
        assert found.outcome is None
        assert await ledger.outbox() == []
        for _ in range(2):
            await ledger.finish_run(
                run.run_id, Outcome.COMPLETED, "end_turn", None, NOW, delivery=entry
            )
        assert await ledger.outbox() == [entry]
        assert await ledger.outbox(address="agent:main:main") == [entry]
        assert await ledger.outbox(address="agent:other:main") == []


async def test_r11_a_start_owes_a_completion_of_each_run_that_it_ends_if_somebody_is_to_hear(
    tmp_path: Path,
) -> None:
    heard = a_run(new_key(), deliver_to="agent:main:main")
    pulled = a_run(new_key(), deliver_to="agent:main:main", pulled=True)
    unheard = a_run(new_key())
    async with Ledger(tmp_path) as ledger:
        for run in (heard, pulled, unheard):
            await ledger.put_run(run)
        await ledger.recover(NOW)
        expected = [
            completion(heard.run_id, heard.deliver_to, pulled=False),
            completion(pulled.run_id, pulled.deliver_to, pulled=True),
        ]
        assert await ledger.outbox() == expected
        await ledger.recover(NOW)
        assert await ledger.outbox() == expected


async def test_a_delivery_takes_each_step_once_and_no_other_one(tmp_path: Path) -> None:
    entry = completion("r1", "agent:main:main", pulled=False)
    async with Ledger(tmp_path) as ledger:
        assert await ledger.put_outbox(entry)
        assert await ledger.settle_outbox(Settled(entry.id, ("pending",), "sent"))
        assert not await ledger.settle_outbox(Settled(entry.id, ("pending",), "sent"))
        assert not await ledger.settle_outbox(Settled("unknown", ("pending",), "sent"))
        step = Settled(entry.id, ("sent",), "blocked", {"reason": "x"}, address="agent:b:main")
        assert await ledger.settle_outbox(step)
        found = await ledger.delivery(entry.id)
        assert found is not None
        assert (found.state, found.payload, found.address) == (
            "blocked",
            {"reason": "x"},
            "agent:b:main",
        )
        assert await ledger.outbox(address="agent:b:main", states=("blocked",)) == [found]
        assert await ledger.delivery("unknown") is None


async def test_what_a_run_was_asked_is_kept_in_short_and_without_secrets(tmp_path: Path) -> None:
    secret = "sk-ant-api03-" + "a1B2" * 12
    task = "x" * 480 + secret
    async with Ledger(tmp_path, redact=Redactor([]).value) as ledger:
        run = a_run(new_key(), task=task)
        await ledger.put_run(run)
        found = await ledger.run(run.run_id)
    assert found is not None
    assert len(found.task) <= 500
    assert "sk-ant" not in found.task
    assert b"sk-ant" not in (tmp_path / "state.db").read_bytes()
