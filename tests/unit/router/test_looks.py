"""The tools that look, in process: what each shows, to whom, and that it is what `status` shows."""

from pathlib import Path
from typing import Any

from acpbridge.model.requesters import Requester
from acpbridge.router.look_requests import (
    HistoryRequest,
    SessionRequest,
    SessionsRequest,
    SubagentsRequest,
)
from tests.unit.router.test_router import family
from tests.unit.router.world import OPERATOR, World, agent_in, world


async def listed(w: World, by: Requester = OPERATOR, **how: Any) -> dict[str, Any]:
    return await w.router.tool(SessionsRequest(**how), by)


async def said(w: World, by: Requester = OPERATOR, **how: Any) -> dict[str, Any]:
    return await w.router.tool(HistoryRequest(**how), by)


async def stands(w: World, by: Requester = OPERATOR, **how: Any) -> dict[str, Any]:
    return await w.router.tool(SessionRequest(**how), by)


# ---- sessions_list ----


async def test_a_list_has_the_sessions_that_one_may_see_the_newest_first(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top, child, grandchild = await family(w)
        assert [row["key"] for row in (await listed(w))["sessions"]] == [
            str(key) for key in (grandchild, child, top)
        ]
        own = await listed(w, agent_in(child))
        assert [row["key"] for row in own["sessions"]] == [str(grandchild), str(child)]
        assert own["visibility"]["restricted"] is True
        assert "tools.sessions.visibility" in own["visibility"]["warning"]
        assert [row["parentSessionKey"] for row in own["sessions"]] == [str(child), None]


async def test_a_history_has_what_was_asked_and_what_was_said(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say hello")
        history = await said(w, session_key=str(receipt.key))
        assert [(m["role"], m["content"][0]["text"]) for m in history["messages"]] == [
            ("user", "say hello"),
            ("assistant", "hello"),
        ]


async def test_a_status_tells_state_and_version(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        receipt, _ = await w.done("say hello")
        status = await stands(w, session_key=str(receipt.key), changes_since=0)
        assert status["ok"] is True
        kinds = [event["type"] for event in status["stateChanges"]["events"]]
        assert kinds == ["created", "run_completed"]
        again = await stands(w, session_key=str(receipt.key), changes_since=status["stateVersion"])
        assert again["stateChanges"]["events"] == []


# ---- subagents ----


async def below(w: World, by: Requester, **how: Any) -> dict[str, Any]:
    return await w.router.tool(SubagentsRequest(**how), by)


async def test_subagents_lists_own_descendants_only(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top, child, grandchild = await family(w)
        mine = await below(w, agent_in(top))
        assert [row["sessionKey"] for row in mine["active"]] == [str(child), str(grandchild)]
        assert [task["status"] for task in mine["tasks"]] == ["running", "running"]
        (leaf,) = (await below(w, agent_in(child)))["active"]
        assert leaf["sessionKey"] == str(grandchild)
        assert leaf["pid"] == w.agent(grandchild).pid


async def test_subagents_kill_ends_the_run_and_its_tree(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top, child, grandchild = await family(w)
        done = await below(w, agent_in(top), action="kill", target=str(child))
        assert {one["sessionKey"] for one in done["stopped"]} == {str(child), str(grandchild)}
        assert done["failed"] == []
        assert w.session(child).closed
        assert w.session(grandchild).closed
        assert not w.session(top).closed
