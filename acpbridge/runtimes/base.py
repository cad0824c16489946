"""The seam: what a session asks of any runtime, and what a runtime may ask of its session.

Above is the router, which sees only these protocols. Below them are `acp` (a supervised child
process) and `python` (an agent in this process); neither knows of faces or of other sessions.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from acpbridge.model.agents import AgentDefinition
from acpbridge.model.events import Event
from acpbridge.model.keys import AgentPath, SessionKey
from acpbridge.model.permission import Decision, PermissionAsk
from acpbridge.model.sessions import Lineage
from acpbridge.model.settings import Settings


@dataclass(frozen=True, slots=True)
class SessionSpec:
    """Everything that a runtime needs to bring up one session.

    Attributes:
        definition: snapshot that the session was opened with.
        revision: of the configuration that the snapshot is from.
        key: the session's address.
        path: call chain of internal agents.
        lineage: who spawned it.
        cwd: absolute directory of its turns.
        additional_directories: further roots, absolute.
        mcp_servers: handed to the agent as they are.
        instructions: extra system text, "" for none.
        tool_token: names this session towards our own tools, "" where it has none.
        env: the whole environment of a child process, already built from the allow-list.
        mark: the value of ACPBRIDGE_MARK, by which a sweep recognises the tree. No secret.
        start_seconds: from process start to the `initialize` answer.
        cold_start_seconds: the same where the program has to be fetched first; and the limit for
            the answer by which a session is opened.
        stop_grace: asked when the process is left: seconds for its polite end, None for its own.
        above: who spawned it, and who spawned that one, nearest first.
        tenant: for stores that serve several, "" here.
        user: the same.
    """

    definition: AgentDefinition
    revision: str
    key: SessionKey
    path: AgentPath
    lineage: Lineage
    cwd: str
    additional_directories: tuple[str, ...] = ()
    mcp_servers: tuple[Mapping[str, Any], ...] = ()
    instructions: str = ""
    tool_token: str = ""
    env: Mapping[str, str] = field(default_factory=dict)
    mark: str = ""
    start_seconds: float = 30.0
    cold_start_seconds: float = 180.0
    stop_grace: Callable[[], float | None] = lambda: None
    above: tuple[SessionKey, ...] = ()
    tenant: str = ""
    user: str = ""


@dataclass(frozen=True, slots=True)
class New:
    """Open a session that never was."""


@dataclass(frozen=True, slots=True)
class Load:
    """Open an old session; the agent replays its history first."""

    session_id: str


@dataclass(frozen=True, slots=True)
class Resume:
    """Open an old session without a replay."""

    session_id: str


Opening = New | Load | Resume


@dataclass(frozen=True, slots=True)
class TurnResult:
    """The answer to a prompt; `raw` is the agent's result object with all its fields."""

    raw: Mapping[str, Any]
    stop_reason: str


class SessionHost(Protocol):
    """What a runtime may ask of the session that it runs for."""

    def emit(self, event: Event) -> None:
        """Record an event. Cannot block and cannot fail."""
        ...

    async def room(self) -> None:
        """Wait until the log can take more; called between two reads, never within one."""
        ...

    async def ask(self, ask: PermissionAsk) -> Decision:
        """Have a permission decided. Always returns a decision, at the latest at the deadline."""
        ...

    def lost(self) -> None:
        """Take note that the agent is gone, before what it asked is cancelled. Cannot block."""
        ...

    async def call(self, method: str, params: Any) -> Any:
        """Serve any other request of the agent.

        Raises:
            BridgeError: to be sent to the agent as it is.
        """
        ...


class RuntimeSession(Protocol):
    """One agent session that is up. Every method raises BridgeError `agent_died` once it is not."""

    @property
    def capabilities(self) -> Mapping[str, Any]:
        """The agent's `initialize` result, whole."""
        ...

    @property
    def pid(self) -> int:
        """Of the process that answers, 0 in process."""
        ...

    @property
    def mode(self) -> str | None:
        """The agent's session mode as it last told it; None: it never did."""
        ...

    @property
    def unasked(self) -> str:
        """What lets the agent act without asking anybody at present, "" if nothing is known to."""
        ...

    @property
    def tool_running(self) -> bool:
        """Whether a tool call was announced that has not ended."""
        ...

    async def open(self, how: Opening) -> Mapping[str, Any]:
        """Open the agent's session, in its asking mode; return the agent's raw result.

        The result of a load or resume gets the session id filled in, so that it always has one.

        Raises:
            BridgeError: `auth_required`, `resume_not_found`, `mode_not_set`, `start_failed`.
        """
        ...

    async def apply(self, layers: Sequence[Settings]) -> tuple[Settings, ...]:
        """Set what was chosen for the session, the last layer above; return the layers resolved.

        Resolved layers name options by the agent's own ids, and the model and the mode as such.
        The mode is set last, and is held from then on.

        Raises:
            BridgeError: `unsupported_control`, `invalid_params`, `bypass_refused`,
                `mode_not_set`, or what the agent answered.
        """
        ...

    async def prompt(self, content: tuple[Mapping[str, Any], ...]) -> TurnResult:
        """Run one turn. When this returns, every event of the turn has been emitted.

        Raises:
            BridgeError: `resume_not_found`, where the agent took up a session that it does not
                have after all, and has not taken the prompt; or what went wrong.
        """
        ...

    def cancel(self) -> None:
        """Ask the agent to end the turn; `prompt` returns when it has."""
        ...

    async def set_mode(self, mode: str) -> None:
        """Set the session mode and verify it."""
        ...

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        """Send any other request; the agent's session id is filled in where it is missing."""
        ...

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send any other notification."""
        ...

    async def close(self) -> None:
        """Have the agent free its session, where it can.

        Raises:
            BridgeError: what the agent answered.
        """
        ...

    async def died(self) -> BaseException:
        """Wait until the agent is gone, and return why; for ever while it lives."""
        ...

    async def stop(self, grace: float | None = None) -> tuple[int, ...]:
        """End the whole tree politely, then by force; return the pids that are left.

        Args:
            grace: seconds after stdin was closed; None for the agent's own, 0 for at once.
        """
        ...


class Runtime(Protocol):
    """A way to run agents."""

    def connect(
        self, spec: SessionSpec, host: SessionHost
    ) -> AbstractAsyncContextManager[RuntimeSession]:
        """Bring the agent up to its `initialize` answer; leaving the context ends it, tree and all.

        Raises:
            BridgeError: `agent_not_found`, `start_failed`, `start_timeout`, `protocol_version`.
        """
        ...
