"""Where the router finds itself: what it is told by those who made it, and may ask of them."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from acpbridge.config.snapshot import Config
from acpbridge.controller.census import ProcessInfo
from acpbridge.controller.strays import Unowned
from acpbridge.model.agents import AgentDefinition
from acpbridge.router.view import DaemonInfo


class Inspector(Protocol):
    """What really runs, from the kernel."""

    @property
    def keeper_pid(self) -> int:
        """Of the keeper."""
        ...

    @property
    def guard_pid(self) -> int:
        """Of the keeper's guard."""
        ...

    async def processes(self, name: str) -> list[ProcessInfo]:
        """Return the whole tree of one session."""
        ...

    async def trees(self, names: list[str]) -> dict[str, list[ProcessInfo]]:
        """Return the whole trees of several sessions, from one look."""
        ...

    def held(self, name: str) -> str | None:
        """Return how the tree of one session is held, None if it has none."""
        ...

    async def unowned(self) -> list[Unowned]:
        """Return what nobody owns and still lives."""
        ...

    async def end_unowned(self) -> tuple[list[int], list[int]]:
        """End what is proven ours and nobody owns; return the pids of the dead and of the left."""
        ...

    async def alive(self, processes: list[ProcessInfo], named: Collection[int] = ()) -> list[int]:
        """Return the pids of those that still live.

        Args:
            processes: who is looked for.
            named: pids that were named as left: nobody waits for their end a second time.
        """
        ...


async def no_policy() -> tuple[dict[str, Any] | None, list[str]]:
    """Return what there is to say of the policy where there can be none."""
    return None, []


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the router is told.

    Attributes:
        daemon: what `status` says of the daemon.
        config: the configuration in force.
        default_agent: which agent runs where none is named and none is configured, given the
            caller's environment and directory.
        learn: told of a caller's environment, so that its secrets are known to redaction.
        notices: what an operator should know.
        plain_environment: of this process, what any program needs and nobody keeps secret: for a
            session whose callers' environments went with an earlier daemon.
        policy: what `status` says of the policy in force, and what an operator should know of it.
        tool_server: the MCP server of the session tools for the holder of a tool token, as
            `session/new` has it; None where nothing can be started that reaches this router.
    """

    daemon: DaemonInfo
    config: Callable[[], Config]
    default_agent: Callable[[Mapping[str, str], str], AgentDefinition]
    learn: Callable[[Mapping[str, str]], None]
    notices: Callable[[], list[str]]
    plain_environment: Callable[[], Mapping[str, str]] = dict
    policy: Callable[[], Awaitable[tuple[dict[str, Any] | None, list[str]]]] = no_policy
    tool_server: Callable[[str], Mapping[str, Any]] | None = None
