"""An agent that is a model with instructions and tools, and no code: what its definition says."""

import json
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Self

ENTRY: Final = "acpbridge.agents.model:agent"
"""The entry of every such agent."""

VARIABLE: Final = "ACPBRIDGE_MODEL_AGENT"
"""The variable by which the process of such an agent is told what it is."""

HOUSE_TOOLS: Final = ("read_file", "list_files", "write_file", "run_command")
"""Tools that act in the directory of the session, each call by permission."""

SESSION_TOOLS: Final = (
    *("agents_list", "sessions_spawn", "sessions_send", "sessions_list", "sessions_history"),
    *("session_status", "sessions_yield", "subagents"),
)
"""Tools by which it has others work for it, as the daemon gives them to its session."""


ROLE_TOOLS: Final = ("SubAgent",)
"""The tool by which it calls roles of the user's inside its own turn."""

ROLES: Final = "roles"
"""Directory of the roles, beside the configuration."""


@dataclass(frozen=True, slots=True)
class ModelAgent:
    """What such an agent is made of.

    Attributes:
        model: the vendor and its name for the model: `anthropic:NAME`.
        instructions: what it is told before everything else.
        tools: names of those that it has; no others are offered.
        max_iterations: how often its model is asked in one turn at most; 0: 100 times.
        base_url: where the vendor's API is reached, "" for the vendor's own address.
        config: absolute path of the configuration that defines it, beside which its roles are; ""
            where it calls none.
    """

    model: str
    instructions: str = ""
    tools: tuple[str, ...] = ()
    max_iterations: int = 0
    base_url: str = ""
    config: str = ""

    def with_session_tools(self) -> Self:
        """Return the same with all session tools."""
        return replace(self, tools=tuple(dict.fromkeys((*self.tools, *SESSION_TOOLS))))

    def write(self) -> str:
        """Return it as text, for its process."""
        return json.dumps(asdict(self), ensure_ascii=False)

    @classmethod
    def read(cls, text: str) -> Self:
        """Return what `write` has written.

        Raises:
            ValueError, TypeError: it is something else.
        """
        value: dict[str, Any] = json.loads(text)
        return cls(**{**value, "tools": tuple(value.get("tools", ()))})
