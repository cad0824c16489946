"""What the controller needs of an agent's process, whether it is a real one or two memory ends."""

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Protocol

from acpbridge.errors import BridgeError
from acpbridge.transport.memory import ByteReceive, ByteSend
from acpbridge.transport.tree import ExitStatus


@dataclass(frozen=True, slots=True)
class LaunchSpec:
    """What to start, and under which name to file it.

    Attributes:
        name: under which it is filed, of an agent the session key as text.
        argv: program and arguments, already resolved.
        env: the whole environment.
        cwd: absolute directory.
        grace: seconds to end in after stdin was closed.
        better: commands that look right and do not speak ACP, each with the one that does.
        parent: the session that spawned the owner, as text; "" for nobody's.
        above: the parent, who spawned that one, and so on.
        stop_grace: asked when it is left: seconds in place of `grace`, None for that.
        containment: how its tree is to be held: `auto`, `shim`, `cgroup2` or `pidns`.
        owner: the name whose processes these are too: of a terminal, its session's. "" for its own.
        merged: whether what it writes on stderr comes with its stdout, in the order of writing.
    """

    name: str
    argv: tuple[str, ...]
    env: dict[str, str] = field(repr=False)
    cwd: str
    grace: float = 2.0
    better: Mapping[str, str] = field(default_factory=dict)
    parent: str = ""
    above: tuple[str, ...] = ()
    stop_grace: Callable[[], float | None] = lambda: None
    containment: str = "auto"
    owner: str = ""
    merged: bool = False

    @property
    def whose(self) -> str:
        """The name under which its processes are shown, counted and ended."""
        return self.owner or self.name


class AgentProcess(Protocol):
    """A running agent: its pipes, its end, and what it said on stderr."""

    @property
    def pid(self) -> int:
        """Of the agent itself; 0 for one in memory."""
        ...

    @property
    def start_ticks(self) -> int:
        """When it started, in clock ticks since boot; 0 for one in memory."""
        ...

    @property
    def stdin(self) -> ByteSend:
        """Where our bytes go."""
        ...

    @property
    def stdout(self) -> ByteReceive:
        """Where its bytes come from."""
        ...

    @property
    def status(self) -> ExitStatus | None:
        """How the agent itself ended, None while it runs."""
        ...

    async def exited(self) -> str:
        """Wait for the agent's own exit and return how it ended, for people."""
        ...

    async def gone(self) -> None:
        """Wait until nothing of the tree is left, or what is left has been named."""
        ...

    def initialized(self) -> None:
        """Take note that it answered `initialize`."""
        ...

    def post_mortem(self, code: str, message: str) -> BridgeError:
        """Return an error with the exit status and the end of its stderr, redacted."""
        ...

    async def stop(self, grace: float | None = None) -> tuple[int, ...]:
        """End the whole tree; return the pids that are left."""
        ...


class Launcher(Protocol):
    """Starts agents."""

    def launch(self, spec: LaunchSpec) -> AbstractAsyncContextManager[AgentProcess]:
        """Start an agent; leaving the context ends its whole tree.

        Raises:
            BridgeError: `agent_not_found`, `start_failed`.
        """
        ...
