"""The session log: what is followed is what was appended, over any window, restart and failure."""

import errno
import json
import sqlite3
import stat
import tempfile
import uuid
from collections.abc import Callable
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acpbridge.errors import BridgeError
from acpbridge.model.events import Event, Fact, Stamp, Update, render
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.redact import Redactor
from acpbridge.store.follower import Follower
from acpbridge.store.sessionlog import SessionLog

CODEX, CLAUDE = AgentId("codex"), AgentId("claude")
AT = "2026-01-02T03:04:05.678Z"
CHUNK = 256 * 1024


class StoppedClock:
    def wall(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)

    def monotonic(self) -> float:
        return 1.0


def same(line: bytes) -> bytes:
    return line


def new_log(root: Path, *, epoch: str = "e1", **options: Any) -> SessionLog:
    options.setdefault("redact", same)
    return SessionLog(root, StoppedClock(), epoch, **options)


def new_key(agent: AgentId = CODEX) -> SessionKey:
    return SessionKey.acp(agent, uuid.uuid4())


def say(text: str) -> Update:
    return Update(json.dumps({"text": text}).encode())


def seqs(lines: list[bytes]) -> list[int]:
    return [json.loads(line)["seq"] for line in lines]


async def take(follower: Follower, upto: int) -> list[bytes]:
    """Read until the number; every read keeps to its bound."""
    lines: list[bytes] = []
    while follower.position < upto:
        some = await follower.read()
        assert some
        assert len(some) == 1 or sum(map(len, some)) + len(some) <= CHUNK
        lines += some
    return lines


def database(root: Path, agent: AgentId = CODEX) -> Path:
    return root / "agents" / agent / "sessions" / "events.db"


def stored(root: Path, agent: AgentId = CODEX) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(database(root, agent))) as connection:
        query = "SELECT session_key, first_seq, last_seq, lines FROM events ORDER BY rowid"
        return connection.execute(query).fetchall()


class Gate:
    """A fault point that fails while it is told to; called in worker threads."""

    def __init__(self, point: str, error: Exception) -> None:
        self.error: Exception | None = error
        self.passed = 0
        self._point = point

    def __call__(self, point: str) -> None:
        if point == self._point:
            self.passed += 1
            if self.error is not None:
                raise self.error


# --- Lines and numbers


events = st.one_of(
    st.builds(lambda value: Update(json.dumps(value).encode()), st.text(max_size=30)),
    st.builds(
        Fact,
        st.sampled_from(["notice", "turn_started", "stderr"]),
        st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=2),
    ),
)
turns = st.none() | st.text(st.characters(codec="utf-8"), max_size=8)


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=50)
@given(st.lists(st.tuples(turns, events), min_size=1, max_size=12), st.text(max_size=6))
async def test_a_line_is_what_the_model_renders(
    script: list[tuple[str | None, Event]], epoch: str
) -> None:
    key = new_key()
    with tempfile.TemporaryDirectory() as root, anyio.fail_after(30):
        async with new_log(Path(root), epoch=epoch) as log:
            await log.open(key)
            for turn, event in script:
                log.append(key, turn, event)
            lines = await take(log.follow(key), len(script))
    assert lines == [
        render(event, Stamp(number, epoch, AT, key, turn))
        for number, (turn, event) in enumerate(script, 1)
    ]


async def test_an_update_with_line_ends_between_its_tokens_stays_one_line(tmp_path: Path) -> None:
    key = new_key()
    async with new_log(tmp_path) as log:
        await log.open(key)
        log.append(key, None, Update(b'{\n "a": 1\n}'))
        (line,) = await take(log.follow(key), 1)
    assert b"\n" not in line
    assert json.loads(line)["update"] == {"a": 1}


