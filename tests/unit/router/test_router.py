"""The service: lineage, who sees what, what is on record, and what a restart finds."""

import json
import time
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import pytest

from acpbridge.config.snapshot import Limits
from acpbridge.errors import BridgeError
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.permission import Effect, OnPermission
from acpbridge.model.requesters import Requester, Role
from acpbridge.model.sessions import CloseReason, Outcome, SessionState
from acpbridge.router import ending
from acpbridge.router.directory import Directory
from acpbridge.router.session import Session
from tests.unit.router.world import OPERATOR, World, agent_in, refused, until, world

ROW = {
    "key",
    "agentId",
    "runtime",
    "state",
    "agentSessionId",
    "cwd",
    "parentKey",
    "createdAt",
    "turn",
    "queueDepth",
    "pendingPermissions",
    "questions",
    "questionsBelow",
    "mode",
    "asks",
    "bypass",
    "authSource",
    "opens",
    "settings",
    "formerSessionIds",
    "lastError",
    "closeReason",
}
PROCESS = {"pid", "ppid", "name", "state", "rssBytes", "cpuSeconds", "startedAt", "role"}


async def family(w: World, depth: int = 2) -> list[SessionKey]:
    """A run of the operator's with a line of descendants, each in a turn."""
    keys: list[SessionKey] = []
    for n in range(depth + 1):
        by = agent_in(keys[-1]) if keys else OPERATOR
        keys.append((await w.run("wait", by=by, one_shot=False)).key)
        await w.diary.has("prompt wait", n + 1)
    return keys


# ---- Lineage ----


