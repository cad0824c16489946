"""A world with several agents, in which things are spawned."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from acpbridge.config.delegation import Acp
from acpbridge.config.snapshot import Config, Limits
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.delegation import Delegation
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.requesters import Requester
from acpbridge.router.spawn_requests import SpawnRequest
from tests.unit.router.world import OPERATOR, World, until, world

ACP_AGENTS = ("fake", "codex", "claude")
PYTHON_AGENTS = ("house", "writer")


def house(**delegations: Delegation) -> Mapping[AgentId, AgentDefinition]:
    """Return agents of both kinds, with what their sessions may start."""
    out: dict[AgentId, AgentDefinition] = {}
    for name in (*ACP_AGENTS, *PYTHON_AGENTS):
        python = name in PYTHON_AGENTS
        out[AgentId(name)] = AgentDefinition(
            AgentId(name),
            kind=RuntimeKind.PYTHON if python else RuntimeKind.ACP,
            command=() if python else (name,),
            entry=f"{name}:agent" if python else "",
            delegation=delegations.get(name, Delegation()),
        )
    return out


@asynccontextmanager
async def agency(
    path: Path,
    *,
    limits: Limits = Limits(),  # noqa: B008 -- frozen
    acp: Acp = Acp(),  # noqa: B008 -- frozen
    delegations: Mapping[str, Delegation] | None = None,
    **how: Any,
) -> AsyncIterator[World]:
    config = Config(agents=house(**delegations or {}), limits=limits, acp=acp)
    async with world(path, config=config, limits=limits, **how) as w:
        yield w


async def spawn(w: World, task: str, by: Requester = OPERATOR, **params: Any) -> dict[str, Any]:
    """Spawn as the control socket has it: an ACP agent, unless something else is said."""
    if "runtime" not in params and "agentId" not in params:
        params |= {"runtime": "acp", "agentId": "fake"}
    params.setdefault("callerCwd", w.cwd)
    return await w.router.tool(SpawnRequest.read({"task": task, **params}), by)


def child_of(receipt: Mapping[str, Any]) -> SessionKey:
    return SessionKey.parse(receipt["childSessionKey"])


async def parent(w: World, agent: str = "fake", **how: Any) -> SessionKey:
    """Have a session run whose agent asks for children."""
    key = (await w.run("wait", agent=agent, one_shot=False, **how)).key
    await until(lambda: str(key) in w.runtime.running and w.agent(key).word == "wait")
    return key
