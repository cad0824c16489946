"""The configuration as everything else sees it: frozen, with every default filled in."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from acpbridge.model.agents import AgentDefinition
from acpbridge.model.keys import AgentId


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds, in the units that their names say.

    Attributes:
        max_processes: live agent processes; records count nothing.
        max_children_per_session: sessions that one session may have running.
        max_depth: nesting of spawned sessions.
        idle_ttl_seconds: a process without a turn for this long is closed.
        start_seconds: from process start to the `initialize` answer.
        cold_start_seconds: the same through npx.
        permission_seconds: deadline of a question.
        max_message_bytes: one JSON-RPC line.
    """

    max_processes: int = 8
    max_children_per_session: int = 5
    max_depth: int = 3
    idle_ttl_seconds: float = 900.0
    start_seconds: float = 30.0
    cold_start_seconds: float = 180.0
    permission_seconds: float = 300.0
    max_message_bytes: int = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Config:
    """One loaded configuration.

    Attributes:
        agents: the configured agents by id, in order.
        limits: bounds.
        revision: short hash of the text, "none" where there is no file.
        warnings: what is allowed and yet worth saying.
        path: the file it came from, "" where there is none.
    """

    agents: Mapping[AgentId, AgentDefinition] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    revision: str = "none"
    warnings: tuple[str, ...] = ()
    path: str = ""

    @property
    def default(self) -> AgentDefinition | None:
        """The entry with `default: true`, else the first; None with no entries."""
        marked = (a for a in self.agents.values() if a.default)
        return next(marked, next(iter(self.agents.values()), None))
