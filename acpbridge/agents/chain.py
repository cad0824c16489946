"""Who called whom within one run, and when that has gone far enough. A value; no I/O.

This is another count than the depth of spawned sessions (`limits.maxDepth`): a role is called
inside the run of its caller, and no session of its own has a process for it.
"""

from dataclasses import dataclass
from typing import Final

from acpbridge.errors import BridgeError
from acpbridge.model.keys import MAIN, AgentPath, agent_id

# Entries, with the one at the head: main may call one that calls one, and there it ends.
MAX_SUBAGENT_DEPTH: Final = 3


@dataclass(frozen=True, slots=True)
class CallChain:
    """The call paths from the head to the one that is running: `main`, `main/reviewer`, ..."""

    entries: tuple[AgentPath, ...] = (AgentPath(MAIN),)

    @property
    def path(self) -> AgentPath:
        """The path of the one that is running."""
        return self.entries[-1]

    def names(self) -> tuple[str, ...]:
        """Return the plain names of all in it, the head first."""
        return tuple(path.rpartition("/")[2] for path in self.entries)

    def check(self, name: str) -> None:
        """Check that the one that is running may call somebody.

        Names are compared, never whole paths: each path is longer than those before it, and so
        none would ever come twice.

        Args:
            name: of a role or an agent.

        Raises:
            BridgeError: `subagent_policy`: the chain is long enough, or the name is in it already;
                `no_such_agent`: it is no name.
        """
        wanted, chain = agent_id(name), " -> ".join(self.names())
        data = {"chain": list(self.entries)}
        if wanted in map(agent_id, self.names()):
            message = f"circular SubAgent call: {wanted} is in the chain already ({chain})."
            hint = "Do that part yourself, or call a role that is not in the chain."
            raise BridgeError("subagent_policy", message, hint=hint, data=data)
        if len(self.entries) >= MAX_SUBAGENT_DEPTH:
            message = f"The chain of calls is {MAX_SUBAGENT_DEPTH} long already ({chain})."
            hint = "Do that part yourself, and tell your caller what is left to do."
            raise BridgeError("subagent_policy", message, hint=hint, data=data)

    def spawn(self, name: str) -> "CallChain":
        """Return the chain of one that is called from here; this one stays as it is.

        Raises:
            BridgeError: as `check`.
        """
        self.check(name)
        return CallChain((*self.entries, AgentPath(f"{self.path}/{agent_id(name)}")))
