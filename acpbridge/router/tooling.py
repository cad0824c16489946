"""Which session tools a requester has; what it has not is refused as well when it is called.

The policy of contract 2.7, pure but for the directory: a child never has what speaks to strangers
or shows its parents, and one that may not spawn has nothing of what belongs to spawning. Above is
the router, before any handler; who may touch which session is `authorize`'s business.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from acpbridge.config.snapshot import Config
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.keys import MAIN, SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.router.directory import Directory
from acpbridge.router.toolcall import ToolRequest

# Tool -> the call that serves it. What is not here is no tool of a model's.
CALLS: Final[Mapping[str, str]] = {
    "sessions_spawn": "tool/spawn",
    "sessions_send": "tool/send",
    "agents_list": "tool/agents",
    "sessions_list": "tool/sessions",
    "sessions_history": "tool/history",
    "session_status": "tool/session",
    "sessions_yield": "tool/yield",
    "subagents": "tool/subagents",
}
_NAMES: Final = {call: name for name, call in CALLS.items()}

# Of no use, and no business, of a session that was spawned.
_NEVER_BELOW: Final = frozenset({"session_status", "sessions_send"})

# They come and go with the right to spawn.
_WITH_SPAWNING: Final = frozenset(
    {"subagents", "sessions_list", "sessions_history", "sessions_spawn", "agents_list"}
)

# Of people alone.
OF_OPERATORS: Final = frozenset({"tool/deliveries", "tool/delegations"})


class ToolsRequest(ToolRequest):
    """Which tools does the requester have, and what does it need to know to describe them?"""

    METHOD: ClassVar[str] = "tool/tools"


@dataclass(frozen=True, slots=True)
class Standing:
    """Where somebody stands who asks for tools.

    Attributes:
        depth: of its session below a main one.
        most: `limits.maxDepth`.
    """

    depth: int
    most: int

    def lacks(self, name: str) -> str | None:
        """Return why a tool is not given here, None if it is."""
        if name in _NEVER_BELOW and self.depth > 0:
            return f"A sub-agent has no {name}."
        if name in _WITH_SPAWNING and self.depth >= self.most:
            here = f"current depth: {self.depth}, max: {self.most}; limits.maxDepth"
            return f"{name} is not allowed at this depth ({here})."
        return None


class Tooling:
    """Says who has which tools.

    Args:
        directory: the sessions that there are.
        config: the configuration in force.
        served: the requests that the router serves.
    """

    def __init__(
        self,
        directory: Directory,
        config: Callable[[], Config],
        served: Callable[[], Collection[type[ToolRequest]]],
    ) -> None:
        self._directory = directory
        self._config = config
        self._served = served

    async def tools(self, request: ToolsRequest, requester: Requester) -> dict[str, Any]:
        """Serve `tool/tools`."""
        del request
        standing = self._standing(requester)
        served = {tool.METHOD for tool in self._served()}
        names = [n for n, call in CALLS.items() if call in served and not standing.lacks(n)]
        config = self._config()
        agents = config.agents.values()
        return {
            "sessionKey": str(requester.session or SessionKey.main(MAIN)),
            "external": requester.external,
            "depth": standing.depth,
            "maxDepth": standing.most,
            "acp": config.acp.enabled and any(map(_runs_acp, agents)),
            "tools": names,
        }

    def check(self, request: ToolRequest, requester: Requester) -> None:
        """Check that the requester has the tool that it calls.

        Raises:
            BridgeError: `subagent_policy` at the depth limit, else `permission_denied`.
        """
        if requester.role is not Role.AGENT:
            return
        if request.METHOD in OF_OPERATORS:
            raise BridgeError("permission_denied", f"An agent may not call {request.METHOD}.")
        name = _NAMES.get(request.METHOD, "")
        why = self._standing(requester).lacks(name)
        if why is None:
            return
        if name in _WITH_SPAWNING:
            raise BridgeError("subagent_policy", why, hint=_AT_THE_LIMIT)
        raise BridgeError("permission_denied", why, hint=_INSTEAD[name])

    def _standing(self, requester: Requester) -> Standing:
        session = None if requester.session is None else self._directory.get(requester.session)
        depth = 0 if session is None else session.record.lineage.depth
        return Standing(depth, self._config().limits.max_depth)


_AT_THE_LIMIT: Final = "Do the task yourself, or raise limits.maxDepth in config.yaml."
_INSTEAD: Final = {
    "session_status": "Finish your task: your result goes to whoever started you.",
    "sessions_send": "Speak to sessions that you started with subagents, action send.",
}


def _runs_acp(agent: AgentDefinition) -> bool:
    return agent.kind is RuntimeKind.ACP
