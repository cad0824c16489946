"""`sessions_send`: a message to a session that exists, and what its sender gets to know."""

from pathlib import Path
from typing import Any

from acpbridge.config.snapshot import Config, Limits
from acpbridge.config.tools import AgentToAgent, SessionTools, Tools, Visibility
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.requesters import Requester
from acpbridge.model.sessions import Lineage, SessionRecord, SessionState
from acpbridge.router.send_requests import SendRequest
from tests.unit.router.world import World, agent_in, until, world

MAIN, RESEARCH, WRITER = (SessionKey.main(AgentId(name)) for name in ("main", "research", "writer"))

OPEN = Tools(
    sessions=SessionTools(visibility=Visibility.ALL), agent_to_agent=AgentToAgent(allow=("*",))
)


def configured(tools: Tools = OPEN, **limits: Any) -> Config:
    agents = {
        AgentId(name): AgentDefinition(AgentId(name), command=(name,))
        for name in ("fake", "main", "research", "writer")
    }
    return Config(agents=agents, limits=Limits(**limits), tools=tools)


async def have(w: World, key: SessionKey, parent: SessionKey | None = None, **more: Any) -> None:
    """Have a session on record that has no process."""
    lineage = Lineage() if parent is None else Lineage(parent, parent, 1)
    record = SessionRecord(
        key, SessionState.IDLE, w.cwd, w.services.now(), one_shot=False, lineage=lineage, **more
    )
    definition = AgentDefinition(key.agent, command=("fake",))
    w.router._directory.add(w.router._session(record, definition))
    await w.ledger.put_session(record)


async def peers(w: World) -> Requester:
    """Have a main session at work, and two others; return who asks from the first one."""
    for key in (MAIN, RESEARCH, WRITER):
        if w.router._directory.get(key) is None:
            await have(w, key)
    await w.run("busy", key=MAIN)
    await until(lambda: w.session(MAIN).turn is not None)
    return agent_in(MAIN)


async def send(w: World, by: Requester, message: str, **how: Any) -> dict[str, Any]:
    return await w.router.tool(SendRequest(message=message, **how), by)


async def test_3_3_1_15_a_sender_that_waits_gets_the_reply(tmp_path: Path) -> None:
    async with world(tmp_path, config=configured()) as w:
        by = await peers(w)
        done = await send(w, by, "say three", session_key=str(RESEARCH))
        assert done["status"] == "ok"
        assert done["sessionKey"] == str(RESEARCH)
        started = next(e for e in await w.events(RESEARCH) if e["type"] == "turn_started")
        assert started["runId"] == done["runId"]
        assert started["provenance"]["kind"] == "inter_session"
