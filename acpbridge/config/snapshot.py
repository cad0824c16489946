"""The configuration as everything else sees it: frozen, with every default filled in."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from acpbridge.config.delegation import Acp
from acpbridge.config.tools import Tools
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.delegation import Delegation
from acpbridge.model.keys import AgentId

# Of every section: a key that is not known is an error, and all keys come in camelCase.
STRICT: Final = ConfigDict(extra="forbid", frozen=True, alias_generator=to_camel)


# Beyond a year the arithmetic of dates ends somewhere, and nobody waits so long.
_Seconds = Annotated[float, Field(strict=True, gt=0, le=365 * 86400, allow_inf_nan=False)]
_Count = Annotated[int, Field(strict=True, ge=1)]
_CountOrNone = Annotated[int, Field(strict=True, ge=0, le=1024**2)]  # 0 for no limit


class Limits(BaseModel):
    """Bounds, in the units that their names say; the section of the file and its defaults.

    Attributes:
        max_processes: live agent processes; records count nothing.
        max_children_per_session: sessions that one session may have running.
        max_depth: nesting of spawned sessions.
        idle_ttl_seconds: a process without a turn for this long is closed.
        start_seconds: from process start to the `initialize` answer.
        cold_start_seconds: the same through npx; and for any agent to open a session.
        permission_seconds: deadline of a question.
        grant_seconds: what a person allowed always is asked again after so long.
        max_message_bytes: one JSON-RPC line; never unlimited.
        retention_days: a session without a process is deleted when it was not used for so long.
        max_store_mb: beyond it the events of the sessions used longest ago are deleted, with
            them; none: no bound.
        max_rss_mb: memory of one session's whole tree; beyond it the tree is ended. 0: no limit.
        max_processes_per_session: living processes of one session's tree, the same.
        stall_seconds: a turn without an update for so long fails, unless a tool runs or a question
            is open. 0: no limit.
        max_concurrent_subagents: Python agents that others have started and that run at once.
        max_queued_spawns: children that may wait for a place.
        run_timeout_seconds: of a spawned turn for which nothing else is said. 0: no limit.
        announce_seconds: an attempt at telling a session of a completion, from when its agent is
            started or asked until the words go out.
        max_hops: how often one message goes on from agent to agent.
    """

    model_config = STRICT | ConfigDict(populate_by_name=True)

    max_processes: _Count = 8
    max_children_per_session: Annotated[_Count, Field(le=20)] = 5
    max_depth: Annotated[_Count, Field(le=5)] = 3
    idle_ttl_seconds: _Seconds = 900.0
    start_seconds: _Seconds = 30.0
    cold_start_seconds: _Seconds = 180.0
    permission_seconds: _Seconds = 300.0
    grant_seconds: _Seconds = 3600.0
    max_message_bytes: Annotated[int, Field(strict=True, ge=64 * 1024, le=1024**3)] = 64 * 1024**2
    retention_days: Annotated[_Count, Field(le=36500)] = 90
    max_store_mb: Annotated[_Count, Field(le=1024**2)] | None = None
    max_rss_mb: _CountOrNone = 0
    max_processes_per_session: _CountOrNone = 0
    announce_seconds: _Seconds = 120.0
    stall_seconds: Annotated[float, Field(strict=True, ge=0, le=86400, allow_inf_nan=False)] = 0.0
    max_concurrent_subagents: _Count = 8
    max_queued_spawns: _CountOrNone = 100
    run_timeout_seconds: Annotated[int, Field(strict=True, ge=0, le=86400)] = 0
    max_hops: Annotated[_Count, Field(le=10)] = 5


class DaemonSettings(BaseModel):
    """How the daemon lives; the section of the file and its defaults.

    Attributes:
        idle_exit_seconds: it ends after so long without client, process, work and question; None
            for never.
    """

    model_config = STRICT | ConfigDict(populate_by_name=True)

    idle_exit_seconds: _Seconds | None = None


@dataclass(frozen=True, slots=True)
class Notify:
    """How a person is called when a question opens.

    Attributes:
        terminal: what a command at a terminal does: `bell`, `osc` or `off`.
        command: what the daemon starts where nobody is at a terminal; empty for nothing.
    """

    terminal: str = "bell"
    command: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Config:
    """One loaded configuration.

    Attributes:
        agents: the configured agents by id, in order.
        limits: bounds.
        notify: how a person is called.
        revision: short hash of the text, "none" where there is no file.
        warnings: what is allowed and yet worth saying.
        path: the file it came from, "" where there is none.
        daemon: how it lives.
        acp: which external agents may be started.
        delegation: what sessions of an agent without an entry may start.
        tools: what agents reach of one another's sessions.
    """

    agents: Mapping[AgentId, AgentDefinition] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)
    notify: Notify = field(default_factory=Notify)
    revision: str = "none"
    warnings: tuple[str, ...] = ()
    path: str = ""
    daemon: DaemonSettings = field(default_factory=DaemonSettings)
    acp: Acp = field(default_factory=Acp)
    delegation: Delegation = field(default_factory=Delegation)
    tools: Tools = field(default_factory=Tools)

    @property
    def default(self) -> AgentDefinition | None:
        """The entry with `default: true`, else the first; None with no entries."""
        marked = (a for a in self.agents.values() if a.default)
        return next(marked, next(iter(self.agents.values()), None))