async def test_numbers_go_on_without_a_gap_after_a_restart(tmp_path: Path) -> None:
    key, other = new_key(), new_key()
    for start in range(3):
        async with new_log(tmp_path, epoch=f"e{start}") as log:
            assert await log.open(key) == 2 * start
            assert await log.open(other) == start
            numbers = [log.append(key, None, say("a")), log.append(key, None, say("b"))]
            assert numbers == [2 * start + 1, 2 * start + 2]
            assert log.append(other, None, say("c")) == start + 1
            assert log.last_seq(key) == 2 * start + 2
            assert await log.open(key) == 2 * start + 2
    async with new_log(tmp_path) as log:
        await log.open(key)
        lines = await take(log.follow(key), 6)
    assert seqs(lines) == [1, 2, 3, 4, 5, 6]
    epochs = [json.loads(line)["epoch"] for line in lines]
    assert epochs == ["e0", "e0", "e1", "e1", "e2", "e2"]


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=50)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("append"), st.integers(0, 2), st.integers(0, 400)),
            st.tuples(st.just("commit"), st.integers(0, 2), st.just(0)),
            st.tuples(st.just("read"), st.integers(0, 2), st.just(0)),
            st.tuples(st.just("restart"), st.just(0), st.just(0)),
        ),
        max_size=40,
    ),
    st.sampled_from([0, 700, 3000, 1 << 22]),
    st.data(),
)
async def test_what_is_followed_is_what_was_appended_over_any_window(
    script: list[tuple[str, int, int]], ring_bytes: int, data: st.DataObject
) -> None:
    keys = [new_key(), new_key(), new_key(CLAUDE)]
    appended: list[list[bytes]] = [[], [], []]
    with tempfile.TemporaryDirectory() as home, anyio.fail_after(20):
        root = Path(home)
        parts: list[list[tuple[str, int, int]]] = [[]]
        for step in script:
            if step[0] == "restart":
                parts.append([])
            else:
                parts[-1].append(step)
        for part in parts:
            async with new_log(root, ring_bytes=ring_bytes) as log:
                lasts = [await log.open(key) for key in keys]
                assert lasts == [len(lines) for lines in appended]
                followers = [log.follow(key) for key in keys]
                for verb, who, size in part:
                    if verb == "append":
                        event = say("x" * size)
                        number = log.append(keys[who], "t", event)
                        stamp = Stamp(number, "e1", AT, keys[who], "t")
                        appended[who].append(render(event, stamp))
                    elif verb == "commit":
                        await log.committed(keys[who])
                    elif followers[who].position < len(appended[who]):
                        position = followers[who].position
                        lines = await followers[who].read()
                        assert lines == appended[who][position : position + len(lines)]
                for who, follower in enumerate(followers):
                    position = follower.position
                    lines = await take(follower, len(appended[who]))
                    assert lines == appended[who][position:]
                    after = data.draw(st.integers(0, len(appended[who])))
                    window = await take(log.follow(keys[who], after), len(appended[who]))
                    assert window == appended[who][after:]


# --- Commit before show


async def test_nothing_is_shown_before_its_commit(tmp_path: Path) -> None:
    key = new_key()
    gate = Gate("log.before_commit", OSError(errno.ENOSPC, "full"))
    with anyio.fail_after(30):
        failed = anyio.Event()

        def on_failure(error: BridgeError | None) -> None:
            if error is not None:
                failed.set()

        async with new_log(tmp_path, faults=gate, on_failure=on_failure) as log:
            await log.open(key)
            follower = log.follow(key)
            log.append(key, None, say("a"))
            await failed.wait()
            with anyio.move_on_after(0) as scope:
                await follower.read()
            assert scope.cancelled_caught
            assert follower.position == 0
            gate.error = None
            assert seqs(await follower.read()) == [1]
            assert len(stored(tmp_path)) == 1


async def test_an_idle_log_commits_one_event_alone_and_at_once(tmp_path: Path) -> None:
    key = new_key()
    async with new_log(tmp_path) as log:
        await log.open(key)
        for _ in range(5):
            log.append(key, None, say("a"))
            await log.committed(key)
    assert [row[1:3] for row in stored(tmp_path)] == [(n, n) for n in range(1, 6)]


