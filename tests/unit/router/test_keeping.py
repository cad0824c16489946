"""Deleting sessions: only what is at rest, whole, once asked for or when it is old enough."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio

from acpbridge.config.snapshot import Limits
from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.model.sessions import SessionState
from acpbridge.router.api import Span
from acpbridge.router.receipts import PruneRequest, RestartRequest
from tests.unit.router.world import OPERATOR, World, agent_in, refused, until, world

EVERYTHING = PruneRequest()


async def prune(w: World, **what: Any) -> list[SessionKey]:
    return [one.key for one in await w.router.prune(PruneRequest(**what), OPERATOR)]


async def at_rest(w: World, text: str = "say a") -> SessionKey:
    run, _ = await w.done(text)
    await w.rest(run.key)
    return run.key


async def test_what_has_no_process_is_deleted_from_everywhere(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        key = await at_rest(w)
        run = (await w.ledger.runs(key))[0].run_id
        assert await prune(w, dry_run=True) == [key]
        assert await w.ledger.session(key) is not None
        assert await prune(w) == [key]
        assert await w.ledger.session(key) is None
        assert await w.ledger.runs(key) == []
        assert await w.rows() == []
        await refused("no_such_session", w.run("say b", key=key))
        await refused("no_such_session", w.router.follow(str(key), 0, OPERATOR))
        await refused("no_such_session", w.router.wait(run, OPERATOR))
        assert (await w.log.sizes(key.agent)) == {}
        kinds = [json.loads(line).get("kind") for line in w.audit.read_text("utf-8").splitlines()]
        assert "prune" in kinds
    async with world(tmp_path) as w:
        assert await w.rows() == []


async def test_nothing_that_lives_or_works_or_has_it_below_is_deleted(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        ready, _ = await w.done("say a", one_shot=False)
        await w.is_ready(ready.key)
        parent = await w.run("wait", one_shot=True)
        await w.diary.has("prompt wait")
        child = await w.run("wait", by=agent_in(parent.key), one_shot=False)
        await w.diary.has("prompt wait", 2)
        w.agent(parent.key).answer("end_turn")  # were it to die, its child would go with it
        await w.rest(parent.key)
        assert await prune(w) == []
        w.agent(child.key).die()
        await w.rest(child.key)
        assert set(await prune(w)) == {parent.key, child.key}


async def test_what_is_asked_for_must_all_be_true(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        one, two = await at_rest(w), await at_rest(w)
        await w.router.close(str(two), OPERATOR)
        assert await prune(w, older_than=1.0) == []
        assert await prune(w, states=(SessionState.CLOSED,)) == [two]
        assert await prune(w, keep=1) == []
        assert await prune(w, keys=(str(two), str(one))) == [one]


async def test_an_agent_deletes_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        key = await at_rest(w)
        await refused("permission_denied", w.router.prune(EVERYTHING, agent_in(key)))
        assert await w.ledger.session(key) is not None


async def test_one_that_is_killed_or_prompted_at_the_same_time_does_not_come_back(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        keys = [await at_rest(w) for _ in range(6)]

        async def touch(key: SessionKey, n: int) -> None:
            try:
                if n % 3 == 0:
                    await w.router.kill([str(key)], 0, OPERATOR)
                elif n % 3 == 1:
                    await w.run("say b", key=key)
                else:
                    await w.router.restart(RestartRequest(str(key)), OPERATOR)
            except BridgeError as error:
                assert error.code in ("no_such_session", "session_closed")  # noqa: PT017

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(prune, w)
            for n, key in enumerate(keys):
                tasks.start_soon(touch, key, n)
        await until(lambda: all(s.at_rest or s.agent for s in w.made()))
        known = {session.key for session in w.made()}
        stored = {r.key for r in await w.ledger.sessions() if r.key.kind != "main"}
        assert stored == known
        assert set(await w.log.sizes(keys[0].agent)) == {str(key) for key in known}


async def test_whoever_follows_a_deleted_session_is_told(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        key = await at_rest(w)
        last = w.log.last_seq(key)
        following = await w.router.follow(str(key), last, OPERATOR, Span(stored=True))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refused, "no_such_session", following.read())
            await anyio.wait_all_tasks_blocked()
            assert await prune(w) == [key]


async def test_what_cannot_be_deleted_is_there_again(tmp_path: Path) -> None:
    failing: list[str] = []

    def faults(point: str) -> None:
        if point in failing:
            raise OSError(28, "No space left on device")

    async with world(tmp_path, faults=faults) as w:
        key = await at_rest(w)
        failing.append("ledger.before_commit")
        await refused("store_full", w.router.prune(EVERYTHING, OPERATOR))
        failing.clear()
        rows = await w.rows()
        assert [row["key"] for row in rows] == [str(key)]
        last = w.log.last_seq(key)
        await w.done("say b", key=key)
        await w.rest(key)
        assert w.log.last_seq(key) > last > 1  # G17: no number is used twice
        assert await prune(w) == [key]


async def test_what_a_crash_left_of_a_deletion_can_be_deleted_again(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        key = await at_rest(w)
        await w.log.forget(key)  # and then the daemon is gone
    async with world(tmp_path) as w:
        following = await w.router.follow(str(key), 0, OPERATOR, Span(live=False, stored=True))
        assert await following.read() == []
        assert await prune(w) == [key]
        assert await w.ledger.session(key) is None


# ---- Retention ----


async def age(w: World, key: SessionKey, days: float) -> None:
    """Put a session's making so long before the world's now."""
    record = await w.ledger.session(key)
    assert record is not None
    at = (w.clock.wall() - timedelta(days=days)).isoformat(timespec="milliseconds")
    text = "UPDATE runs SET record = json_set(record, '$.acceptedAt', ?), ending = "
    text += "json_set(ending, '$[3]', ?) WHERE session_key = ?"
    await w.ledger._update(text, (at, at, str(key)))


async def used_of_late(w: World) -> None:
    """Have the bridge used today and a week ago, so that its clock is believed."""
    await at_rest(w)
    await age(w, await at_rest(w), 7)


async def test_at_its_start_the_daemon_deletes_what_was_not_used_for_so_long(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        old, young = await at_rest(w), await at_rest(w)
        await age(w, old, 91)
        await age(w, young, 89)
        await used_of_late(w)
    async with world(tmp_path) as w:
        await until(lambda: w.router._directory.get(old) is None)
        rows = await w.rows()
        assert str(young) in [row["key"] for row in rows]
        assert len(rows) == 3
        async with w.router._keeping._one:
            notes = [json.loads(line) for line in w.audit.read_text("utf-8").splitlines()]
        assert [note["by"] for note in notes if note.get("kind") == "prune"] == ["system:retention"]


async def test_g27_a_clock_that_is_put_years_ahead_deletes_nothing_by_itself(
    tmp_path: Path,
) -> None:
    """With the wall clock in place of `believed`: `assert 0 == 4`, all sessions are gone."""
    async with world(tmp_path) as w:
        await age(w, await at_rest(w), 60)
        await age(w, await at_rest(w), 30)
        await used_of_late(w)
        now = w.clock.wall()
        ahead = now + timedelta(days=10 * 365)
        w.clock.wall = lambda: ahead  # type: ignore[method-assign]
        await w.router._keeping._keep_days()
        assert len(await w.rows()) == 4
        # Nor once it is used by that clock, and the clock jumps again.
        await at_rest(w)
        further = ahead + timedelta(days=365)
        w.clock.wall = lambda: further  # type: ignore[method-assign]
        await w.router._keeping._keep_days()
        assert len(await w.rows()) == 5
        # A person who says so is believed.
        assert len(await prune(w, older_than=90 * 86400.0, dry_run=True)) == 5


async def test_the_configured_days_count(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        key = await at_rest(w)
        await age(w, key, 91)
        await used_of_late(w)
    async with world(tmp_path, limits=Limits(retention_days=92)) as w:
        assert key in await prune(w, dry_run=True)
        await w.router._keeping._keep_days()
        assert w.router._directory.get(key) is not None
    async with world(tmp_path, limits=Limits(retention_days=90)) as w:
        await until(lambda: w.router._directory.get(key) is None)


async def test_beyond_the_bound_of_the_store_those_used_longest_ago_go_first(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        keys = [await at_rest(w, f"say {'x' * 900_000}") for _ in range(4)]
        for days, key in enumerate(reversed(keys)):
            await age(w, key, days)
    async with world(tmp_path, limits=Limits(max_store_mb=5)) as w:
        await until(lambda: w.router._directory.get(keys[0]) is None)
        async with w.router._keeping._one:
            left = [row["key"] for row in await w.rows()]
            assert left == [str(key) for key in keys[-len(left) :]]
            assert 1 <= len(left) < 4
            assert await w.log.bytes_on_disk() <= 5 * 1024**2
