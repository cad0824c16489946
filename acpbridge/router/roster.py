"""Which agents a requester may speak to or start; pure but for the configuration it is handed."""

from collections.abc import Callable
from typing import Any

from acpbridge.config.snapshot import Config
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.keys import MAIN, AgentId
from acpbridge.model.requesters import Requester
from acpbridge.router.directory import Directory
from acpbridge.router.toolcall import AgentsRequest


class Roster:
    """Lists agents.

    Args:
        directory: the sessions that there are.
        config: the configuration in force.
    """

    def __init__(self, directory: Directory, config: Callable[[], Config]) -> None:
        self._directory = directory
        self._config = config

    async def agents(self, request: AgentsRequest, requester: Requester) -> dict[str, Any]:
        """Return the configured agents, the requester's own first; no process is started."""
        del request
        own = MAIN if requester.session is None else requester.session.agent
        agents = self._config().agents
        ordered = sorted(agents, key=lambda id: (id != own, id))
        rows = [self._row(agents[id]) for id in ordered]
        return {"requester": str(own), "allowAny": True, "agents": rows}

    def _row(self, agent: AgentDefinition) -> dict[str, Any]:
        return {
            "id": str(agent.id),
            "agentId": str(agent.id),
            "name": agent.name or str(agent.id),
            "description": agent.description,
            "configured": True,
            "runtimeKind": agent.kind,
            "status": "running" if self._running(agent.id) else "ready",
            "queueDepth": sum(len(s.inbox) for s in self._directory if s.key.agent == agent.id),
        }

    def _running(self, agent: AgentId) -> bool:
        return any(s.turn is not None for s in self._directory if s.key.agent == agent)