async def test_what_comes_during_a_commit_is_one_batch(tmp_path: Path) -> None:
    keys = [new_key(), new_key()]
    async with new_log(tmp_path) as log:
        for key in keys:
            await log.open(key)
        for _ in range(50):
            for key in keys:
                log.append(key, None, say("a"))
        for key in keys:
            await log.committed(key)
    assert [row[:3] for row in stored(tmp_path)] == [(str(key), 1, 50) for key in keys]


async def test_rows_hold_at_most_256_kib_and_a_bigger_event_has_one_alone(tmp_path: Path) -> None:
    key = new_key()
    sizes = [10, 200_000, 100_000, 3 * CHUNK, 10, 10, CHUNK, 100_000]
    async with new_log(tmp_path) as log:
        await log.open(key)
        for size in sizes:
            log.append(key, None, say("x" * size))
        follower = log.follow(key)
        lines = await take(follower, len(sizes))
        assert [len(json.loads(line)["update"]["text"]) for line in lines] == sizes
    async with new_log(tmp_path) as log:
        await log.open(key)
        assert await take(log.follow(key), len(sizes)) == lines
    rows = [row[1:3] for row in stored(tmp_path)]
    assert rows == [(1, 2), (3, 3), (4, 4), (5, 6), (7, 7), (8, 8)]


# --- Followers


async def test_sixteen_followers_see_every_event_once_and_in_order(tmp_path: Path) -> None:
    key, count = new_key(), 2000
    seen: list[list[bytes]] = [[] for _ in range(16)]
    with anyio.fail_after(15):
        async with new_log(tmp_path) as log, anyio.create_task_group() as tasks:
            await log.open(key)

            async def follow(mine: list[bytes]) -> None:
                async with log.follow(key) as follower:
                    mine += await take(follower, count)

            for mine in seen:
                tasks.start_soon(follow, mine)
            for number in range(count):
                log.append(key, None, say("x"))
                if number % 7 == 0:
                    await checkpoint()
    assert seqs(seen[0]) == list(range(1, count + 1))
    assert all(mine == seen[0] for mine in seen)


async def test_a_slow_follower_holds_nobody_up_and_misses_nothing(tmp_path: Path) -> None:
    key, count = new_key(), 400
    with anyio.fail_after(15):
        async with new_log(tmp_path, ring_bytes=20_000) as log:
            await log.open(key)
            slow, quick = log.follow(key), log.follow(key)
            for number in range(1, count + 1):
                log.append(key, None, say("x" * 500))
                assert seqs(await quick.read()) == [number]
                assert not quick.redacted
            lines, redacted = list[bytes](), list[bool]()
            while slow.position < count:
                lines += await slow.read()
                redacted.append(slow.redacted)
            assert (redacted[0], redacted[-1]) == (True, False)
            assert seqs(lines) == list(range(1, count + 1))


async def test_the_ring_is_bounded_over_all_sessions(tmp_path: Path) -> None:
    keys = [new_key() for _ in range(5)]
    async with new_log(tmp_path, ring_bytes=50_000) as log:
        for key in keys:
            await log.open(key)
        for _ in range(100):
            for key in keys:
                log.append(key, None, say("x" * 1000))
            await log.committed(keys[-1])
            assert log._writers.publisher._ring.size <= 50_000
        for key in keys:
            assert seqs(await take(log.follow(key), 100)) == list(range(1, 101))


async def test_a_read_that_was_cancelled_loses_nothing(tmp_path: Path) -> None:
    key = new_key()
    async with new_log(tmp_path, ring_bytes=0) as log:
        await log.open(key)
        log.append(key, None, say("a"))
        await log.committed(key)
        follower = log.follow(key)
        with anyio.CancelScope() as scope:
            scope.cancel()
            await follower.read()
        assert seqs(await follower.read()) == [1]


async def test_a_closed_follower_ends_its_read(tmp_path: Path) -> None:
    key = new_key()
    with anyio.fail_after(30):
        async with new_log(tmp_path) as log, anyio.create_task_group() as tasks:
            await log.open(key)
            follower = log.follow(key)

            async def read() -> None:
                with pytest.raises(anyio.ClosedResourceError):
                    await follower.read()

            tasks.start_soon(read)
            await checkpoint()
            await follower.aclose()


