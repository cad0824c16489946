"""G12: what a session has spawned ends with it, in order and for good; and how much there may be.

Each docstring shows what its test says when the guard that it names is taken out.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from acpbridge.config.snapshot import Limits
from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester
from acpbridge.model.sessions import CancelRung, CloseReason, Outcome, SessionState
from acpbridge.router import family as families
from acpbridge.router.receipts import RestartRequest
from acpbridge.runtimes.base import New
from tests.unit.router.test_router import family
from tests.unit.router.world import OPERATOR, World, agent_in, refused, until, world


async def ended(w: World, key: SessionKey) -> tuple[SessionState, CloseReason | None]:
    """Wait until a session is at rest; return its state, as the ledger has it, and its reason."""
    return await w.rest(key), w.session(key).record.close_reason


PARENT = (SessionState.CLOSED, CloseReason.PARENT)


def order_of_stops(w: World, keys: list[SessionKey]) -> list[SessionKey]:
    """Have the agents of sessions say when each is gone; return where that is written."""
    gone: list[SessionKey] = []
    for key in keys:
        agent = w.agent(key)
        stop = agent.stop

        async def watched(
            grace: float | None = None, *, key: SessionKey = key, stop: Any = stop
        ) -> tuple[int, ...]:
            if key not in gone:
                gone.append(key)
            return tuple(await stop(grace))

        agent.stop = watched  # type: ignore[method-assign]
    return gone


# ---- Where a child may work ----


async def test_g19_a_child_is_bound_by_where_a_person_has_its_family_work(tmp_path: Path) -> None:
    """With the child's own record for the top's: `(tmp_path / "elsewhere",) == (w.cwd,)`."""
    (tmp_path / "elsewhere").mkdir()
    async with world(tmp_path) as w:
        top, child, grandchild = await family(w)
        assert w.router.persons_roots(top) is None
        assert w.router.persons_roots(child) == (w.cwd,)
        assert w.router.persons_roots(grandchild) == (w.cwd,)
        stranger = SessionKey.parse(str(top).replace("agent:fake", "agent:other"))
        assert w.router.persons_roots(stranger) == ()
        mine = agent_in(child)
        away = (await w.run("say x", by=mine, cwd=str(tmp_path / "elsewhere"))).key
        assert w.router.persons_roots(away) == (w.cwd,)


# ---- The order of an end ----


async def test_g12_the_deepest_is_ended_first_and_every_turn_is_cancelled_before_any(
    tmp_path: Path,
) -> None:
    """Without `await first()` in `Life.end`: `[top, child, grandchild] == [grandchild, ...]`."""
    async with world(tmp_path) as w:
        keys = await family(w)
        gone = order_of_stops(w, keys)
        receipts = await w.router.kill([str(keys[0])], 1.0, OPERATOR)
        assert gone == keys[::-1]
        assert [receipt.key for receipt in receipts] == keys
        cancels = [i for i, line in enumerate(w.diary.lines) if line == "cancel"]
        stops = [i for i, line in enumerate(w.diary.lines) if line.startswith("stop")]
        assert len(cancels) == 3
        assert max(cancels) < min(stops)


async def test_a_child_that_does_not_go_holds_up_its_parent_for_a_moment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without the bound in `Family.below` the parent outlives its child's whole grace."""
    monkeypatch.setattr(families, "LEVEL_WAIT", 0.05)
    async with world(tmp_path) as w:
        (top,) = await family(w, 0)
        child = await w.run("stone", by=agent_in(top))
        await w.diary.has("prompt stone")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(w.router.kill, [str(top)], 10.0, OPERATOR)
            await until(lambda: str(top) not in w.runtime.running)
            assert str(child.key) in w.runtime.running
            await w.router.kill([str(child.key)], 0, OPERATOR)


@pytest.mark.parametrize("how", ["kill", "close", "restart"])
async def test_g12_children_without_a_process_are_closed_with_their_parent(
    tmp_path: Path, how: str
) -> None:
    """Without the family of `end_below`: `(idle, None) == (closed, parent)` for restart."""
    async with world(tmp_path) as w:
        (top,) = await family(w, 0)
        by = agent_in(top)
        idle = (await w.done("say a", by=by))[0].key
        died = (await w.done("crash", by=by))[0].key
        w.runtime.script.opens[New] = "start_failed"
        failed = (await w.done("say b", by=by))[0].key
        w.runtime.script.opens.clear()
        busy = await w.run("ask 1", by=by)
        await w.questions(1)
        queued = await w.run("say c", by=by, key=busy.key)
        states = [await w.rest(key) for key in (idle, died, failed)]
        assert states == [SessionState.IDLE, SessionState.DIED, SessionState.FAILED]
        if how == "kill":
            await w.router.kill([str(top)], 0, OPERATOR)
        elif how == "close":
            await w.router.close(str(top), OPERATOR)
        else:
            receipt = await w.router.restart(RestartRequest(str(top), force=True), OPERATOR)
            assert receipt.opens == 2
        for key in (idle, died, failed, busy.key):
            assert await ended(w, key) == PARENT
            assert (await w.events(key))[-1]["type"] == "session_closed"
            await refused("session_closed", w.run("say d", key=key))
        assert (await w.wait(busy)).outcome is Outcome.CANCELLED
        assert (await w.wait(queued)).outcome is Outcome.CANCELLED
        assert not w.broker.questions()
        assert set(w.runtime.running) == ({str(top)} if how == "restart" else set())


