"""Completions: each run that somebody is to hear of is told to that session once, however it ends.

Cases 133 and 135, R8, R11 and R12 of the contract, with scripted agents.
"""

from pathlib import Path
from typing import Any

from acpbridge.model.keys import SessionKey
from acpbridge.router.api import RunReceipt
from tests.unit.router.world import World, agent_in, until, world


async def child_of(w: World, parent: SessionKey, words: str, **how: Any) -> RunReceipt:
    """Have a session's agent start a child of whose end it is to hear."""
    return await w.run(words, by=agent_in(parent), deliver_to=parent, detached=True, **how)


async def told(w: World, key: SessionKey) -> list[dict[str, Any]]:
    """Return the provenance of each completion that a session's agent was prompted with."""
    return [
        event["provenance"]
        for event in await w.events(key)
        if event["type"] == "turn_started" and event["provenance"]["kind"] == "inter_session"
    ]


async def settled(w: World, *receipts: RunReceipt) -> list[str]:
    """Wait until completions are neither pending nor sent; return where they stand."""
    found: list[str] = []
    while len(found) < len(receipts):
        entries = [await w.ledger.delivery(f"announce:{r.run_id}") for r in receipts]
        found = [e.state for e in entries if e is not None and e.state not in ("pending", "sent")]
        await until(lambda: True)
    return found


async def test_case_133_an_idle_parent_hears_of_its_child_once(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        parent, _ = await w.done("say hello", one_shot=False)
        child = await child_of(w, parent.key, "say found-it")
        await w.wait(child)
        assert await settled(w, child) == ["delivered"]
        assert [p["runId"] for p in await told(w, parent.key)] == [child.run_id]