# --- Redaction


async def test_live_followers_get_the_bytes_as_they_came_and_the_store_a_redacted_copy(
    tmp_path: Path,
) -> None:
    def redact(line: bytes) -> bytes:
        return line.replace(b"hunter22", b"[redacted]")

    key = new_key()
    async with new_log(tmp_path, redact=redact) as log:
        await log.open(key)
        live = log.follow(key)
        log.append(key, None, say("hunter22"))
        (line,) = await live.read()
        assert b"hunter22" in line
        assert not live.redacted
    for path in database(tmp_path).parent.iterdir():
        assert b"hunter22" not in path.read_bytes()
    async with new_log(tmp_path, redact=redact) as log:
        await log.open(key)
        replay = log.follow(key)
        (line,) = await replay.read()
        assert b"[redacted]" in line
        assert replay.redacted


@pytest.mark.parametrize("grow", [b"\n", b"*" * 300_000])
async def test_a_redactor_cannot_shift_numbers(tmp_path: Path, grow: bytes) -> None:
    key = new_key()
    async with new_log(tmp_path, redact=lambda line: line + grow, ring_bytes=0) as log:
        await log.open(key)
        for _ in range(4):
            log.append(key, None, say("x"))
        follower = log.follow(key, 1)
        lines = await take(follower, 4)
    assert seqs([line.rstrip(b"*") for line in lines]) == [2, 3, 4]


# --- Failing disks


@pytest.mark.parametrize("point", ["log.before_commit", "log.after_commit"])
@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "full"), sqlite3.OperationalError("disk I/O error")]
)
async def test_a_failed_commit_is_told_kept_tried_again_and_recovers(
    tmp_path: Path, point: str, error: Exception
) -> None:
    key, gate, told = new_key(), Gate(point, error), list[BridgeError | None]()
    with anyio.fail_after(30):
        news = anyio.Event()

        def on_failure(what: BridgeError | None) -> None:
            told.append(what)
            news.set()

        async with new_log(tmp_path, faults=gate, on_failure=on_failure) as log:
            await log.open(key)
            log.append(key, None, say("a"))
            await news.wait()
            log.append(key, None, say("b"))
            gate.error = None
            await log.committed(key)
            assert seqs(await take(log.follow(key), 2)) == [1, 2]
    assert [None if what is None else what.code for what in told] == ["store_full", None]
    assert sorted(row[1:3] for row in stored(tmp_path)) == [(1, 1), (2, 2)]


async def test_room_waits_only_while_more_is_pending_than_the_bound(tmp_path: Path) -> None:
    key, gate = new_key(), Gate("log.before_commit", OSError(errno.ENOSPC, "full"))
    with anyio.fail_after(30):
        async with new_log(tmp_path, faults=gate, pending_bytes=1000) as log:
            await log.open(key)
            log.append(key, None, say("a"))
            await log.room()
            log.append(key, None, say("x" * 1000))
            with anyio.move_on_after(0) as scope:
                await log.room()
            assert scope.cancelled_caught
            gate.error = None
            await log.room()


async def test_one_agents_broken_disk_does_not_stop_another(tmp_path: Path) -> None:
    broken, sound = new_key(CODEX), new_key(CLAUDE)
    with anyio.fail_after(30):
        async with new_log(tmp_path) as log:
            await log.open(broken)
            await log.open(sound)
            directory = database(tmp_path, CODEX).parent
            log._writers._writers[CODEX].file.close()
            directory.rename(directory.with_name("gone"))
            directory.write_text("in the way", encoding="utf-8")
            log.append(broken, None, say("a"))
            log.append(sound, None, say("b"))
            await log.committed(sound)
            directory.unlink()
            directory.with_name("gone").rename(directory)
            await log.committed(broken)
            kept = [len(await take(log.follow(key), 1)) for key in (broken, sound)]
    assert kept == [1, 1]


