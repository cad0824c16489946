"""What an agent's sessions may start, as configured; values."""

from dataclasses import dataclass
from typing import Final

# As agents name them; which of them one has is its own business.
THINKING: Final = (
    "off",
    "minimal",
    "low",
    "medium",
    "high",
    "xhigh",
    "adaptive",
    "max",
    "ultra",
)

ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class Delegation:
    """What the sessions of one agent may start.

    Attributes:
        allow_agents: ids of the Python agents, or `*` for any configured one; None: only itself.
        model: of a Python child for which no model is asked for; "" for its own.
        thinking: likewise.
        require_agent_id: whether a spawn has to name the agent.
    """

    allow_agents: tuple[str, ...] | None = None
    model: str = ""
    thinking: str = ""
    require_agent_id: bool = False
