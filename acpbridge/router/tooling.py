"""Which session tools a requester has; what it has not is refused as well when it is called.

The policy, pure but for the directory: a child never has what speaks to strangers
or shows its parents, and one that may not spawn has nothing of what belongs to spawning. Above is
the router, before any handler; who may touch which session is `authorize`'s business.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from acpbridge.config.snapshot import Config
from acpbridge.config.tools import ToolLists
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.keys import MAIN, SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.router.api import RunRequest
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

# No tools of the list, and ways to start somebody all the same.
_STARTING: Final = frozenset({"tool/ask"})

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
        lists: what the configuration leaves to sub-agents.
    """

    depth: int
    most: int
    lists: ToolLists = field(default_factory=ToolLists)

    def lacks(self, name: str) -> BridgeError | None:
        """Return why a tool is not given here, None if it is."""
        if name in _NEVER_BELOW and self.depth > 0:
            why = f"A sub-agent has no {name}."
            return BridgeError("permission_denied", why, hint=_INSTEAD[name])
        if name in _WITH_SPAWNING and self.depth >= self.most:
            here = f"current depth: {self.depth}, max: {self.most}; limits.maxDepth"
            why = f"{name} is not allowed at this depth ({here})."
            return BridgeError("subagent_policy", why, hint=_AT_THE_LIMIT)
        return self.taken(name)

    def taken(self, name: str) -> BridgeError | None:
        """Return why a tool is taken away by the configuration, None if it is not."""
        if name not in CALLS or self.depth == 0 or not self.lists.lack(name):
            return None
        why = f"Sub-agents have no {name} here (tools.subagents.tools)."
        return BridgeError("permission_denied", why, hint=_BY_A_PERSON)


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
        standing = self._standing(requester)
        why = standing.lacks(_NAMES.get(request.METHOD, ""))
        if request.METHOD in _STARTING:
            why = standing.taken("sessions_spawn")
        if why is not None:
            raise why

    def check_run(self, request: RunRequest, requester: Requester) -> None:
        """Check that a sub-agent that has no `sessions_spawn` starts nothing by a command either.

        Raises:
            BridgeError: `permission_denied`.
        """
        new = not request.session and not request.continue_last
        why = self._standing(requester).taken("sessions_spawn")
        if new and requester.role is Role.AGENT and why is not None:
            raise why

    def _standing(self, requester: Requester) -> Standing:
        session = None if requester.session is None else self._directory.get(requester.session)
        depth = 0 if session is None else session.record.lineage.depth
        config = self._config()
        return Standing(depth, config.limits.max_depth, config.tools.subagents.tools)


_AT_THE_LIMIT: Final = "Do the task yourself, or raise limits.maxDepth in config.yaml."
_BY_A_PERSON: Final = "Do without it; a person may change tools.subagents.tools in config.yaml."
_INSTEAD: Final = {
    "session_status": "Finish your task: your result goes to whoever started you.",
    "sessions_send": "Speak to sessions that you started with subagents, action send.",
}


def _runs_acp(agent: AgentDefinition) -> bool:
    return agent.kind is RuntimeKind.ACP