async def test_a_disk_that_is_full_at_opening_refuses_the_session(tmp_path: Path) -> None:
    (tmp_path / "agents").write_text("in the way", encoding="utf-8")
    key = new_key()
    async with new_log(tmp_path) as log:
        with pytest.raises(BridgeError) as caught:
            await log.open(key)
        assert caught.value.code == "store_full"
        (tmp_path / "agents").unlink()
        assert await log.open(key) == 0


# --- Closing


async def test_closing_flushes_even_when_its_owner_is_cancelled(tmp_path: Path) -> None:
    key = new_key()
    with anyio.fail_after(30), anyio.CancelScope() as scope:
        async with new_log(tmp_path) as log:
            await log.open(key)
            for _ in range(100):
                log.append(key, None, say("x" * 10_000))
            scope.cancel()
            await checkpoint()
    async with new_log(tmp_path) as log:
        assert await log.open(key) == 100


async def test_closing_is_bounded_when_the_disk_stays_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acpbridge.store.sessionlog._FLUSH_SECONDS", 0.3)
    key, gate = new_key(), Gate("log.before_commit", OSError(errno.ENOSPC, "full"))
    with anyio.fail_after(30):
        async with new_log(tmp_path, faults=gate) as log:
            await log.open(key)
            log.append(key, None, say("a"))
    assert gate.passed > 1


async def test_an_error_of_the_body_passes_as_it_is(tmp_path: Path) -> None:
    key = new_key()

    async def body() -> None:
        async with new_log(tmp_path) as log:
            await log.open(key)
            log.append(key, None, say("a"))
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await body()
    assert len(stored(tmp_path)) == 1


# --- Damage


async def test_files_are_the_owners_alone(tmp_path: Path) -> None:
    async with new_log(tmp_path / "home") as log:
        await log.open(new_key())
        for path in (tmp_path / "home").rglob("*"):
            wanted = 0o700 if path.is_dir() else 0o600
            assert stat.S_IMODE(path.stat().st_mode) == wanted


async def fill(root: Path, key: SessionKey, count: int) -> None:
    async with new_log(root) as log:
        await log.open(key)
        for _ in range(count):
            log.append(key, None, say("x" * 3000))
            await log.committed(key)


async def check_start(root: Path, key: SessionKey, most: int) -> int:
    """Open whatever is there; what is shown is in order, and events can be added."""
    with anyio.fail_after(30):
        async with new_log(root, epoch="e2") as log:
            last = await log.open(key)
            assert last <= most
            log.append(key, None, say("new"))
            numbers = seqs(await take(log.follow(key), last + 1))
            assert numbers == sorted(set(numbers))
            assert numbers[-1] == last + 1
            return len(log.notices)


async def test_any_prefix_of_a_database_starts(tmp_path: Path) -> None:
    key, count = new_key(), 60
    await fill(tmp_path / "origin", key, count)
    content = database(tmp_path / "origin").read_bytes()
    moved = 0
    for cut in [0, 1, 50, 99, 100, 511, 512, *range(4096, len(content), 9001)]:
        path = database(tmp_path / str(cut))
        path.parent.mkdir(parents=True)
        path.write_bytes(content[:cut])
        moved += await check_start(tmp_path / str(cut), key, count)
    assert moved > 5


def copy_live(origin: Path, target: Path) -> bytes:
    """Copy a database in use, without its write-ahead log; return that log."""
    target.parent.mkdir(parents=True)
    target.write_bytes(origin.read_bytes())
    return origin.with_name(origin.name + "-wal").read_bytes()