async def test_a_run_of_an_agent_is_its_child(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top, child, grandchild = await family(w)
        lineage = w.session(grandchild).record.lineage
        assert (lineage.parent, lineage.root, lineage.depth) == (child, top, 2)
        assert w.session(top).record.lineage.depth == 0
        row = next(r for r in (await w.router.status("", OPERATOR))["sessions"] if r["turn"])
        assert row["parentKey"] is None
        assert (await w.router.status(str(child), OPERATOR))["sessions"][0]["parentKey"] == str(top)


async def test_case_137_depth_is_bounded(tmp_path: Path) -> None:
    async with world(tmp_path, limits=Limits(max_depth=2)) as w:
        keys = await family(w)
        await refused("subagent_policy", w.run("say a", by=agent_in(keys[-1])))
        assert len(w.made()) == 3


async def test_case_137_children_are_bounded_even_in_a_burst(tmp_path: Path) -> None:
    async with world(tmp_path, limits=Limits(max_children_per_session=3)) as w:
        (top,) = await family(w, 0)
        codes: list[str] = []

        async def spawn() -> None:
            try:
                await w.run("wait", by=agent_in(top))
                codes.append("")
            except BridgeError as error:
                codes.append(error.code)

        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(spawn)
        assert sorted(codes) == [""] * 3 + ["subagent_policy"] * 5
        children = w.router._directory.children(top)
        assert len({child.key for child in children}) == 3
        await w.router.kill([str(children[0].key)], 0, OPERATOR)
        await w.run("wait", by=agent_in(top))  # ended ones do not count


async def test_an_agent_of_no_known_session_runs_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await refused("permission_denied", w.run("say a", by=Requester(Role.AGENT)))
        gone = SessionKey.main(AgentId("elsewhere"))
        await refused("permission_denied", w.run("say a", by=agent_in(gone)))
        assert not w.made()


async def test_g12_kill_ends_the_descendants_and_closes_all_before_the_first_stop(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        keys = await family(w)
        closing: list[list[bool]] = []
        for key in keys:
            agent = w.agent(key)
            stop = agent.stop

            async def watched(grace: float | None = None, *, stop: Any = stop) -> tuple[int, ...]:
                closing.append([w.session(key).closing for key in keys])
                return tuple(await stop(grace))

            agent.stop = watched  # type: ignore[method-assign]
        receipts = await w.router.kill([str(keys[0])], 0, OPERATOR)
        assert closing
        assert all(all(state) for state in closing)
        assert [receipt.key for receipt in receipts] == keys
        assert [len(receipt.killed) for receipt in receipts] == [2, 2, 2]
        reasons = [w.session(key).record.close_reason for key in keys]
        assert reasons == [CloseReason.KILLED, CloseReason.PARENT, CloseReason.PARENT]
        assert not w.runtime.running
        await refused("session_closed", w.run("say a", by=agent_in(keys[1])))


async def test_g12_a_spawn_that_is_under_way_does_not_survive_its_parent(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        (top,) = await family(w, 0)
        codes: list[str] = []

        async def spawn() -> None:
            try:
                codes.append(str((await w.run("wait", by=agent_in(top))).key))
            except BridgeError as error:
                codes.append(error.code)

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(spawn)
            await until(lambda: len(w.made()) > 1)
            await w.router.kill([str(top)], 0, OPERATOR)
        for session in w.made():
            assert await w.rest(session.key) is SessionState.CLOSED
            for run in await w.ledger.runs(session.key):
                assert run.outcome is Outcome.CANCELLED
        assert not w.runtime.running


async def test_close_ends_the_children_too(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        keys = await family(w)
        assert await w.router.close(str(keys[1]), OPERATOR) == keys[1]
        states = [w.session(key).record.state for key in keys]
        assert states == [SessionState.RUNNING, SessionState.CLOSED, SessionState.CLOSED]
        assert w.session(keys[1]).record.close_reason is CloseReason.CLOSED
        assert w.session(keys[2]).record.close_reason is CloseReason.PARENT


async def test_a_closed_session_keeps_the_reason_it_was_closed_for(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say a")
        await w.router.close(str(receipt.key), OPERATOR)
        (kill,) = await w.router.kill([str(receipt.key)], 0, OPERATOR)
        assert kill.killed == ()
        assert w.session(receipt.key).record.close_reason is CloseReason.CLOSED


async def test_a_turn_that_ends_with_its_session_says_with_what(tmp_path: Path) -> None:
    """Without `Host._why_cancelled` a kill, a close and a stop all read like a cancelled turn."""
    told = {}
    async with world(tmp_path) as w:
        for word in ("cancel", "close", "kill", "stop"):
            receipt = await w.run("hang")
            await until(partial(w.runtime.running.get, str(receipt.key)))
            if word == "cancel":
                await w.router.cancel(str(receipt.key), 1, OPERATOR)
            elif word == "close":
                await w.router.close(str(receipt.key), OPERATOR)
            elif word == "kill":
                await w.router.kill([str(receipt.key)], 0, OPERATOR)
            else:
                await w.router.stop()
            (ended,) = (e for e in await w.events(receipt.key) if e["type"] == "turn_ended")
            assert ended["stopReason"] == "cancelled"
            told[word] = ended.get("because")
    assert told == {
        "cancel": None,
        "close": "closed",
        "kill": "killed",
        "stop": "daemon_stopping",
    }


# ---- Receipts ----


async def test_a_receipt_lists_the_whole_tree_and_what_is_left_of_it(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say a", one_shot=False)
        pid = w.agent(receipt.key).pid
        (kill,) = await w.router.kill([str(receipt.key)], 0, OPERATOR)
        assert (kill.killed, kill.survivors) == ((pid + 1000, pid), ())
        assert set(kill.to_json()) == {"key", "killed", "survivors", "tookMs"}

        w.runtime.script.survives = True
        receipt, _ = await w.done("say a", one_shot=False)
        agent = w.agent(receipt.key)
        (kill,) = await w.router.kill([str(receipt.key)], 0, OPERATOR)
        assert agent.pid in kill.survivors
        assert agent.pid not in kill.killed
        error = await refused("survivors", w.router.close(str(receipt.key), OPERATOR))
        assert str(agent.pid) in error.message


async def test_one_session_that_cannot_be_ended_keeps_no_other_alive(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        keys = await family(w)

        async def broken(grace: float | None = None) -> tuple[int, ...]:
            raise ZeroDivisionError

        w.agent(keys[1]).stop = broken  # type: ignore[method-assign]
        await w.router.kill([str(keys[0])], 0, OPERATOR)
        assert str(keys[0]) not in w.runtime.running
        assert str(keys[2]) not in w.runtime.running
        del w.agent(keys[1]).stop


async def test_a_kill_goes_on_when_its_client_goes_away(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("stone")
        await w.diary.has("prompt stone")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(w.router.kill, [str(receipt.key)], 0.1, OPERATOR)
            await w.diary.has("stop 0.1")
            tasks.cancel_scope.cancel()
        assert (await w.wait(receipt)).outcome is Outcome.CANCELLED
        assert await w.rest(receipt.key) is SessionState.CLOSED


async def test_a_ladder_goes_on_when_its_client_goes_away(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("stone")
        await w.diary.has("prompt stone")
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(w.router.cancel, str(receipt.key), 0.05, OPERATOR)
            await w.diary.has("cancel")
            tasks.cancel_scope.cancel()
        assert (await w.wait(receipt)).outcome is Outcome.CANCELLED


async def test_a_full_audit_keeps_nobody_from_killing(tmp_path: Path) -> None:
    full: list[bool] = []

    def faults(point: str) -> None:
        if full and point in ("audit.write", "ledger.before_commit"):
            raise OSError(28, "No space left on device")

    async with world(tmp_path, faults=faults) as w:
        receipt, _ = await w.done("say a", one_shot=False)
        full.append(True)
        (kill,) = await w.router.kill([str(receipt.key)], 0, OPERATOR)
        assert len(kill.killed) == 2
        full.clear()


async def test_the_audit_has_who_ended_what(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say a", one_shot=False)
        await w.router.cancel(str(receipt.key), 1, OPERATOR)
        await w.router.kill([str(receipt.key)], 0, OPERATOR)
        lines = [json.loads(line) for line in w.audit.read_bytes().splitlines()]
        assert [(line["kind"], line["session"], line["by"]) for line in lines] == [
            ("cancel", str(receipt.key), "operator:terminal"),
            ("kill", str(receipt.key), "operator:terminal"),
        ]


# ---- Who may ----


async def test_agents_may_not_allow_by_rule(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        (top,) = await family(w, 0)
        run = w.run("say a", by=agent_in(top), on_permission=OnPermission.ALLOW)
        await refused("permission_denied", run)
        rows = await w.rows()
        assert [row["key"] for row in rows] == [str(top)], "nothing was begun"


async def test_case_139_an_agent_sees_its_lineage_and_touches_what_is_below(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        top, child, grandchild = await family(w)
        other = (await w.run("wait")).key
        me = agent_in(child)
        rows = await w.router.sessions(me, everything=True)
        assert [row["key"] for row in rows] == [str(child), str(grandchild)]
        assert await w.router.matching("", me) == [str(child), str(grandchild)]
        texts = set()
        for key in (str(top), str(other), "agent:fake:main"):
            for call in (
                w.router.cancel(key, 1, me),
                w.router.kill([key], 0, me),
                w.router.close(key, me),
                w.router.status(key, me),
                w.router.follow(key, 0, me),
                w.run("say a", by=me, key=SessionKey.parse(key)),
            ):
                error = await refused("no_such_session", call)
                texts.add(error.message.replace(key, "KEY"))
        assert len(texts) == 1  # not yours reads like not there
        await refused("permission_denied", w.router.cancel(str(child), 1, me))
        await refused("permission_denied", w.run("say a", by=me, key=child))
        run = await w.ledger.runs(other)
        error = await refused("no_such_session", w.router.wait(run[0].run_id, me))
        unknown = await refused("no_such_session", w.router.wait("nope", me))
        assert error.message.replace(run[0].run_id, "nope") == unknown.message
        queued = await w.run("say b", by=me, key=grandchild)
        await w.router.cancel(str(grandchild), 1, me)
        assert (await w.wait(queued, me)).outcome is Outcome.CANCELLED


async def test_row_24_an_agent_lists_questions_and_answers_none(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = (await w.run("wait", one_shot=False)).key
        await w.diary.has("prompt wait")
        child = await w.run("ask 1", by=agent_in(top))
        (question,) = await w.questions(1)
        id = question.request.id
        assert [q["id"] for q in await w.router.questions(agent_in(top))] == [id]
        assert await w.router.questions(agent_in(SessionKey.main(AgentId("x")))) == []
        how: dict[str, Any] = {"option_id": None, "effect": Effect.ALLOW, "note": ""}
        await refused("permission_denied", w.router.answer(id, agent_in(top), **how))
        await refused("permission_denied", w.router.answer(id, agent_in(child.key), **how))
        assert "permission_refused" in w.audit.read_text(encoding="utf-8")
        shown = (await w.router.status(str(child.key), OPERATOR))["sessions"][0]
        assert (shown["pendingPermissions"], shown["turn"]["waitsFor"]) == (1, "permission")
        decided = await w.router.answer(id, OPERATOR, **how)
        assert (decided["id"], decided["optionId"]) == (id, "yes")
        assert (await w.wait(child)).outcome is Outcome.COMPLETED


# ---- Which session ----


async def test_a_key_may_be_any_unique_part_of_one(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        one, _ = await w.done("say a", one_shot=False)
        two, _ = await w.done("say b", one_shot=False)
        part = str(one.key)[-12:]
        await w.router.close(part, OPERATOR)
        assert w.session(one.key).closed
        assert not w.session(two.key).closed
        await w.done("say c", one_shot=False)
        error = await refused("ambiguous_key", w.router.kill(["fake"], 0, OPERATOR))
        assert str(two.key) in error.message
        await refused("no_such_session", w.router.kill(["zzz"], 0, OPERATOR))


async def test_a_wrong_key_keeps_no_other_session_alive(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        one, _ = await w.done("say a", one_shot=False)
        two, _ = await w.done("say b", one_shot=False)
        keys = ["zzz", str(one.key), str(one.key)[-12:], "fake"]
        error = await refused("no_such_session", w.router.kill(keys, 0, OPERATOR))
        assert w.session(one.key).closed
        assert not w.session(two.key).closed
        assert [result["key"] for result in error.data["results"]] == [str(one.key)]
        codes = {key: why["code"] for key, why in error.data["unknown"].items()}
        assert codes == {"zzz": "no_such_session", "fake": "ambiguous_key"}


async def test_continue_goes_on_with_the_last_session_here(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        await refused("no_such_session", w.run("say a", continue_last=True))
        await w.done("say a")
        last, _ = await w.done("say b")
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        await w.done("say c", cwd=str(elsewhere))
        again, _ = await w.done("say d", continue_last=True)
        assert again.key == last.key
        await w.router.close(str(last.key), OPERATOR)
        again, _ = await w.done("say e", continue_last=True)
        assert again.key != last.key


@pytest.mark.parametrize(
    ("how", "code"),
    [
        ({"cwd": "relative"}, "usage"),
        ({"cwd": "/nowhere/at/all"}, "usage"),
        ({"agent": "nobody"}, "no_such_agent"),
    ],
)
async def test_what_cannot_be_run_leaves_nothing(
    tmp_path: Path, how: dict[str, Any], code: str
) -> None:
    async with world(tmp_path) as w:
        await refused(code, w.run("say a", **how))
        assert not [r for r in await w.ledger.sessions() if r.key.kind != "main"]
        assert not w.made()


async def test_the_same_idempotency_key_is_the_same_run(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipts: list[Any] = []

        async def run() -> None:
            receipts.append(await w.run("say a", idempotency_key="k"))

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(run)
        assert len({receipt.run_id for receipt in receipts}) == 1
        assert (await w.wait(receipts[0])).outcome is Outcome.COMPLETED
        assert (await w.run("say b", idempotency_key="k")).run_id == receipts[0].run_id
        assert len(w.made()) == 1
        await w.rest(receipts[0].key)
        other = await w.run("wait", idempotency_key="other", one_shot=False)
        mine = await w.run("say c", by=agent_in(other.key), idempotency_key="k")
        assert mine.run_id != receipts[0].run_id


# ---- Clients ----


async def test_a_vanished_client_cancels_its_own_runs_only(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        gone = Requester(Role.OPERATOR, client_id="gone")
        running = await w.run("wait", by=gone, one_shot=False)
        await w.diary.has("prompt wait")
        queued = await w.run("say mine", by=gone, key=running.key)
        others = await w.run("say others", key=running.key)
        detached = await w.run("wait", by=gone, detached=True)
        await w.router.vanished("gone")
        assert (await w.wait(running)).outcome is Outcome.CANCELLED
        assert (await w.wait(queued)).outcome is Outcome.CANCELLED
        assert (await w.wait(others)).outcome is Outcome.COMPLETED
        await w.diary.has("prompt wait", 2)
        assert not w.turn(detached.key).cancelling


async def test_a_vanished_clients_deaf_turns_are_ended_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ending, "VANISHED_GRACE", 0.05)
    async with world(tmp_path) as w:
        receipts = [await w.run("stone") for _ in range(3)]
        await w.diary.has("prompt stone", 3)
        await w.router.vanished("terminal")
        for receipt in receipts:
            assert (await w.wait(receipt)).outcome is Outcome.CANCELLED


async def test_a_run_whose_caller_is_cancelled_is_whole_or_not_there(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await w.run("say a")
        for session in w.made():
            assert len(await w.ledger.runs(session.key)) == 1
            await w.rest(session.key)


async def test_a_callers_environment_reaches_redaction_and_the_agent_but_no_record(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, env_pass=("TOKEN",)) as w:
        env = {"TOKEN": "hush-hush", "PATH": "/bin"}
        receipt, _ = await w.done("say a", env=env, one_shot=False)
        assert [values for values in w.learned if values] == [env]
        assert w.agent(receipt.key).spec.env["TOKEN"] == "hush-hush"
        await w.router.close(str(receipt.key), OPERATOR)
        for path in tmp_path.rglob("*"):
            assert not path.is_file() or b"hush-hush" not in path.read_bytes()


# ---- Status ----


async def test_rows_have_the_documented_fields_and_no_others(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("ask 1")
        await w.questions(1)
        status = await w.router.status("", OPERATOR)
        assert set(status) == {
            "daemon",
            "sessions",
            "unowned",
            "pendingPermissions",
            "policy",
            "warnings",
            "observedAt",
        }
        assert set(status["daemon"]) == {
            "pid",
            "keeperPid",
            "guardPid",
            "epoch",
            "startedAt",
            "version",
            "home",
            "socket",
            "containment",
        }
        (row,) = status["sessions"]
        assert set(row) == ROW | {"processes", "containment"}
        assert [set(process) for process in row["processes"]] == [PROCESS, PROCESS]
        assert [process["role"] for process in row["processes"]] == ["shim", "agent"]
        assert set(row["turn"]) == {"id", "state", "waitsFor", "startedAt", "lastUpdateAt"}
        assert row["turn"]["id"] == receipt.run_id
        assert (status["pendingPermissions"], status["warnings"]) == (1, ["look here"])
        (listed,) = await w.router.sessions(OPERATOR, everything=False)
        assert set(listed) == ROW
        json.dumps(status)


async def test_sessions_without_a_process_are_shown_on_demand(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        crashed, _ = await w.done("crash")
        await w.rest(crashed.key)
        assert (await w.router.status("", OPERATOR))["sessions"] == []
        assert await w.router.sessions(OPERATOR, everything=False) == []
        (row,) = await w.rows()
        assert row["state"] == "died"
        assert set(row["lastError"]) == {"code", "message"}
        (row,) = (await w.router.status(str(crashed.key), OPERATOR))["sessions"]
        assert row["processes"] == []


async def test_two_live_agents_in_one_directory_are_worth_a_warning(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        one = await w.run("wait")
        await w.diary.has("prompt wait")
        two = await w.run("wait")
        assert not one.warnings
        (warning,) = two.warnings
        assert str(one.key) in warning
        await w.diary.has("prompt wait", 2)
        assert warning in (await w.router.status("", OPERATOR))["warnings"]


# ---- Places ----


async def test_the_longest_ready_process_that_can_be_reopened_gives_way(tmp_path: Path) -> None:
    async with world(tmp_path, limits=Limits(max_processes=2)) as w:
        w.runtime.script.caps = ()
        stays, _ = await w.done("say a", one_shot=False)
        await w.is_ready(stays.key)
        w.runtime.script.caps = ("load",)
        w.clock.seconds += 1
        gives, _ = await w.done("say b", one_shot=False)
        await w.is_ready(gives.key)
        third, result = await w.done("say c", one_shot=False)
        assert result.outcome is Outcome.COMPLETED
        assert await w.rest(gives.key) is SessionState.IDLE
        assert set(w.runtime.running) == {str(stays.key), str(third.key)}
        _, result = await w.done("say d", key=gives.key)  # reopened by its next message
        assert result.outcome is Outcome.COMPLETED
        assert w.runtime.most == 2


async def test_without_one_that_can_give_way_a_run_waits_and_is_seen_to(tmp_path: Path) -> None:
    async with world(tmp_path, limits=Limits(max_processes=1)) as w:
        first = await w.run("wait")
        await w.diary.has("prompt wait")
        second = await w.run("say b", timeout=5)
        third = await w.run("say c")
        await until(lambda: w.session(third.key).turn is not None)
        rows = {r["key"]: r for r in (await w.router.status("", OPERATOR))["sessions"]}
        waiting = rows[str(second.key)]
        assert (waiting["state"], waiting["turn"]["state"]) == ("idle", "queued")
        assert (waiting["turn"]["waitsFor"], waiting["processes"]) == ("nobody", [])
        cancel = await w.router.cancel(str(second.key), 5, OPERATOR)
        assert cancel.turn_ended
        w.agent(first.key).answer("end_turn")
        assert (await w.wait(third)).outcome is Outcome.COMPLETED
        assert (await w.wait(second)).outcome is Outcome.CANCELLED
        assert w.runtime.most == 1


async def test_kill_while_waiting_for_a_place(tmp_path: Path) -> None:
    async with world(tmp_path, limits=Limits(max_processes=1)) as w:
        first = await w.run("wait")
        await w.diary.has("prompt wait")
        second = await w.run("say b")
        assert await w.router.matching("", OPERATOR) == [str(first.key), str(second.key)]
        (kill,) = await w.router.kill([str(second.key)], 0, OPERATOR)
        assert (kill.killed, kill.survivors) == ((), ())
        assert (await w.wait(second)).outcome is Outcome.CANCELLED
        w.agent(first.key).answer("end_turn")
        assert (await w.wait(first)).outcome is Outcome.COMPLETED


async def test_case_116_ended_runs_keep_no_place(tmp_path: Path) -> None:
    async with world(tmp_path, limits=Limits(max_processes=1)) as w:
        for text, starts, opens in (
            ("say a", "ok", "ok"),
            ("crash", "ok", "ok"),
            ("say a", "fail", "ok"),
            ("say a", "fault", "ok"),
            ("say a", "ok", "start_failed"),
        ):
            w.runtime.script.starts = starts
            w.runtime.script.opens = dict.fromkeys(w.runtime.script.opens, opens)
            receipt, _ = await w.done(text)
            await w.rest(receipt.key)
            assert w.services.places.taken == 0


# ---- Stop and restart ----


async def test_g29_stop_cancels_turns_and_questions_and_leaves_sessions_idle(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, limits=Limits(max_processes=4)) as w:
        running = await w.run("wait")
        asking = await w.run("ask 2")
        ready, _ = await w.done("say a", one_shot=False)
        await w.diary.has("prompt wait")
        queued = await w.run("say b", key=running.key)
        await w.questions(2)
        closed, _ = await w.done("say c")
        await w.router.close(str(closed.key), OPERATOR)
        await w.router.stop()
        assert not w.runtime.running
        assert not w.broker.questions()
        for receipt in (running, asking, queued):
            assert (await w.wait(receipt)).outcome is Outcome.CANCELLED
        for receipt in (running, asking, ready):
            assert await w.rest(receipt.key) is SessionState.IDLE
            assert w.session(receipt.key).record.close_reason is None
        assert await w.rest(closed.key) is SessionState.CLOSED
        await refused("daemon_stopping", w.run("say d"))
        await refused("daemon_stopping", w.run("say d", key=ready.key))


async def test_a_run_that_is_being_accepted_while_the_daemon_stops_starts_nothing(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        codes: list[str] = []

        async def run() -> None:
            try:
                await w.wait(await w.run("wait"))
                codes.append("")
            except BridgeError as error:
                codes.append(error.code)

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(run)
            await until(lambda: w.made())
            await w.router.stop()
        assert len(codes) == 4
        assert set(codes) <= {"", "daemon_stopping", "session_closed"}
        assert not w.runtime.running
        for session in w.made():
            for record in await w.ledger.runs(session.key):
                assert record.outcome is Outcome.CANCELLED


async def test_leaving_the_router_without_a_stop_ends_everything_too(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("wait", one_shot=False)
        queued = await w.run("say b", key=receipt.key)
        await w.diary.has("prompt wait")
    async with world(tmp_path) as w:
        assert not w.runtime.running
        assert w.session(receipt.key).record.state is SessionState.IDLE
        for one in (receipt, queued):
            assert (await w.wait(one)).outcome is Outcome.CANCELLED


async def test_a_restart_finds_the_sessions_as_they_are_and_reopens_them(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        done, _ = await w.done("say a")
        died, _ = await w.done("crash")
        closed, _ = await w.done("say a")
        asking = await w.run("ask 1", one_shot=False)
        (question,) = await w.questions(1)
        for key in (done.key, died.key, closed.key):
            await w.rest(key)
        await w.router.close(str(closed.key), OPERATOR)
        await w.services.scribe.written()
        # What a daemon that is killed now would leave behind.
        for path in tmp_path.glob("state.db*"):
            (tmp_path / f"copy-{path.name}").write_bytes(path.read_bytes())
    for path in tmp_path.glob("copy-state.db*"):
        path.rename(tmp_path / path.name.removeprefix("copy-"))
    async with world(tmp_path) as w:
        states = {row["key"]: row["state"] for row in await w.rows()}
        assert states == {
            str(done.key): "idle",
            str(died.key): "died",
            str(closed.key): "closed",
            str(asking.key): "interrupted",
        }
        assert (await w.wait(asking)).outcome is Outcome.INTERRUPTED
        stored = await w.ledger.question(question.request.id)
        assert stored is not None
        assert stored.decision is not None
        assert stored.decision["effect"] == "cancel"
        again, result = await w.done("say b", key=asking.key)
        assert result.outcome is Outcome.COMPLETED
        assert [line for line in w.diary.lines if line.startswith("open")] == ["open Resume s103"]
        await refused("session_closed", w.run("say c", key=closed.key))
        assert "prompt ask 1" not in w.diary.lines  # never replayed
        assert again.after > 0


async def test_questions_are_on_record_with_their_answers_in_order(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("ask 2")
        first, second = await w.questions(2)
        await w.services.scribe.written()
        stored = await w.ledger.question(first.request.id)
        assert stored is not None
        assert (stored.turn, stored.decided_at) == (receipt.run_id, None)
        await w.router.answer(first.request.id, OPERATOR, option_id="no", effect=None, note="n")
        await w.router.cancel(str(receipt.key), 5, OPERATOR)
        await w.services.scribe.written()
        for question, effect in ((first, "deny"), (second, "cancel")):
            stored = await w.ledger.question(question.request.id)
            assert stored is not None
            assert stored.decision is not None
            assert stored.decision["effect"] == effect
            assert stored.decided_at is not None


async def test_what_a_rule_decides_is_logged_but_is_no_question(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, result = await w.done("ask 1", on_permission=OnPermission.ALLOW)
        assert result.outcome is Outcome.COMPLETED
        (decided,) = [e for e in await w.events(receipt.key) if e["type"] == "permission_decided"]
        assert (decided["effect"], decided["optionId"]) == ("allow", "yes")
        assert "permission_asked" not in await w.types(receipt.key)
        assert await w.ledger.question(decided["id"]) is None


async def test_a_receipt_says_after_which_event_its_run_is_found(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        first, _ = await w.done("say a", one_shot=False)
        second = await w.run("say b", key=first.key)
        await w.wait(second)
        following = await w.router.follow(str(first.key), second.after, OPERATOR)
        lines = [json.loads(line) for line in await following.read()]
        await following.aclose()
        assert (lines[0]["type"], lines[0]["turn"]) == ("turn_queued", second.run_id)
        assert first.after == 0


async def test_case_139_questions_are_watched_by_those_who_may_see_them(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        (top,) = await family(w, 0)
        mine, agents = await w.router.watch(OPERATOR), await w.router.watch(agent_in(top))

        async def read(watcher: Any) -> list[tuple[str, str | None]]:
            with anyio.fail_after(30):
                told = [json.loads(line) for line in await watcher.read()]
            return [(line["type"], line.get("key")) for line in told]

        assert await read(mine) == await read(agents) == [("open_questions", None)]
        receipt = await w.run("ask 1")
        assert await read(mine) == [("permission_asked", str(receipt.key))]
        (question,) = await w.questions(1)
        name = question.request.id
        await w.router.answer(name, OPERATOR, option_id=None, effect=Effect.DENY, note="no")
        assert await read(mine) == [("permission_decided", str(receipt.key))]
        await w.wait(receipt)
        # Another family's question was nothing to the agent: it is first told of its own.
        child = await w.run("ask 1", by=agent_in(top))
        assert await read(agents) == [("permission_asked", str(child.key))]
        await w.router.cancel(str(child.key), 5, OPERATOR)


async def test_following_may_begin_so_many_events_before_the_last(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say a", one_shot=True)
        await w.rest(receipt.key)  # its last event is that its process is gone
        everything = await w.events(receipt.key)
        assert everything[-1]["type"] == "process_exited"
        for count in (1, 3, 10_000):
            following = await w.router.follow(str(receipt.key), -count, OPERATOR)
            assert following.newest == len(everything)
            lines: list[bytes] = []
            while len(lines) < min(count, len(everything)):
                lines += await following.read()
            assert [json.loads(line)["seq"] for line in lines] == [
                event["seq"] for event in everything[-count:]
            ]
            await following.aclose()


async def test_what_an_agent_may_see_is_found_in_one_pass_over_many_sessions(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        top = (await w.run("say x", one_shot=True)).key
        child = (await w.run("say x", by=agent_in(top), one_shot=True)).key
        directory = Directory()
        directory.add(w.session(top))
        for _ in range(8_000):
            record = replace(w.session(top).record, key=SessionKey.acp(AgentId("a"), uuid4()))
            directory.add(Session(record, w.session(top).definition, None, w.services))  # type: ignore[arg-type]
        directory.add(w.session(child))
        began = time.process_time()
        assert [s.key for s in directory.visible(agent_in(top))] == [top, child]
        assert time.process_time() - began < 5  # it took a minute


async def test_what_concerns_the_whole_daemon_is_told_to_no_agent(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        run = await w.run("wait", one_shot=False)
        assert "look here" in (await w.router.status("", OPERATOR))["warnings"]
        told = await w.router.status("", agent_in(run.key))
        assert [row["key"] for row in told["sessions"]] == [str(run.key)]
        assert (told["warnings"], told["unowned"]) == ([], [])


async def test_what_nobody_owns_is_ended_for_a_person_and_for_no_agent(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        (top,) = await family(w, 0)
        w.runtime.strays = ([7], [8])
        assert await w.router.end_unowned(agent_in(top)) == []
        (receipt,) = await w.router.end_unowned(OPERATOR)
        assert (receipt.to_json()["key"], receipt.killed, receipt.survivors) == (None, (7,), (8,))
        w.runtime.strays = ([], [])
        assert await w.router.end_unowned(OPERATOR) == []
