"""`subagents`: what a session started, named, looked at, ended, spoken to and waited for."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from acpbridge.config.snapshot import Config, Limits
from acpbridge.config.tools import SessionTools, Tools, Visibility
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import Effect
from acpbridge.model.requesters import Requester
from acpbridge.model.sessions import Outcome
from acpbridge.router.look_requests import TAKES, SubagentsRequest, YieldRequest
from acpbridge.router.spawn_requests import SpawnRequest
from tests.unit.router.world import FAKE, OPERATOR, World, agent_in, refused, until, world


async def subagents(w: World, by: Requester, action: str = "list", **params: Any) -> dict[str, Any]:
    return await w.router.tool(SubagentsRequest.read({"action": action, **params}), by)


async def top_of(w: World) -> SessionKey:
    key = (await w.run("wait", one_shot=False)).key
    await until(lambda: str(key) in w.runtime.running and w.session(key).turn is not None)
    return key


async def spawned(
    w: World, top: SessionKey, task: str = "wait", **params: Any
) -> tuple[SessionKey, str]:
    """Spawn, and return key and run id once its agent has the task."""
    wanted = {"task": task, "runtime": "acp", "agentId": "fake", "callerCwd": w.cwd, **params}
    receipt = await w.router.tool(SpawnRequest.read(wanted), agent_in(top))
    key = SessionKey.parse(receipt["childSessionKey"])
    if task.startswith(("wait", "ask", "stone")):
        await until(lambda: w.session(key).turn is not None)
        await until(lambda: str(key) in w.runtime.running and w.agent(key).word)
    return key, receipt["runId"]


async def outcome(w: World, run: str) -> Outcome | None:
    record = await w.ledger.run(run)
    assert record is not None
    return record.outcome


def ids(rows: Sequence[dict[str, Any]], name: str = "runId") -> list[str]:
    return [row[name] for row in rows]


# ---- list, info, log ----


async def test_case_139_a_list_has_own_descendants_only(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        stranger = await top_of(w)
        await spawned(w, stranger)
        one, run = await spawned(w, top)
        two, deep = await spawned(w, one)
        mine = await subagents(w, agent_in(top))
        assert ids(mine["active"]) == [run, deep]
        assert ids(mine["tasks"], "taskId") == [run, deep]
        assert (mine["total"], mine["taskTotal"], mine["callerIsSubagent"]) == (2, 2, False)
        assert mine["callerSessionKey"] == mine["requesterSessionKey"] == str(top)
        below = await subagents(w, agent_in(one))
        assert ids(below["active"]) == [deep]
        assert below["callerIsSubagent"] is True
        assert below["active"][0]["sessionKey"] == str(two)


async def test_a_run_row_says_what_the_agents_tree_takes_right_now(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        one, run = await spawned(w, top, label="Tests", taskName="look")
        (row,) = (await subagents(w, agent_in(top)))["active"]
        assert row["pid"] == w.agent(one).pid
        assert {"pgid", "cpuSeconds"} < set(row)
        assert row["rssBytes"] == 2  # of the shim and of the agent
        assert (row["index"], row["runId"], row["status"]) == (1, run, "running")
        assert (row["task"], row["label"], row["taskName"]) == ("wait", "Tests", "look")
        assert (row["runtime"], row["pendingDescendants"]) == ("acp", 0)
        assert row["startedAt"] is not None
        assert row["endedAt"] is None


async def test_what_ended_lately_is_listed_with_its_end_and_its_last_words(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        key, run = await spawned(w, top, "say done")
        await until(lambda: not w.session(key).active)
        listed = await subagents(w, agent_in(top))
        assert listed["active"] == []
        assert ids(listed["recent"]) == [run]
        (task,) = listed["tasks"]
        assert (task["status"], task["terminalOutcome"]) == ("completed", "completed")
        assert (task["terminalSummary"], task["progressSummary"]) == ("done", None)
        assert f"1. {key}: completed" in listed["text"]
        record = await w.ledger.run(run)
        assert record is not None
        w.clock.wall = lambda: later(record.ended_at, 31)  # type: ignore[method-assign]
        assert (await subagents(w, agent_in(top)))["recent"] == []
        longer = await subagents(w, agent_in(top), recentMinutes=60)
        assert ids(longer["recent"]) == [run]


def later(moment: str | None, minutes: int) -> Any:
    from datetime import datetime, timedelta

    return datetime.fromisoformat(str(moment)) + timedelta(minutes=minutes)


async def test_3_2_5p_a_task_that_waits_for_a_person_or_for_others_says_so(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        asking, _ = await spawned(w, top, "ask 1")
        await w.questions(1)
        waiting, _ = await spawned(w, top)
        await w.run("wait", by=agent_in(waiting))
        tasks = {task["sessionKey"]: task for task in (await subagents(w, agent_in(top)))["tasks"]}
        assert tasks[str(asking)]["status"] == "blocked"
        assert tasks[str(asking)]["execution"] == {"wait": {"kind": "approval"}}
        assert tasks[str(waiting)]["status"] == "running"
        assert tasks[str(waiting)]["execution"] == {"wait": {"kind": "children"}}
        (row,) = (await w.router.status(str(asking), OPERATOR))["sessions"]
        assert row["turn"]["state"] == "waiting"


async def test_info_and_log_tell_of_one_run(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        key, run = await spawned(w, top, "say done", cleanup="keep")
        await until(lambda: not w.session(key).active)
        info = await subagents(w, agent_in(top), "info", target=run)
        assert (info["run"]["runId"], info["run"]["status"]) == (run, "completed")
        assert info["usage"] == {"n": 1}
        assert info["cleanup"] == "keep"
        assert info["transcriptPath"].endswith("agents/fake/sessions/events.db")
        assert Path(info["transcriptPath"]).is_file()
        log = await subagents(w, agent_in(top), "log", target=run, limit=1)
        assert [m["content"][0]["text"] for m in log["messages"]] == ["done"]
        assert log["runId"] == run


# ---- Targets ----


async def test_a_target_is_an_id_a_key_a_number_a_name_or_the_last(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        one, first = await spawned(w, top, taskName="look-here")
        _, second = await spawned(w, top, taskName="write")
        ways = [first, str(one), one.parts[0], 1, "1", "look-here", "look"]
        for target in ways:
            found = await subagents(w, agent_in(top), "info", target=target)
            assert found["run"]["runId"] == first, target
        assert (await subagents(w, agent_in(top), "info", target="last"))["run"]["runId"] == second


async def test_a_target_that_may_be_several_lists_them_and_does_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        one, first = await spawned(w, top, taskName="look-here")
        two, second = await spawned(w, top, taskName="look-there")
        error = await refused("ambiguous_key", subagents(w, agent_in(top), "kill", target="look"))
        for name in (first, second, str(one), str(two)):
            assert name in error.message
        assert not w.session(one).closed


async def test_case_139_what_is_not_below_is_refused_like_what_is_not_there(tmp_path: Path) -> None:
    """With the gate alone and not the lineage: the stranger's own child is killed by its key."""
    async with world(tmp_path) as w:
        top, stranger = await top_of(w), await top_of(w)
        one, run = await spawned(w, top)
        told = set()
        for who, target in [
            (stranger, run),
            (stranger, str(one)),
            (stranger, one.parts[0]),
            (stranger, str(top)),
            (stranger, str(stranger)),
            (stranger, "nothing"),
            (stranger, "last"),
            (stranger, 1),
            (one, str(top)),
            (one, str(one)),
            (one, run),
        ]:
            for action in ("info", "kill", "log"):
                error = await refused(
                    "no_such_session", subagents(w, agent_in(who), action, target=target)
                )
                told.add((error.message, error.hint))
            more = await refused(
                "no_such_session", subagents(w, agent_in(who), "cancel", taskId=str(target))
            )
            told.add((more.message, more.hint))
        assert len(told) == 1
        assert w.session(one).turn is not None


