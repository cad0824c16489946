"""Spawns that wait: for a place, in the lane, in a burst (cases 141 and 143, R2, R12, R15)."""

from pathlib import Path
from typing import Any

import anyio

from acpbridge.config.snapshot import Limits
from acpbridge.errors import BridgeError
from acpbridge.model.requesters import Requester
from acpbridge.model.sessions import Outcome
from tests.unit.router.spawning import agency, child_of, parent, spawn
from tests.unit.router.world import OPERATOR, World, agent_in, refused, until


async def burst(w: World, number: int, by: list[Requester]) -> tuple[list[Any], list[BridgeError]]:
    """Spawn all at once; return the receipts and the refusals."""
    receipts: list[Any] = []
    refusals: list[BridgeError] = []

    async def one(n: int) -> None:
        try:
            receipts.append(await spawn(w, f"say {n}", by[n % len(by)], label="same"))
        except BridgeError as error:
            refusals.append(error)

    async with anyio.create_task_group() as tasks:
        for n in range(number):
            tasks.start_soon(one, n)
    return receipts, refusals


async def test_r15_an_accepted_spawn_waits_and_only_a_full_line_refuses(tmp_path: Path) -> None:
    """Nothing is made of what is refused; the order of the others is that of their acceptance."""
    async with agency(tmp_path, limits=Limits(max_processes=1, max_queued_spawns=2)) as w:
        first = await spawn(w, "wait first")
        await w.diary.has("prompt wait first")
        assert "waits for a place" not in first["note"]
        queued = [await spawn(w, f"say {n}") for n in range(2)]
        assert all("waits for a place" in receipt["note"] for receipt in queued)
        before = len(w.made())
        error = await refused("capacity", spawn(w, "say more"))
        assert "limits.maxQueuedSpawns: 2" in error.message
        assert "limits.maxProcesses" in error.hint
        assert len(w.made()) == before
        assert [len(await w.ledger.runs(child_of(r))) for r in queued] == [1, 1]
        # A message to a session that exists waits in that session's own queue.
        await w.run("say again", key=child_of(first))
        w.agent(child_of(first)).answer("end_turn")
        for receipt in queued:
            result = await w.router.wait(receipt["runId"], OPERATOR)
            assert result.outcome is Outcome.COMPLETED
        said = [line for line in w.diary.lines if line.startswith("prompt say")]
        assert said == ["prompt say again", "prompt say 0", "prompt say 1"]
        assert w.runtime.most == 1


async def test_without_a_line_there_is_still_room_while_places_are_free(tmp_path: Path) -> None:
    async with agency(tmp_path, limits=Limits(max_processes=2, max_queued_spawns=0)) as w:
        await spawn(w, "wait a")
        await spawn(w, "wait b")
        await refused("capacity", spawn(w, "say more"))


async def test_one_that_is_idle_and_gives_way_counts_as_a_free_place(tmp_path: Path) -> None:
    async with agency(tmp_path, limits=Limits(max_processes=1, max_queued_spawns=0)) as w:
        idle = (await w.done("say a", one_shot=False))[0].key
        await w.is_ready(idle)
        receipt = await spawn(w, "say b")
        assert (await w.router.wait(receipt["runId"], OPERATOR)).outcome is Outcome.COMPLETED


async def test_r2_the_wait_for_a_place_counts_as_no_time_of_the_run(tmp_path: Path) -> None:
    async with agency(tmp_path, limits=Limits(max_processes=1)) as w:
        first = await spawn(w, "wait first")
        await w.diary.has("prompt wait first")
        queued = await spawn(w, "say now", runTimeoutSeconds=1)
        w.clock.advance(3600)
        assert not w.session(child_of(queued)).has_place
        w.agent(child_of(first)).answer("end_turn")
        result = await w.router.wait(queued["runId"], OPERATOR)
        assert result.outcome is Outcome.COMPLETED


async def test_3_3_1_16_python_children_beyond_the_lane_wait_and_others_go_first(
    tmp_path: Path,
) -> None:
    """Without the lane in `Places` all of them run at once."""
    async with agency(tmp_path, limits=Limits(max_concurrent_subagents=1)) as w:
        top = agent_in(await parent(w, "house"))
        native = [await spawn(w, f"wait {n}", top, runtime="subagent") for n in range(3)]
        keys = [child_of(receipt) for receipt in native]
        await until(lambda: str(keys[0]) in w.runtime.running)
        other = await spawn(w, "say past", top)
        await w.router.wait(other["runId"], OPERATOR)
        for here, key in enumerate(keys):
            await until(lambda key=key: str(key) in w.runtime.running)  # type: ignore[misc]
            running = [k for k in keys if str(k) in w.runtime.running]
            assert running == keys[here : here + 1]
            await until(lambda key=key: w.agent(key).word)  # type: ignore[misc]
            w.agent(key).answer("end_turn")
            await w.rest(key)


async def test_one_in_a_full_lane_cannot_wait_for_one_that_needs_the_lane(tmp_path: Path) -> None:
    """Without the look at the lane in `Line.check_place` both wait for ever."""
    async with agency(tmp_path, limits=Limits(max_concurrent_subagents=1)) as w:
        top = agent_in(await parent(w, "house"))
        child = child_of(await spawn(w, "wait", top, runtime="subagent"))
        await until(lambda: str(child) in w.runtime.running)
        error = await refused("capacity", w.run("x", by=agent_in(child), agent="house"))
        assert "limits.maxConcurrentSubagents" in error.message
        assert "limits.maxConcurrentSubagents" in error.hint


async def test_case_141_twenty_at_once_are_twenty_sessions_and_each_is_opened_once(
    tmp_path: Path,
) -> None:
    limits = Limits(max_children_per_session=20, max_processes=4)
    async with agency(tmp_path, limits=limits) as w:
        top = agent_in(await parent(w))
        receipts, refusals = await burst(w, 20, [top])
        assert not refusals
        for receipt in receipts:
            result = await w.router.wait(receipt["runId"], OPERATOR)
            assert result.outcome is Outcome.COMPLETED
        assert len({receipt["childSessionKey"] for receipt in receipts}) == 20
        assert w.diary.lines.count("open New") == 21
        assert sorted(line for line in w.diary.lines if line.startswith("prompt say")) == sorted(
            f"prompt say {n}" for n in range(20)
        )
        assert w.runtime.most == 4


async def test_r12_of_a_hundred_at_once_each_has_a_receipt_or_a_refusal_and_one_end(
    tmp_path: Path,
) -> None:
    limits = Limits(max_children_per_session=20, max_processes=8, max_queued_spawns=40)
    async with agency(tmp_path, limits=limits) as w:
        parents = [agent_in(await parent(w)) for _ in range(3)]
        receipts, refusals = await burst(w, 100, parents)
        assert len(receipts) + len(refusals) == 100
        # 8 places of which 3 are taken, 40 that wait, and 20 children of each parent at most.
        assert len(receipts) == 45
        assert {error.code for error in refusals} <= {"capacity", "subagent_policy"}
        assert "capacity" in {error.code for error in refusals}
        for receipt in receipts:
            result = await w.router.wait(receipt["runId"], OPERATOR)
            assert result.outcome is Outcome.COMPLETED
        children = [s for s in w.made() if s.record.lineage.parent is not None]
        assert len(children) == len(receipts)
        for receipt in receipts:
            (run,) = await w.ledger.runs(child_of(receipt))
            assert (run.run_id, run.outcome) == (receipt["runId"], Outcome.COMPLETED)
