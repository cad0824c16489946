"""`agents_list`: which agents a requester may speak to or start, and if not, which setting says so.

Pure but for the directory and the configuration that it is handed; no process is started. Who may
what is decided where it is acted on: by the gate, and by the guards of a spawn.
"""

from collections.abc import Callable
from typing import Any, Final

from acpbridge.config import catalogue
from acpbridge.config.snapshot import Config
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.delegation import ANY
from acpbridge.model.keys import MAIN, AgentId, SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.router import delegating
from acpbridge.router.authorize import Action
from acpbridge.router.delegating import Asker
from acpbridge.router.directory import Directory
from acpbridge.router.toolcall import AgentsRequest

_NO_SEND: Final = (
    "No message reaches it from here: tools.sessions.visibility and tools.agentToAgent in"
    " config.yaml would have to allow it."
)

_SOME: Final = list(catalogue.CATALOGUE)[:3]
_NONE: Final = (
    "No agent is configured, so none is listed. Until the user gives config.yaml some, such as"
    f' agents: {{list: [{{id: {_SOME[0]}}}]}}, sessions_spawn takes runtime "acp" with the agentId'
    f" of a coding agent that is installed, such as {', '.join(_SOME)}."
)


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
        """Return the configured agents that the requester may have to do with, its own first.

        Any other one is not there at all, as if it were not configured (3-3.1.4).
        """
        del request
        config = self._config()
        own = MAIN if requester.session is None else requester.session.agent
        asker = self._asker(requester, own)
        allowed = delegating.delegation_of(config, own).allow_agents or ()
        ordered = sorted(config.agents.values(), key=lambda agent: (agent.id != own, agent.id))
        rows = [
            self._row(agent, requester, asker, config)
            for agent in ordered
            if self._sees(agent, requester, asker, config)
        ]
        told = {"requester": str(own), "allowAny": asker is None or ANY in allowed, "agents": rows}
        return told if config.agents else {**told, "hint": _NONE}

    def _asker(self, requester: Requester, own: AgentId) -> Asker | None:
        """Return the requester as one that spawns; None for people, who need not be let."""
        if requester.role is not Role.AGENT:
            return None
        session = None if requester.session is None else self._directory.get(requester.session)
        return Asker(own) if session is None else self._directory.asker(session)

    def _sees(
        self, agent: AgentDefinition, requester: Requester, asker: Asker | None, config: Config
    ) -> bool:
        if asker is None or agent.id == asker.agent or self._may_send(agent.id, requester):
            return True
        # How deep the requester lies and how many it has started is no reason to hide an agent.
        return _refusal(agent, Asker(asker.agent, chain=asker.chain), config) is None

    def _may_send(self, agent: AgentId, requester: Requester) -> bool:
        return self._directory.may(Action.SEND, requester, SessionKey.main(agent))

    def _row(
        self, agent: AgentDefinition, requester: Requester, asker: Asker | None, config: Config
    ) -> dict[str, Any]:
        can_send = self._may_send(agent.id, requester)
        no_spawn = None if asker is None else _refusal(agent, asker, config)
        reasons = [*([] if can_send else [_NO_SEND]), *([no_spawn] if no_spawn else [])]
        sessions = [s for s in self._directory if s.key.agent == agent.id]
        return {
            "id": str(agent.id),
            "agentId": str(agent.id),
            "name": agent.name or str(agent.id),
            "description": agent.description,
            "capabilities": list(agent.capabilities),
            "whenToUse": agent.when_to_use,
            "canSend": can_send,
            "canSpawn": no_spawn is None,
            **({"denyReason": " ".join(reasons)} if reasons else {}),
            "configured": True,
            **({"model": agent.settings.model} if agent.settings.model else {}),
            "runtimeKind": agent.kind,
            "status": "running" if any(s.turn is not None for s in sessions) else "ready",
            "queueDepth": sum(len(session.inbox) for session in sessions),
        }


def _refusal(agent: AgentDefinition, asker: Asker, config: Config) -> str | None:
    """Return why an agent may not be spawned, None if it may be."""
    try:
        delegating.check(config, asker, agent)
    except BridgeError as error:
        return f"{error.message} {error.hint}".strip()
    return None
