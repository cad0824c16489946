"""The tools of an agent: what the model is offered, per session, and what runs behind each name.

A core tool is always offered. Any other has to be activated, for one session (the activation key of
a run), and is put away again when the session has not used it for some runs: a model chooses worse
among many tools. Tools of MCP servers are read once for each session, until they are invalidated.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

from acpbridge.errors import BridgeError

if TYPE_CHECKING:
    from acpbridge.agents.context import ToolContext

# An activated tool stays for so many runs of its session without being used.
KEPT_RUNS: Final = 5


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What a tool has come to.

    Attributes:
        content: what the model is told.
        waiting_user: whether a person has to do something first; the run's result says so.
        media: paths or addresses of files that go out with the answer of the run.
    """

    content: str
    waiting_user: bool = False
    media: tuple[str, ...] = ()


ToolCode = Callable[["ToolContext", Mapping[str, Any]], Awaitable[ToolResult | str]]
"""A tool's code. What it raises is told to the model; it never ends the run."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool.

    Attributes:
        name: as the model calls it.
        description: for the model.
        run: the code.
        parameters: of a call, as a JSON Schema.
        reads: whether it changes nothing, so that it may run beside others that read.
        core: whether it is offered without being activated.
    """

    name: str
    description: str
    run: ToolCode
    parameters: Mapping[str, Any] = field(
        default_factory=lambda: {"type": "object", "properties": {}}
    )
    reads: bool = False
    core: bool = True


McpTools = Callable[[str], Awaitable[Sequence[Tool]]]
"""Reads the tools that a session's MCP servers offer, by the session's activation key."""


class ToolRegistry:
    """The tools of one agent.

    Args:
        tools: from the beginning.
        mcp: reads those of a session's MCP servers; None: there are none.
        only: names of all that is offered, whoever has it; None: whatever there is.
        never: names of what is not.
    """

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        mcp: McpTools | None = None,
        *,
        only: frozenset[str] | None = None,
        never: Iterable[str] = (),
    ) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._mcp = mcp
        self._of_mcp: dict[str, dict[str, Tool]] = {}
        self._generation = 0
        # Of MCP servers nobody knows the names beforehand.
        self._only, self._never = only, set(never)
        # For each session the tools that it activated, with the runs that they are still kept for.
        self._active: dict[str, dict[str, int]] = {}

    def register(self, tool: Tool) -> None:
        """Add a tool, in place of one of that name."""
        self._tools[tool.name] = tool
        self._never.discard(tool.name)

    def unregister(self, name: str) -> None:
        """Take a tool away, also where a server has it; nothing happens where there is none."""
        self._tools.pop(name, None)
        self._never.add(name)

    def limit(self, names: Collection[str]) -> None:
        """Keep no tool but these, each offered without being activated, whatever servers have."""
        kept = {name: tool for name, tool in self._tools.items() if name in names}
        self._tools = {name: replace(tool, core=True) for name, tool in kept.items()}
        self._only = frozenset(names) & (frozenset(names) if self._only is None else self._only)

    def names(self) -> tuple[str, ...]:
        """Return the names of all tools but those of MCP servers."""
        return tuple(self._tools)

    def clone(self) -> Self:
        """Return a registry with the same tools, which changes by itself; nothing is activated."""
        return type(self)(self._tools.values(), self._mcp, only=self._only, never=self._never)

    # A session.

    def activate(self, key: str, name: str) -> None:
        """Offer a tool to a session from its next model call on.

        Raises:
            BridgeError: `usage`: there is no such tool.
        """
        if name not in self._tools:
            known = ", ".join(sorted(self._tools)) or "none"
            raise BridgeError("usage", f"There is no tool {name!r}.", hint=f"There is: {known}.")
        self._active.setdefault(key, {})[name] = KEPT_RUNS

    def tick(self, key: str) -> None:
        """Take note of a new run of a session: what it has not used for long is put away."""
        active = {name: runs - 1 for name, runs in self._active.pop(key, {}).items() if runs > 0}
        if active:
            self._active[key] = active

    async def offered(self, key: str) -> dict[str, Tool]:
        """Return what a session is offered now, by name: ours before those of MCP servers."""
        active = self._active.get(key, {})
        ours = {name: t for name, t in self._tools.items() if t.core or name in active}
        theirs = await self._of_servers(key)
        return {**{name: t for name, t in theirs.items() if self._may_offer(name)}, **ours}

    def _may_offer(self, name: str) -> bool:
        return name not in self._never and (self._only is None or name in self._only)

    def used(self, key: str, name: str) -> None:
        """Take note that a session has used a tool: it keeps it."""
        if name in self._active.get(key, {}):
            self._active[key][name] = KEPT_RUNS

    def invalidate_mcp(self, key: str | None = None) -> None:
        """Have the tools of MCP servers read again, of one session or (None) of all."""
        self._generation += 1
        if key is None:
            self._of_mcp.clear()
        else:
            self._of_mcp.pop(key, None)

    async def _of_servers(self, key: str) -> Mapping[str, Tool]:
        if self._mcp is None:
            return {}
        if key not in self._of_mcp:
            generation = self._generation
            read = {tool.name: tool for tool in await self._mcp(key)}
            if generation != self._generation:
                return read  # asked for again meanwhile: the next call reads once more
            self._of_mcp[key] = read
        return self._of_mcp[key]
