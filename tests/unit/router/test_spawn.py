"""`sessions_spawn`: what is accepted, what is refused and with which words (3-2.4, 3-3.1.16)."""

from pathlib import Path
from typing import Any

from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester
from acpbridge.router.spawn_requests import SpawnRequest
from tests.unit.router.world import OPERATOR, World, agent_in, until, world


async def spawn(w: World, task: str, by: Requester = OPERATOR, **params: Any) -> dict[str, Any]:
    """Spawn as the control socket has it."""
    params.setdefault("callerCwd", w.cwd)
    params.setdefault("agentId", "fake")
    params.setdefault("runtime", "acp")
    return await w.router.tool(SpawnRequest.read({"task": task, **params}), by)


def child_of(receipt: dict[str, Any]) -> SessionKey:
    return SessionKey.parse(receipt["childSessionKey"])


async def parent(w: World, **how: Any) -> SessionKey:
    """Have a session run whose agent asks for children."""
    key = (await w.run("wait", one_shot=False, **how)).key
    await until(lambda: str(key) in w.runtime.running and w.session(key).turn is not None)
    return key


async def test_a_spawn_by_an_agent_is_its_child_and_the_receipt_waits_for_nothing(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        top = await parent(w)
        w.runtime.script.starts = "hang"
        receipt = await spawn(w, "wait", agent_in(top), label="tests", taskName="look")
        key = child_of(receipt)
        assert receipt["status"] == "accepted"
        assert key.kind == "acp"
        record = w.session(key).record
        assert record.lineage.parent == top
        assert record.lineage.depth == 1
        assert (record.label, record.task_name, record.cleanup) == ("tests", "look", "keep")
        stored = await w.ledger.session(key)
        assert stored is not None
        assert (stored.label, stored.task_name) == ("tests", "look")
