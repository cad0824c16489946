"""Completions that are fetched: held until they are acknowledged, and given to nobody else.

Contract 7.2.7: a main agent that the bridge does not run loses nothing, over restarts too.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel

from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester
from acpbridge.router.announce_requests import CompletionsRequest, DeliveriesRequest
from acpbridge.router.api import RunReceipt
from tests.unit.router.world import OPERATOR, REPORT, World, agent_in, refused, until, world


def client(key: SessionKey) -> Requester:
    """Return an agent that the bridge does not run."""
    return replace(agent_in(key), external=True)


async def fetch(w: World, by: Requester, **params: Any) -> dict[str, Any]:
    return await w.router.tool(CompletionsRequest(**params), by)


async def asked(w: World, by: Requester, words: str, **how: Any) -> RunReceipt:
    return await w.run(words, by=by, deliver_to=by.session, detached=True, **how)


async def a_key(w: World) -> SessionKey:
    receipt, _ = await w.done("say hello")
    await w.rest(receipt.key)
    return receipt.key


async def test_a_completion_is_given_until_it_is_acknowledged_also_over_a_restart(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        key = await a_key(w)
        child = await asked(w, client(key), "say found-it")
        found = await fetch(w, client(key), wait_seconds=15)
        (row,) = found["completions"]
        assert found["pending"] == 0
        assert row["id"] == f"announce:{child.run_id}"
        assert {name: row[name] for name in ("kind", "runId", "sessionKey", "outcome")} == {
            "kind": "completion",
            "runId": child.run_id,
            "sessionKey": str(child.key),
            "outcome": "completed",
        }
        assert (row["result"], row["task"], row["runtime"]) == ("found-it", "say found-it", "acp")
        assert row["usage"] == {"n": 1}
        assert row["text"].startswith(REPORT)
    async with world(tmp_path) as w:
        (again,) = (await fetch(w, client(key)))["completions"]
        assert again == row
        assert (await fetch(w, client(key), acknowledge=(row["id"],)))["completions"] == []
        assert not w.session(key).active
        entry = await w.ledger.delivery(row["id"])
        assert entry is not None
        assert (entry.state, entry.payload["by"]) == ("delivered", "acknowledged")
    async with world(tmp_path) as w:
        assert (await fetch(w, client(key)))["completions"] == []


async def test_an_agent_gets_and_acknowledges_nothing_of_another_one(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        mine, other = await a_key(w), await a_key(w)
        await asked(w, client(mine), "say found-it")
        (row,) = (await fetch(w, client(mine), wait_seconds=15))["completions"]
        assert (await fetch(w, client(other)))["completions"] == []
        await fetch(w, client(other), acknowledge=(row["id"], "attention:x", "nonsense"))
        assert (await fetch(w, client(mine)))["completions"] == [row]
        await refused("permission_denied", w.router.tool(CompletionsRequest(), OPERATOR))


async def test_what_is_still_to_come_is_counted_and_a_wait_ends_without_it(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        key = await a_key(w)
        child = await asked(w, client(key), "wait")
        await until(lambda: "prompt wait" in w.diary.lines)
        found = await fetch(w, client(key), wait_seconds=0.01)
        assert found == {"completions": [], "pending": 1}
        w.agent(child.key).answer("end_turn")
        (row,) = (await fetch(w, client(key), wait_seconds=15))["completions"]
        assert row["status"] == "completed without a result: the deliverable is missing"


async def test_r8_a_waiting_parent_wakes_for_a_failure_before_the_first_event(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        key = await a_key(w)
        found: list[dict[str, Any]] = []

        async def wait() -> None:
            found.append(await fetch(w, client(key), wait_seconds=15))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.lowlevel.checkpoint()
            w.runtime.script.starts = "fail"
            await asked(w, client(key), "say x")
        (row,) = found[0]["completions"]
        assert row["status"] == "failed: boom (start_failed)"


async def test_case_50_a_question_below_is_an_item_until_it_is_noted_or_answered(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        key = await a_key(w)
        child = await asked(w, client(key), "ask 2")
        first, second = await w.questions(2)
        rows = (await fetch(w, client(key), wait_seconds=15))["completions"]
        assert [row["id"] for row in rows] == [
            f"attention:{first.request.id}",
            f"attention:{second.request.id}",
        ]
        assert {row["kind"] for row in rows} == {"attention"}
        assert rows[0]["sessionKey"] == str(child.key)
        assert "Only a person can answer" in rows[0]["text"]
        (row,) = (await fetch(w, client(key), acknowledge=(rows[0]["id"],)))["completions"]
        assert row["id"] == rows[1]["id"]
        for question in (first, second):
            await w.router.answer(
                question.request.id, OPERATOR, option_id="yes", effect=None, note=""
            )
        (row,) = (await fetch(w, client(key), wait_seconds=15))["completions"]
        assert row["kind"] == "completion"


async def test_case_133_an_agent_of_the_bridge_that_fetches_is_not_prompted_too(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        parent = await w.run("wait", one_shot=False)
        await until(lambda: "prompt wait" in w.diary.lines)
        child = await asked(w, agent_in(parent.key), "say found-it")
        # Its model has no such tool; it asks by yielding.
        ask = w.router._toolbox._handlers[CompletionsRequest]
        found = await ask(CompletionsRequest(wait_seconds=15), agent_in(parent.key))
        (row,) = found["completions"]
        assert row["runId"] == child.run_id
        found = await ask(CompletionsRequest(), agent_in(parent.key))
        assert found["completions"] == []
        w.agent(parent.key).answer("end_turn")
        await w.is_ready(parent.key)
        assert not [line for line in w.diary.lines if line.startswith(f"prompt {REPORT}")]


async def test_one_answer_is_bounded_and_the_rest_comes_with_the_next(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("acpbridge.router.completions.PAGE", 12)
    async with world(tmp_path) as w:
        key = await a_key(w)
        for word in ("say first-one", "say second-one"):
            child = await asked(w, client(key), word)
            await w.wait(child)
            await w.rest(child.key)
        found = await fetch(w, client(key))
        assert [row["result"] for row in found["completions"]] == ["first-one"]
        assert found["pending"] == 1
        found = await fetch(w, client(key), acknowledge=(found["completions"][0]["id"],))
        assert [row["result"] for row in found["completions"]] == ["second-one"]


async def test_what_is_fetched_is_listed_with_the_deliveries(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        key = await a_key(w)
        child = await asked(w, client(key), "say found-it")
        await w.wait(child)
        (row,) = (await w.router.tool(DeliveriesRequest(), OPERATOR))["deliveries"]
        assert (row["state"], row["pulled"], row["address"]) == ("pending", True, str(key))
        assert not w.router._completing.dues.busy