async def test_any_prefix_of_a_write_ahead_log_gives_a_prefix_of_the_events(
    tmp_path: Path,
) -> None:
    key, found = new_key(), list[int]()
    async with new_log(tmp_path / "origin") as log:
        await log.open(key)
        for _ in range(10):
            log.append(key, None, say("x" * 300))
            await log.committed(key)
        size = len(copy_live(database(tmp_path / "origin"), database(tmp_path / "copy")))
        for number, cut in enumerate(range(0, size + 1, 5000)):
            path = database(tmp_path / str(number))
            wal = copy_live(database(tmp_path / "origin"), path)
            path.with_name(path.name + "-wal").write_bytes(wal[:cut])
            async with new_log(tmp_path / str(number)) as copy:
                found.append(await copy.open(key))
                assert seqs(await take(copy.follow(key), found[-1])) == [*range(1, found[-1] + 1)]
    assert found == sorted(found)
    assert found[-1] >= 9


async def test_a_file_that_is_no_database_is_moved_aside_and_numbers_begin_again(
    tmp_path: Path,
) -> None:
    key = new_key()
    await fill(tmp_path, key, 5)
    database(tmp_path).write_bytes(b"nonsense " * 1000)
    assert await check_start(tmp_path, key, 0) == 1
    assert database(tmp_path).with_name("events.db.corrupt-1").exists()