# ---- kill, cancel ----


async def test_a_kill_ends_a_run_and_all_below_it_and_nothing_else(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        one, run = await spawned(w, top)
        deep, deeper = await spawned(w, one)
        other, _ = await spawned(w, top)
        done = await subagents(w, agent_in(top), "kill", target=run)
        assert {row["sessionKey"] for row in done["stopped"]} == {str(one), str(deep)}
        assert (done["status"], done["failed"]) == ("ok", [])
        assert await outcome(w, run) is Outcome.CANCELLED
        assert await outcome(w, deeper) is Outcome.CANCELLED
        assert w.session(other).turn is not None
        assert w.session(top).turn is not None
        assert str(one) not in w.runtime.running


async def test_a_kill_of_all_leaves_the_caller(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        keys = {str((await spawned(w, top))[0]) for _ in range(2)}
        done = await subagents(w, agent_in(top), "kill", target="all")
        assert {row["sessionKey"] for row in done["stopped"]} == keys
        assert w.session(top).turn is not None
        again = await subagents(w, agent_in(top), "kill", target="all")
        assert again["stopped"] == []


async def test_without_cascade_nothing_that_has_active_ones_below_is_ended(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        one, run = await spawned(w, top)
        deep, _ = await spawned(w, one)
        error = await refused(
            "invalid_params", subagents(w, agent_in(top), "kill", target=run, cascade=False)
        )
        assert "1 sessions below" in error.message
        assert w.session(one).turn is not None
        done = await subagents(w, agent_in(top), "kill", target=str(deep), cascade=False)
        assert ids(done["stopped"], "sessionKey") == [str(deep)]


async def test_an_end_that_is_not_complete_is_an_error_with_counts(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        good, _ = await spawned(w, top)
        w.runtime.script.survives = True
        bad, run = await spawned(w, top, "stone")
        pid = w.agent(bad).pid
        error = await refused("survivors", subagents(w, agent_in(top), "kill", target="all"))
        assert ids(error.data["stopped"], "sessionKey") == [str(good)]
        assert error.data["failed"][0]["runId"] == run
        assert pid in error.data["failed"][0]["survivors"]
        assert "1 sessions are ended, 1 are not" in error.message


async def test_a_task_is_cancelled_once_and_one_that_is_over_not_at_all(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        key, run = await spawned(w, top)
        done = await subagents(w, agent_in(top), "cancel", taskId=run)
        assert done == {
            "status": "cancelled",
            "action": "cancel",
            "taskId": run,
            "found": True,
            "cancelled": True,
        }
        assert await outcome(w, run) is Outcome.CANCELLED
        assert w.session(key).closed
        again = await subagents(w, agent_in(top), "cancel", taskId=run)
        assert (again["status"], again["found"], again["cancelled"]) == ("error", True, False)
        assert "cancelled" in again["reason"]


async def test_a_leaf_ends_nobody(tmp_path: Path) -> None:
    async with world(tmp_path, limits=Limits(max_depth=1)) as w:
        top = await top_of(w)
        leaf, _ = await spawned(w, top)
        other, run = await spawned(w, top)
        for params in ({"action": "kill", "target": run}, {"action": "cancel", "taskId": run}):
            error = await refused("subagent_policy", subagents(w, agent_in(leaf), **params))
            assert "limits.maxDepth" in error.message
        assert w.session(other).turn is not None


# ---- send, steer ----


async def test_a_message_goes_to_what_was_started_also_from_a_sub_agent(tmp_path: Path) -> None:
    """Through the caller's own tools: a sub-agent, which has no sessions_send, is refused."""
    async with world(tmp_path) as w:
        top = await top_of(w)
        one, _ = await spawned(w, top)
        deep, _ = await spawned(w, one, taskName="deep")
        sent = await subagents(
            w, agent_in(one), "send", target="deep", message="say more", timeoutSeconds=0
        )
        assert (sent["action"], sent["status"]) == ("send", "accepted")
        assert sent["sessionKey"] == str(deep)
        waiting = [turn.run_id for turn in w.session(deep).inbox.waiting()]
        assert waiting == [sent["runId"]]


async def test_what_does_not_run_cannot_be_steered(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        key, run = await spawned(w, top, "say x", mode="session")
        await until(lambda: w.session(key).turn is None and not w.session(key).inbox.expected)
        await refused(
            "not_running", subagents(w, agent_in(top), "steer", target=run, message="faster")
        )


# ---- wait ----


async def test_a_wait_ends_when_all_are_over_and_takes_nothing_of_their_completions(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        one, first = await spawned(w, top)
        two, second = await spawned(w, top)
        told: list[dict[str, Any]] = []

        async def wait() -> None:
            told.append(
                await subagents(
                    w, agent_in(top), "wait", taskIds=[first, second], timeoutSeconds=60
                )
            )

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            w.agent(one).answer("end_turn")
            await until(lambda: w.session(one).turn is None)
            assert told == []
            w.agent(two).die()
        (answer,) = told
        assert answer["reason"] == "completed"
        assert ids(answer["completed"], "taskId") == [first, second]
        assert [task["status"] for task in answer["completed"]] == ["completed", "failed"]
        assert answer["completed"][1]["error"]["code"] == "agent_died"
        # No result is told here: it comes with the completion, once.
        assert {task["terminalSummary"] for task in answer["completed"]} == {None}
        states = await w.ledger.delivery_states([first, second])
        assert set(states) == {first, second}
        assert "dismissed" not in states.values()


@pytest.mark.parametrize(
    ("task", "status"),
    [
        ("say x", "completed"),
        ("raise", "failed"),
        ("crash", "failed"),
        ("end refusal", "failed"),
        ("end", "failed"),
        ("hold", "failed"),
        ("wait", "cancelled"),
    ],
)
async def test_r8_every_end_wakes_a_wait_also_one_before_the_first_event(
    tmp_path: Path, task: str, status: str
) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        if task == "hold":
            w.runtime.script.starts = "fail"
        key, run = await spawned(w, top, task)
        told: list[dict[str, Any]] = []

        async def wait() -> None:
            wanted = {"taskIds": [run], "timeoutSeconds": 60}
            told.append(await subagents(w, agent_in(top), "wait", **wanted))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            if status == "cancelled":
                await w.router.cancel(str(key), 1.0, OPERATOR)
        (answer,) = told
        assert answer["reason"] == "completed"
        assert answer["completed"][0]["status"] == status


async def test_a_wait_ends_when_a_task_or_one_below_it_needs_a_person(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        one, run = await spawned(w, top)
        _, other = await spawned(w, top)
        told: list[dict[str, Any]] = []

        async def wait() -> None:
            wanted = {"taskIds": [run, other], "timeoutSeconds": 60}
            told.append(await subagents(w, agent_in(top), "wait", **wanted))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            await spawned(w, one, "ask 1")
        (answer,) = told
        assert answer["reason"] == "attention"
        assert ids(answer["attention"], "taskId") == [run]
        assert ids(answer["running"], "taskId") == [other]
        # It only tells: no agent answers, whoever it started.
        (question,) = w.broker.questions()
        await refused(
            "permission_denied",
            w.router.answer(
                question.request.id,
                agent_in(top),
                option_id=None,
                effect=Effect.ALLOW,
                note="",
            ),
        )


async def test_a_wait_for_what_is_not_there_ends_at_once(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top, stranger = await top_of(w), await top_of(w)
        _, run = await spawned(w, top)
        _, theirs = await spawned(w, stranger)
        answer = await subagents(w, agent_in(top), "wait", taskIds=[run, theirs, "none"])
        assert answer["reason"] == "unavailable"
        assert ids(answer["unavailable"], "taskId") == [theirs, "none"]
        assert len({row["error"] for row in answer["unavailable"]}) == 1
        assert ids(answer["running"], "taskId") == [run]


async def test_a_wait_that_is_over_or_given_up_leaves_the_tasks_running(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        key, run = await spawned(w, top)
        answer = await subagents(w, agent_in(top), "wait", taskIds=[run], timeoutSeconds=0)
        assert (answer["reason"], ids(answer["running"], "taskId")) == ("timeout", [run])
        async with anyio.create_task_group() as tasks:
            wanted = SubagentsRequest.read({"action": "wait", "taskIds": [run]})
            tasks.start_soon(w.router.tool, wanted, agent_in(top))
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        assert w.session(key).turn is not None
        assert not w.turn(key).cancelling


# ---- Params ----


@pytest.mark.parametrize("action", sorted(TAKES))
def test_what_an_action_does_not_take_is_refused_by_name(action: str) -> None:
    every = {
        "target": "x",
        "recentMinutes": 5,
        "limit": 5,
        "includeTools": True,
        "cascade": True,
        "message": "x",
        "timeoutSeconds": 5,
        "taskIds": ["x"],
        "taskId": "x",
    }
    fields = SubagentsRequest.model_fields
    own = {str(fields[name].alias) for name in TAKES[action]}
    SubagentsRequest.read({"action": action, **{n: every[n] for n in own}}).check()
    for name in sorted(set(every) - own):
        request = SubagentsRequest.read({"action": action, **{n: every[n] for n in (*own, name)}})
        with pytest.raises(BridgeError, match=f"^{name} is not for action '{action}'") as caught:
            request.check()
        assert caught.value.code == "invalid_params"


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"action": "info"}, "target"),
        ({"action": "kill", "target": " "}, "target"),
        ({"action": "send", "target": "x", "message": " "}, "message"),
        ({"action": "wait"}, "taskIds"),
        ({"action": "wait", "taskIds": []}, "taskIds"),
        ({"action": "cancel"}, "taskId"),
        ({"action": "wait", "taskIds": ["x"] * 33}, "taskIds"),
        ({"action": "wait", "taskIds": ["x"], "timeoutSeconds": 61}, "timeoutSeconds"),
        ({"action": "wait", "taskIds": ["x"], "timeoutSeconds": -1}, "timeoutSeconds"),
        ({"action": "steal"}, "action"),
        ({"depth": 0}, "depth"),
    ],
)
def test_what_is_missing_or_too_much_is_named(params: dict[str, Any], named: str) -> None:
    with pytest.raises(BridgeError, match=named) as caught:
        SubagentsRequest.read(params).check()
    assert caught.value.code == "invalid_params"


# ---- sessions_yield ----


async def paused(w: World, by: Requester, **params: Any) -> dict[str, Any]:
    return await w.router.tool(YieldRequest.read(params), by)


async def test_a_yield_is_a_pause_and_changes_nothing(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        await refused("nothing_pending", paused(w, agent_in(top)))
        key, run = await spawned(w, top)
        turn = w.turn(top)
        first = await paused(w, agent_in(top), message="for the tests")
        assert first["status"] == "yielded"
        assert [child["runId"] for child in first["pending"]] == [run]
        assert (await paused(w, agent_in(top)))["status"] == "already_pending"
        assert w.turn(top) is turn
        assert not turn.cancelling
        assert w.session(key).turn is not None


async def test_a_person_does_not_pause_and_an_agent_of_ours_acknowledges_nothing(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        await spawned(w, top)
        await refused("invalid_params", paused(w, OPERATOR))
        error = await refused("invalid_params", paused(w, agent_in(top), acknowledgment="x"))
        assert error.message.startswith("acknowledgment is for clients")


async def test_a_turn_that_tells_of_an_end_is_no_task(tmp_path: Path) -> None:
    """With every run: the child that was told of its own child's end has two tasks."""
    async with world(tmp_path) as w:
        top = await top_of(w)
        one, run = await spawned(w, top)
        deep, deeper = await spawned(w, one, "say done")
        await until(lambda: w.session(one).inbox.waiting())
        assert w.session(deep).turn is None
        listed = await subagents(w, agent_in(top))
        assert ids(listed["tasks"], "taskId") == [run, deeper]
        assert [row["index"] for row in listed["active"] + listed["recent"]] == [1, 2]


async def test_who_has_completions_in_its_queue_need_not_pause(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        await spawned(w, top, "say done")
        await until(lambda: w.session(top).inbox.waiting())
        told = await paused(w, agent_in(top))
        assert told["status"] == "deferred"
        assert "end your turn" in told["message"]


async def test_a_client_that_the_bridge_does_not_run_gets_what_is_held_for_it_by_a_yield(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        main = SessionKey.main(FAKE)
        client = replace(agent_in(main), external=True)
        await refused("nothing_pending", paused(w, client))
        wanted = {"task": "say done", "runtime": "acp", "agentId": "fake", "callerCwd": w.cwd}
        receipt = await w.router.tool(SpawnRequest.read(wanted), client)
        told = await paused(w, client)
        assert told["status"] == "yielded"
        (held,) = told["completions"]
        assert held["runId"] == receipt["runId"]
        again = await paused(w, client)
        assert [one["id"] for one in again["completions"]] == [held["id"]]
        taken = await paused(w, client, acknowledgment=held["id"])
        assert taken["completions"] == []
        await refused("nothing_pending", paused(w, client))


async def test_what_the_configuration_hides_is_not_below_either(tmp_path: Path) -> None:
    """With lineage alone: the child is listed, and ended, although no session sees another one."""
    tools = Tools(sessions=SessionTools(visibility=Visibility.SELF))
    fake = AgentDefinition(id=FAKE, command=("fake",))
    async with world(tmp_path, config=Config(agents={FAKE: fake}, tools=tools)) as w:
        top = await top_of(w)
        one, run = await spawned(w, top)
        assert (await subagents(w, agent_in(top)))["total"] == 0
        done = await subagents(w, agent_in(top), "kill", target="all")
        assert done["stopped"] == []
        await refused("no_such_session", subagents(w, agent_in(top), "kill", target=run))
        assert w.session(one).turn is not None


async def test_a_wrong_call_does_nothing(tmp_path: Path) -> None:
    """Without the check: the kill is done, and its message ignored."""
    async with world(tmp_path) as w:
        top = await top_of(w)
        one, run = await spawned(w, top)
        wrong = subagents(w, agent_in(top), "kill", target=run, message="please")
        assert (
            "message is not for action 'kill'" in (await refused("invalid_params", wrong)).message
        )
        assert w.session(one).turn is not None


async def test_a_person_sees_and_ends_what_any_agent_started_and_nothing_of_a_persons(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        top = await top_of(w)
        one, run = await spawned(w, top)
        listed = await subagents(w, OPERATOR)
        assert ids(listed["active"]) == [run]
        assert (listed["callerSessionKey"], listed["callerIsSubagent"]) == (None, False)
        await refused("no_such_session", subagents(w, OPERATOR, "kill", target=str(top)))
        await subagents(w, OPERATOR, "kill", target="all")
        assert w.session(one).closed
        assert w.session(top).turn is not None