async def test_g12_a_restart_ends_the_children_first_and_refuses_others_meanwhile(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        keys = await family(w)
        gone = order_of_stops(w, keys)
        codes: list[str] = []
        stop = w.agent(keys[1]).stop

        async def spawning(grace: float | None = None) -> tuple[int, ...]:
            with pytest.raises(BridgeError) as caught:
                await w.run("say late", by=agent_in(keys[0]))
            codes.append(caught.value.code)
            return await stop(grace)

        w.agent(keys[1]).stop = spawning  # type: ignore[method-assign]
        await w.router.restart(RestartRequest(str(keys[0]), force=True), OPERATOR)
        assert gone == keys[::-1]
        assert codes
        assert set(codes) == {"session_closed"}
        assert list(w.runtime.running) == [str(keys[0])]
        # The new process may have children of its own.
        await w.done("say again", by=agent_in(keys[0]))


async def test_a_restart_fails_where_a_child_survives_and_starts_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        (top,) = await family(w, 0)
        w.runtime.script.survives = True
        child = await w.run("wait", by=agent_in(top))
        await w.diary.has("prompt wait", 2)
        pid = w.agent(child.key).pid
        restart = w.router.restart(RestartRequest(str(top), force=True), OPERATOR)
        error = await refused("survivors", restart)
        assert pid in error.data["survivors"]
        assert w.diary.lines.count("start") == 2


# ---- Several ends at once ----


async def test_g12_subtrees_that_overlap_end_once_with_true_receipts(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        keys = await family(w)
        receipts = await w.router.kill([str(key) for key in (keys[1], keys[0])], 0, OPERATOR)
        assert {receipt.key for receipt in receipts} == set(keys)
        assert len(receipts) == 3
        assert all(len(r.killed) == 2 and not r.survivors for r in receipts)
        reasons = [w.session(key).record.close_reason for key in keys]
        assert reasons == [CloseReason.KILLED, CloseReason.KILLED, CloseReason.PARENT]


@pytest.mark.parametrize("second", ["kill", "close", "kill child", "cancel", "restart"])
async def test_g12_two_ends_at_once_neither_hang_nor_lie(tmp_path: Path, second: str) -> None:
    async with world(tmp_path) as w:
        keys = await family(w)
        results: list[Any] = []

        async def also() -> None:
            try:
                if second == "close":
                    await w.router.close(str(keys[0]), OPERATOR)
                elif second == "cancel":
                    receipt = await w.router.cancel(str(keys[0]), 0.05, OPERATOR)
                    assert receipt.turn_ended
                elif second == "restart":
                    request = RestartRequest(str(keys[0]), force=True)
                    await refused("session_closed", w.router.restart(request, OPERATOR))
                else:
                    key = keys[1] if second == "kill child" else keys[0]
                    results.extend(await w.router.kill([str(key)], 0, OPERATOR))
            except BridgeError as error:
                assert error.code == "session_closed"  # noqa: PT017

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(also)
            results += await w.router.kill([str(keys[0])], 0.05, OPERATOR)
            # What a receipt says is true when it is given.
            assert not w.runtime.running
        assert not any(receipt.survivors for receipt in results)
        for key in keys:
            assert await w.rest(key) is SessionState.CLOSED


@pytest.mark.parametrize("starts", ["hang", "hold"])
async def test_g12_a_kill_of_a_parent_catches_a_child_that_is_starting(
    tmp_path: Path, starts: str
) -> None:
    async with world(tmp_path) as w:
        (top,) = await family(w, 0)
        w.runtime.script.starts = starts
        child = await w.run("say a", by=agent_in(top))
        await w.diary.has("start", 2)
        await w.router.kill([str(top)], 0, OPERATOR)
        assert not w.runtime.running
        assert await ended(w, child.key) == PARENT
        assert (await w.wait(child)).outcome is Outcome.CANCELLED


# ---- A parent that ends by itself ----


async def test_g12_a_parent_whose_process_dies_leaves_no_child_running(tmp_path: Path) -> None:
    """Without `bereave` in `Session._after`: the child runs on, and this hangs in `ended`."""
    async with world(tmp_path) as w:
        top, child, grandchild = await family(w)
        idle = (await w.done("say a", by=agent_in(top)))[0].key
        w.agent(top).die()
        assert await w.rest(top) is SessionState.DIED
        for key in (child, grandchild, idle):
            await until(lambda key=key: w.session(key).closed)  # type: ignore[misc]
            assert await ended(w, key) == PARENT
        assert not w.runtime.running
        await refused("session_closed", w.run("say b", by=agent_in(top)))
        # It is reopened like any other, and may have children again.
        await w.run("wait", key=top, one_shot=False)
        await until(lambda: str(top) in w.runtime.running)
        await w.done("say c", by=agent_in(top))
        assert "bereaved" in w.audit.read_text(encoding="utf-8")


async def test_what_a_dying_tree_still_starts_is_refused_or_ended_with_it(tmp_path: Path) -> None:
    """Without the look at `died` in `may_spawn` the run is accepted: DID NOT RAISE."""
    async with world(tmp_path) as w:
        (top,) = await family(w, 0)
        agent = w.agent(top)
        stop = agent.stop

        async def lingering(grace: float | None = None) -> tuple[int, ...]:
            await refused("session_closed", w.run("say late", by=agent_in(top)))
            return await stop(grace)

        agent.stop = lingering  # type: ignore[method-assign]
        agent.die()
        assert await w.rest(top) is SessionState.DIED
        assert len(w.made()) == 1


@pytest.mark.parametrize("how", ["finishes", "times out", "is idle too long"])
async def test_a_parent_that_ends_in_good_order_does_not_end_its_children(
    tmp_path: Path, how: str
) -> None:
    async with world(tmp_path, idle_ttl=0.01 if how.startswith("is") else 900.0) as w:
        timeout = 0.05 if how == "times out" else None
        top = await w.run("wait", one_shot=how != "is idle too long", timeout=timeout)
        await w.diary.has("prompt wait")
        child = (await w.run("stone", by=agent_in(top.key))).key
        await w.diary.has("prompt stone")
        if how != "times out":
            w.agent(top.key).answer("end_turn")
        await w.wait(top)
        assert await w.rest(top.key) is SessionState.IDLE
        assert list(w.runtime.running) == [str(child)]
        assert not w.turn(child).cancelling


async def test_what_an_earlier_daemon_left_open_below_a_closed_session_is_closed(
    tmp_path: Path,
) -> None:
    """Without `orphaned` at the start: the state stays `idle`, and this hangs."""
    async with world(tmp_path) as w:
        top = (await w.run("wait", one_shot=False)).key
        await w.diary.has("prompt wait")
        child = (await w.done("say a", by=agent_in(top)))[0].key
        await w.rest(child)
        await w.router.stop()
        record = replace(w.session(top).record, state=SessionState.CLOSED)
        await w.ledger.put_session(replace(record, close_reason=CloseReason.KILLED))
    async with world(tmp_path) as w:
        await until(lambda: w.session(child).closed)
        assert await ended(w, child) == PARENT
        assert w.session(top).record.close_reason is CloseReason.KILLED


# ---- Limits ----


async def test_case_136_twenty_main_sessions_with_a_child_each_are_all_of_depth_zero(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, limits=Limits(max_depth=1)) as w:
        for _ in range(20):
            top = (await w.run("wait", one_shot=False)).key
            await until(lambda top=top: str(top) in w.runtime.running)  # type: ignore[misc]
            child = (await w.done("say a", by=agent_in(top)))[0].key
            assert w.session(top).record.lineage.depth == 0
            assert w.session(child).record.lineage.depth == 1
            await w.router.kill([str(top)], 0, OPERATOR)
        # One that a person takes up again is no deeper than it was, and no less deep.
        top = (await w.run("wait", one_shot=False)).key
        await until(lambda: str(top) in w.runtime.running)
        child = (await w.done("say a", by=agent_in(top), one_shot=False))[0].key
        await w.run("wait", key=child)
        await w.diary.has("prompt wait", 22)
        assert w.session(child).record.lineage.depth == 1
        await refused("subagent_policy", w.run("say b", by=agent_in(child)))


@pytest.mark.parametrize("by", ["agent", "operator"])
async def test_g12_children_that_ended_do_not_count_until_they_are_taken_up_again(
    tmp_path: Path, by: str
) -> None:
    """Without `_check_number` in `Accepting._known`: DID NOT RAISE, a third child is at work."""
    async with world(tmp_path, limits=Limits(max_children_per_session=2)) as w:
        (top,) = await family(w, 0)
        me: Requester = agent_in(top)
        old = []
        for _ in range(4):
            old.append((await w.done("say a", by=me))[0].key)
            await w.rest(old[-1])
        await w.run("wait", by=me)
        again = await w.run("wait", by=me, key=old[0])
        who = me if by == "agent" else OPERATOR
        await refused("subagent_policy", w.run("say b", by=who, key=old[1]))
        await w.run("say c", by=who, key=old[0])  # one that is at work takes more
        await w.router.kill([str(again.key)], 0, OPERATOR)
        assert (await w.done("say d", by=who, key=old[1]))[1].outcome is Outcome.COMPLETED


async def test_g12_no_more_processes_live_than_are_allowed_whoever_asks(tmp_path: Path) -> None:
    async with world(tmp_path, limits=Limits(max_processes=3)) as w:
        (top,) = await family(w, 0)
        children = [await w.run("wait", by=agent_in(top)) for _ in range(4)]
        others = [await w.run("say a") for _ in range(3)]
        await w.diary.has("prompt wait", 3)
        assert (w.runtime.most, len(w.runtime.running)) == (3, 3)
        await w.router.kill([str(child.key) for child in children], 0, OPERATOR)
        for receipt in others:
            assert (await w.wait(receipt)).outcome is Outcome.COMPLETED
        assert w.runtime.most == 3


# ---- Cancelling a turn that has others work for it ----


async def test_a_cancel_ends_what_the_turns_agent_has_asked_of_others_and_keeps_them(
    tmp_path: Path,
) -> None:
    """Without `_cancel_below` in `Ending.cancel`: `receipt.children == ()`, and this hangs."""
    async with world(tmp_path) as w:
        top = (await w.run("wait", one_shot=False)).key
        await w.diary.has("prompt wait")
        earlier = await w.run("stone", by=agent_in(top), one_shot=False)
        await w.diary.has("prompt stone")
        w.agent(top).answer("end_turn")
        await w.is_ready(top)
        second = await w.run("wait", key=top)
        await w.diary.has("prompt wait", 2)
        child = await w.run("wait", by=agent_in(top), one_shot=False)
        await w.diary.has("prompt wait", 3)
        queued = await w.run("say q", by=agent_in(top), key=earlier.key)
        deeper = await w.run("wait", by=agent_in(child.key), one_shot=False)
        await w.diary.has("prompt wait", 4)
        receipt = await w.router.cancel(str(top), 5, OPERATOR)
        assert (receipt.rung, receipt.turn_ended) == (CancelRung.CANCEL, True)
        assert {one.key for one in receipt.children} == {child.key, deeper.key}
        assert [set(one) for one in receipt.to_json()["children"]] == [
            {"key", "rung", "turnEnded", "left"}
        ] * 2
        for run in (second, child, queued, deeper):
            assert (await w.wait(run)).outcome is Outcome.CANCELLED
        # What an earlier turn has asked for goes on, and nobody is closed.
        assert not w.turn(earlier.key).cancelling
        assert not any(session.closed for session in w.made())
        assert (await w.done("say on", key=child.key))[1].outcome is Outcome.COMPLETED


async def test_a_turn_that_is_being_cancelled_starts_nothing_more(tmp_path: Path) -> None:
    """Without the look at the turn in `may_spawn`: DID NOT RAISE."""
    async with world(tmp_path) as w:
        top = await w.run("stone")
        await w.diary.has("prompt stone")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(w.router.cancel, str(top.key), 0.1, OPERATOR)
            await w.diary.has("cancel")
            await refused("session_closed", w.run("say late", by=agent_in(top.key)))
        assert len(w.made()) == 1


async def test_a_run_that_was_being_stored_when_its_caller_was_cancelled_does_not_start(
    tmp_path: Path,
) -> None:
    """Without `_check_still_wanted`: `prompt say late` is in the diary."""
    async with world(tmp_path) as w:
        (top,) = await family(w, 0)
        codes: list[str] = []

        async def spawn() -> None:
            with pytest.raises(BridgeError) as caught:
                await w.run("say late", by=agent_in(top))
            codes.append(caught.value.code)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(spawn)
            await until(lambda: len(w.made()) > 1)
            await w.router.cancel(str(top), 5, OPERATOR)
        assert codes == ["request_cancelled"]
        assert "prompt say late" not in w.diary.lines
        for session in w.made():
            for run in await w.ledger.runs(session.key):
                assert run.outcome is Outcome.CANCELLED


async def test_a_vanished_client_takes_along_what_its_turn_has_asked_of_others(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        (top,) = await family(w, 0)
        child = await w.run("wait", by=agent_in(top), detached=True)
        await w.diary.has("prompt wait", 2)
        await w.router.vanished("terminal")
        assert (await w.wait(child)).outcome is Outcome.CANCELLED
