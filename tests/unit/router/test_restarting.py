"""A restart: the old process is gone, the new one has answered, and only then is it told."""

import json
from pathlib import Path
from typing import Any

import anyio

from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.model.sessions import Outcome, SessionState
from acpbridge.router.receipts import RestartReceipt, RestartRequest
from acpbridge.runtimes.base import New, Resume
from tests.unit.router.world import OPERATOR, World, agent_in, refused, until, world


async def restart(w: World, key: SessionKey, **how: Any) -> RestartReceipt:
    return await w.router.restart(RestartRequest(str(key), **how), OPERATOR)


async def test_an_idle_one_shot_session_gets_a_process_that_stays(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        run, _ = await w.done("say a")
        await w.rest(run.key)
        receipt = await restart(w, run.key)
        assert (receipt.was, receipt.opens, receipt.context_lost) == ((), 2, False)
        assert receipt.pid == w.agent(run.key).pid
        assert w.session(run.key).record.state is SessionState.READY
        stored = await w.ledger.session(run.key)
        assert stored is not None
        assert (stored.state, stored.opens) == (SessionState.READY, 2)
        await w.is_ready(run.key)
        _, result = await w.done("say b", key=run.key)
        assert result.outcome is Outcome.COMPLETED
        assert await w.rest(run.key) is SessionState.IDLE  # its own mode holds again
        assert w.diary.lines.count("start") == 2


async def test_a_ready_process_is_ended_before_the_new_one_is_started(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        run, _ = await w.done("say a", one_shot=False)
        await w.is_ready(run.key)
        old = w.agent(run.key)
        receipt = await restart(w, run.key)
        # `Runtime` asserts that there are never two processes of one session.
        assert receipt.was == (old.pid + 1000, old.pid)
        assert receipt.pid == w.agent(run.key).pid != old.pid
        lines = w.diary.lines
        assert lines.index("gone") < len(lines) - lines[::-1].index("start") - 1
        assert f"open {Resume.__name__} s{old.pid}" in lines


async def test_g11_it_clears_what_was_refused_after_failures(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        w.runtime.script.starts = "fail"
        run = await w.run("say 0")
        for n in range(4):
            await w.wait(run)
            if n < 2:
                run = await w.run("say more", key=run.key)
        await w.rest(run.key)
        error = await refused("reopen_refused", w.run("say more", key=run.key))
        assert "acpbridge restart" in error.hint
        error = await refused("start_failed", restart(w, run.key))
        assert error.kind.exit == 6
        assert w.session(run.key).record.state is SessionState.FAILED
        w.runtime.script.starts = "ok"
        assert (await restart(w, run.key)).opens == 1
        _, result = await w.done("say again", key=run.key)
        assert result.outcome is Outcome.COMPLETED


async def test_it_is_not_told_before_the_new_agent_has_answered(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        run, _ = await w.done("say a")
        await w.rest(run.key)
        w.runtime.script.starts = "hold"
        told: list[str] = []

        async def ask() -> None:
            try:
                await restart(w, run.key)
            except BridgeError as error:
                told.append(error.code)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await w.diary.has("start", 2)
            await anyio.wait_all_tasks_blocked()
            assert told == []
            assert w.session(run.key).record.state is SessionState.STARTING
            await refused("busy", restart(w, run.key))  # one at a time
            w.runtime.released.set()
        assert told == ["start_failed"]


async def test_a_running_turn_is_not_ended_unless_it_is_forced(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        run = await w.run("wait", one_shot=False)
        await w.diary.has("prompt wait")
        behind = await w.run("say b", key=run.key)
        old = w.agent(run.key).pid
        error = await refused("busy", restart(w, run.key))
        assert "--force" in error.hint
        assert "acpbridge cancel" in error.hint
        assert w.turn(run.key).outcome is None
        assert w.agent(run.key).pid == old
        receipt = await restart(w, run.key, force=True)
        assert receipt.pid != old
        assert (await w.wait(run)).outcome is Outcome.CANCELLED
        assert (await w.wait(behind)).outcome is Outcome.CANCELLED
        assert w.diary.lines.count("prompt wait") == 1  # no prompt is sent again


async def test_case_114_an_agent_that_is_deaf_to_its_cancel_is_ended_by_force(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        run = await w.run("deaf", one_shot=False)
        await w.diary.has("prompt deaf")
        old = w.agent(run.key)
        receipt = await restart(w, run.key, force=True)
        assert old.dead.is_set()
        assert old.pid in receipt.was
        assert receipt.pid == w.agent(run.key).pid
        assert (await w.wait(run)).outcome is Outcome.CANCELLED


async def test_a_conversation_that_would_be_lost_is_asked_for_before_anything_ends(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        w.runtime.script.caps = ()
        run = await w.run("say a", one_shot=False)
        await w.wait(run)
        error = await refused("resume_not_found", restart(w, run.key))
        assert f"acpbridge restart {run.key} --fresh" in error.hint
        assert len(w.runtime.running) == 1
        receipt = await restart(w, run.key, fresh=True)
        assert receipt.context_lost


async def test_a_context_that_is_lost_is_said_and_only_where_that_was_wanted(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        run, _ = await w.done("say a")
        await w.rest(run.key)
        w.runtime.script.opens[Resume] = "resume_not_found"
        await refused("resume_not_found", restart(w, run.key))
        await w.rest(run.key)
        receipt = await restart(w, run.key, fresh=True)
        assert receipt.context_lost
        assert w.diary.lines[-1] == f"open {New.__name__}"
        kinds = [e.get("kind") for e in await w.events(run.key) if e["type"] == "notice"]
        assert kinds == ["restart", "restart", "context_lost"]


async def test_a_closed_session_stays_closed(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        run, _ = await w.done("say a")
        await w.router.close(str(run.key), OPERATOR)
        await refused("session_closed", restart(w, run.key))
        assert not w.runtime.running


async def test_an_agent_restarts_nothing_not_even_itself(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        run = await w.run("wait", one_shot=False)
        await w.diary.has("prompt wait")
        child = await w.run("say c", by=agent_in(run.key))
        await w.wait(child)
        for key in (run.key, child.key):
            request = RestartRequest(str(key), force=True)
            await refused("permission_denied", w.router.restart(request, agent_in(run.key)))
        assert w.diary.lines.count("start") == 2  # the two that were asked for


async def test_a_session_of_an_earlier_daemon_is_restarted_with_the_callers_environment(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        run, _ = await w.done("say a")
        await w.rest(run.key)
    async with world(tmp_path, env_pass=("COLOUR",)) as w:
        receipt = await restart(w, run.key, env={"COLOUR": "green"})
        assert receipt.opens == 2
        assert w.agent(run.key).spec.env["COLOUR"] == "green"
        assert {"COLOUR": "green"} in w.learned
        seqs = [event["seq"] for event in await w.events(run.key)]
        assert seqs == list(range(1, len(seqs) + 1))  # G16


async def test_what_survives_its_end_is_said_and_nothing_is_started_beside_it(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        w.runtime.script.survives = True
        run, _ = await w.done("say a", one_shot=False)
        await w.is_ready(run.key)
        old = w.agent(run.key).pid
        error = await refused("survivors", restart(w, run.key))
        assert error.data["survivors"] == [old]
        assert w.diary.lines.count("start") == 1


async def test_a_prompt_that_comes_meanwhile_is_run_by_the_new_process(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        run, _ = await w.done("say a", one_shot=False)
        await w.is_ready(run.key)
        old = w.agent(run.key)
        receipts: list[RestartReceipt] = []

        async def ask() -> None:
            receipts.append(await restart(w, run.key))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            await until(lambda: w.session(run.key)._restart is not None)
            _, result = await w.done("say b", key=run.key)
        assert result.outcome is Outcome.COMPLETED
        assert w.agent(run.key).pid == receipts[0].pid != old.pid
        assert w.diary.lines.count("start") == 2


async def test_a_kill_in_the_middle_of_it_wins(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        run, _ = await w.done("say a")
        await w.rest(run.key)
        w.runtime.script.starts = "hang"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refused, "session_closed", restart(w, run.key))
            await w.diary.has("start", 2)
            await w.router.kill([str(run.key)], 0, OPERATOR)
        assert await w.rest(run.key) is SessionState.CLOSED
        assert not w.runtime.running


async def test_a_daemon_that_stops_in_the_middle_of_it_leaves_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        run, _ = await w.done("say a")
        await w.rest(run.key)
        w.runtime.script.starts = "hang"
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(refused, "session_closed", restart(w, run.key))
            await w.diary.has("start", 2)
            await w.router.stop()
        assert await w.rest(run.key) is SessionState.IDLE
        assert not w.runtime.running


async def test_it_goes_on_though_whoever_asked_is_gone_and_the_audit_has_it(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        run, _ = await w.done("say a")
        await w.rest(run.key)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(restart, w, run.key)
            await until(lambda: w.session(run.key)._restart is not None)
            tasks.cancel_scope.cancel()
        await w.is_ready(run.key)

        def noted() -> list[dict[str, Any]]:
            lines = w.audit.read_text(encoding="utf-8").splitlines()
            return [row for line in lines if (row := json.loads(line)).get("kind") == "restart"]

        await until(noted)
        assert str(run.key) in json.dumps(noted())
