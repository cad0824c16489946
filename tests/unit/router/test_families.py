"""`acpbridge tree` and `acpbridge runs` in the router: whole families, and what became of runs."""

import json
from pathlib import Path
from typing import Any

import pytest

from acpbridge.config.snapshot import Config
from acpbridge.config.tools import SessionTools, Tools, Visibility
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.keys import agent_id
from acpbridge.model.requesters import Requester
from acpbridge.model.sessions import Outcome
from acpbridge.router.look_requests import RunsRequest, SessionsRequest, TreeRequest
from tests.unit.router.test_looks import child
from tests.unit.router.test_router import ROW, family
from tests.unit.router.world import OPERATOR, World, agent_in, refused, until, world


async def tree(w: World, by: Requester = OPERATOR, **how: Any) -> list[dict[str, Any]]:
    families = (await w.router.tool(TreeRequest.read(how), by))["families"]
    return [one for one in families if one["key"] != "agent:fake:main"]


async def runs(w: World, by: Requester = OPERATOR, **how: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = (await w.router.tool(RunsRequest.read(how), by))["runs"]
    return rows


async def test_a_family_is_drawn_whole_as_long_as_anything_of_it_is_active(tmp_path: Path) -> None:
    """With those alone that are active: the child that has ended is not there."""
    async with world(tmp_path) as w:
        top, one, two = await family(w)
        done = (await w.run("say x", by=agent_in(top))).key
        await until(lambda: not w.session(done).active)
        (root,) = await tree(w)
        assert root["key"] == str(top)
        assert [node["key"] for node in root["children"]] == [str(one), str(done)]
        assert [node["key"] for node in root["children"][0]["children"]] == [str(two)]
        assert (root["depth"], root["children"][0]["children"][0]["depth"]) == (0, 2)
        assert root["children"][1]["runStatus"] == "completed"
        assert set(root) == ROW | {"label", "taskName", "depth", "runStatus", "children"}


async def test_a_family_that_has_ended_is_drawn_where_it_is_wanted(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        old = (await w.done("say x"))[0].key
        await w.rest(old)
        top = (await w.run("wait", one_shot=False)).key
        await w.diary.has("prompt wait")
        assert [one["key"] for one in await tree(w)] == [str(top)]
        assert [one["key"] for one in await tree(w, all=True)] == [str(old), str(top)]
        assert [one["key"] for one in await tree(w, key=str(old))] == [str(old)]


async def test_3_2_5p_a_tree_says_of_a_session_what_status_says(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        key = (await w.run("ask 1", one_shot=False)).key
        await w.questions(1)
        (node,) = await tree(w)
        (shown,) = (await w.router.status(str(key), OPERATOR))["sessions"]
        assert node["turn"]["state"] == "waiting"
        assert {name: node[name] for name in ROW} == {name: shown[name] for name in ROW}


async def test_case_139_an_agent_sees_of_a_tree_what_is_its_own(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top, one, two = await family(w)
        other = (await w.run("wait", one_shot=False)).key
        (mine,) = await tree(w, agent_in(one))
        assert mine["key"] == str(one)
        assert [node["key"] for node in mine["children"]] == [str(two)]
        for key in (top, other):
            await refused("no_such_session", tree(w, agent_in(one), key=str(key)))
            await refused("no_such_session", runs(w, agent_in(one), key=str(key)))
        rows = {row["sessionKey"]: row for row in await runs(w, agent_in(one))}
        assert set(rows) == {str(one), str(two)}
        assert rows[str(one)]["parentSessionKey"] is None
        assert rows[str(two)]["parentSessionKey"] == str(one)


async def test_runs_say_how_they_ended_and_who_is_to_hear_of_it(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = (await w.run("wait", one_shot=False)).key
        await w.diary.has("prompt wait")
        ends = {}
        for task in ("say x", "raise", "crash"):
            key = await child(w, top, task, label=task)
            await w.rest(key)
            ends[task] = key
        mine, *others = await runs(w, key=str(top))
        assert (mine["sessionKey"], mine["status"]) == (str(top), "running")
        assert mine["outcome"] is None
        assert mine["deliveryStatus"] == "not_required"
        rows = {row["sessionKey"]: row for row in others}
        said, raised, crashed = (rows[str(key)] for key in ends.values())
        assert (said["outcome"], said["stopReason"], said["error"]) == (
            "completed",
            "end_turn",
            None,
        )
        assert (raised["outcome"], raised["error"]["code"]) == ("failed", "turn_failed")
        assert crashed["error"]["code"] == "agent_died"
        assert said["parentSessionKey"] == str(top)
        assert (said["label"], said["task"]) == ("say x", "say x")
        assert said["startedAt"] is not None
        assert said["runtimeMs"] == 0  # the clock stands still
        assert said["deliveryStatus"] in ("pending", "sent", "delivered")
        assert "index" not in said


async def test_runs_that_ended_long_ago_are_listed_where_they_are_wanted(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say x")
        await w.rest(receipt.key)
        record = await w.ledger.run(receipt.run_id)
        assert record is not None
        assert [row["runId"] for row in await runs(w)] == [receipt.run_id]
        w.clock.wall = lambda: day_later(record.ended_at)  # type: ignore[method-assign]
        assert await runs(w) == []
        assert [row["runId"] for row in await runs(w, all=True)] == [receipt.run_id]
        assert [row["runId"] for row in await runs(w, key=str(receipt.key))] == [receipt.run_id]


def day_later(moment: str | None) -> Any:
    from datetime import datetime, timedelta

    return datetime.fromisoformat(str(moment)) + timedelta(hours=25)


async def test_of_many_runs_the_newest_are_listed(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        key = (await w.done("say 0", one_shot=False))[0].key
        ids = [(await w.done(f"say {n}", key=key))[0].run_id for n in range(1, 4)]
        assert [row["runId"] for row in await runs(w, newest=2)] == ids[-2:]


@pytest.mark.parametrize("outcome", list(Outcome))
async def test_every_outcome_of_a_run_is_its_status(tmp_path: Path, outcome: Outcome) -> None:
    async with world(tmp_path) as w:
        receipt = await w.run("wait", one_shot=False)
        await w.diary.has("prompt wait")
        w.turn(receipt.key).outcome = outcome
        (row,) = await runs(w)
        assert (row["status"], row["outcome"]) == (outcome, outcome)
        w.turn(receipt.key).outcome = None


async def test_case_139_of_what_lies_below_only_that_is_told_which_one_may_see(
    tmp_path: Path,
) -> None:
    """With whole families: a session of another agent's is told, with what it asks."""
    agents = {
        agent_id(name): AgentDefinition(id=agent_id(name), command=(name,))
        for name in ("fake", "other")
    }
    tools = Tools(sessions=SessionTools(visibility=Visibility.AGENT))
    async with world(tmp_path, config=Config(agents=agents, tools=tools)) as w:
        top = (await w.run("wait", one_shot=False)).key
        me = (await w.run("wait", one_shot=False)).key
        await w.diary.has("prompt wait", 2)
        hidden = (await w.run("ask 1", by=agent_in(top), agent="other")).key
        await w.questions(1)
        assert w.session(hidden).record.lineage.parent == top
        mine = agent_in(me)
        listed = await w.router.tool(SessionsRequest(), mine)
        told = [
            await tree(w, mine),
            await tree(w, mine, key=str(top)),
            await runs(w, mine),
            await runs(w, mine, key=str(top)),
            listed["sessions"],
            (await w.router.status(str(top), mine))["sessions"],
            await w.router.sessions(mine, everything=True),
        ]
        assert str(hidden) not in json.dumps(told)
        assert str(top) in json.dumps(told)
        assert str(hidden) in json.dumps(await tree(w))