def spoil(root: Path, choose: Callable[[int], bool]) -> None:
    """Overwrite the chosen pages of the database."""
    path = database(root)
    content = bytearray(path.read_bytes())
    for page in range(1, len(content) // 16384):
        if choose(page):
            content[page * 16384 : page * 16384 + 64] = b"\xff" * 64
    path.write_bytes(bytes(content))


async def test_a_damaged_page_is_found_when_it_is_met_and_the_rest_is_rescued(
    tmp_path: Path,
) -> None:
    key, count = new_key(), 60
    await fill(tmp_path, key, count)
    spoil(tmp_path, lambda page: page == 8)
    with anyio.fail_after(15):
        async with new_log(tmp_path, epoch="e2") as log:
            last = await log.open(key)
            assert last == count
            log.append(key, None, say("new"))
            await log.committed(key)
            numbers = seqs(await take(log.follow(key), last + 1))
            assert numbers == sorted(set(numbers))
            assert numbers[0] == 1
            assert numbers[-1] == last + 1
            assert len(numbers) > count // 2
            assert len(log.notices) == 1


async def test_a_damaged_index_is_found_when_a_second_session_is_opened(tmp_path: Path) -> None:
    key = new_key()
    await fill(tmp_path, key, 60)
    async with new_log(tmp_path) as log:
        await log.open(key)
        spoil(tmp_path, lambda page: page > 1)
        log._writers._writers[CODEX].file.close()
        spoil(tmp_path, lambda page: page > 0)
        assert await log.open(new_key()) == 0
        assert len(log.notices) == 1


async def test_events_that_are_lost_from_the_disk_are_passed_over(tmp_path: Path) -> None:
    key = new_key()
    with anyio.fail_after(30):
        async with new_log(tmp_path, ring_bytes=1500) as log:
            await log.open(key)
            for _ in range(20):
                log.append(key, None, say("x" * 100))
                await log.committed(key)
            with closing(sqlite3.connect(database(tmp_path))) as connection:
                connection.execute("DELETE FROM events WHERE last_seq BETWEEN 4 AND 7")
                connection.commit()
                numbers = seqs(await take(log.follow(key), 20))
                assert numbers == [1, 2, 3, *range(8, 21)]
                connection.execute("DELETE FROM events")
                connection.commit()
            numbers = seqs(await take(log.follow(key), 20))
            assert numbers == list(range(numbers[0], 21))
            assert 1 < numbers[0] <= 20


async def test_a_log_that_cannot_be_read_is_an_error_of_that_read_alone(tmp_path: Path) -> None:
    key = new_key()
    await fill(tmp_path, key, 2)
    with anyio.fail_after(30):
        async with new_log(tmp_path) as log:
            await log.open(key)
            follower = log.follow(key)
            path = database(tmp_path)
            log._writers._writers[CODEX].file.close()
            path.rename(path.with_name("gone"))
            path.mkdir()
            with pytest.raises(BridgeError) as caught:
                await follower.read()
            assert caught.value.code == "store_full"
            path.rmdir()
            path.with_name("gone").rename(path)
            assert seqs(await follower.read()) == [1, 2]


async def test_a_database_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    key = new_key()
    await fill(tmp_path, key, 1)
    with closing(sqlite3.connect(database(tmp_path))) as connection:
        connection.execute("PRAGMA user_version = 9")
    async with new_log(tmp_path) as log:
        with pytest.raises(BridgeError) as caught:
            await log.open(key)
        assert caught.value.code == "daemon_version"


# ---- Secrets in pieces ----

KNOWS = Redactor([("SHOP_API_KEY", "S3NT1NEL-0b7c2d9e4f")])


def piece(text: str) -> Update:
    value = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    return Update(json.dumps(value).encode())


def knowing(root: Path, **options: Any) -> SessionLog:
    return new_log(root, redact=KNOWS.json_line, searcher=KNOWS, **options)


def everything(root: Path) -> bytes:
    return b"".join(path.read_bytes() for path in root.rglob("*") if path.is_file())


async def test_g26_a_secret_in_pieces_is_in_no_byte_of_the_files_and_live_it_is_as_it_came(
    tmp_path: Path,
) -> None:
    key = new_key()
    async with knowing(tmp_path) as log:
        await log.open(key)
        for text in ("it is S3NT1N", "EL-0b7c", "2d9e4f."):
            log.append(key, "t", piece(text))
            await log.committed(key)
            assert b"1NEL" not in everything(tmp_path)
            assert b"-0b7c" not in everything(tmp_path)
        live = b"".join(await take(log.follow(key), 3))
        assert b"EL-0b7c" in live
        replay = log.follow(key, live=False, replay=True)
        assert b"redacted:env" in b"".join(await take(replay, 3))
        log.append(key, "t", piece("more"))
        await log.committed(key)
        late = log.follow(key, 1, replay=True)
        log.append(key, "t", piece("S3NT1NEL-0b7c2d9e4f"))
        await log.committed(key)
        *old, new = await take(late, 5)
        assert [json.loads(line)["seq"] for line in old] == [2, 3, 4]
        assert b"0b7c" not in b"".join(old)
        assert b"S3NT1NEL-0b7c2d9e4f" in new  # what comes once somebody follows is live


async def test_what_is_withheld_is_told_when_the_turn_ends_and_when_the_log_is_closed(
    tmp_path: Path,
) -> None:
    key, other = new_key(), new_key()
    async with knowing(tmp_path) as log:
        for one in (key, other):
            await log.open(one)
            log.append(one, "t", piece("it is S3NT1N"))
        await log.committed(other)
        assert b"S3NT1N" not in everything(tmp_path)
        log.append(key, "t", Fact("turn_ended"))
        await log.committed(key)
        assert [b"S3NT1N" in row[3] for row in stored(tmp_path) if row[0] == str(key)] != [False]
    texts = [row[3] for row in stored(tmp_path)]
    assert sum(b"S3NT1N" in text for text in texts) == 2
    async with knowing(tmp_path, epoch="e2") as log:  # the checksums are right
        await log.open(other)
        (line,) = await take(log.follow(other), 1)
        assert json.loads(line)["update"]["content"]["text"] == "it is S3NT1N"


async def test_a_commit_that_fails_and_is_made_again_joins_the_same_pieces(tmp_path: Path) -> None:
    gate = Gate("log.after_commit", OSError(errno.EIO, "no"))
    gate.error = None
    key = new_key()
    failed = anyio.Event()
    async with knowing(tmp_path, faults=gate, on_failure=lambda _: failed.set()) as log:
        await log.open(key)
        log.append(key, "t", piece("it is S3NT1N"))
        await log.committed(key)
        gate.error = OSError(errno.EIO, "no")
        log.append(key, "t", piece("EL-0b7c2d9e4f!"))
        await failed.wait()
        gate.error = None
        await log.committed(key)
    text = b"".join(row[3] for row in stored(tmp_path))
    assert text.count(b"[redacted:env:") == 1
    assert b"S3NT1N" not in text
    assert b'"text": "!"' in text
