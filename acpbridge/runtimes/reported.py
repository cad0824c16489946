"""The runtime of what somebody else's process does: it hears how each turn ends, and does nothing.

A role that runs inside a run of its caller has a session like any other, and this behind it. Above
are the router, and through it the process that does the work; nothing is below.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from acpbridge.errors import BridgeError
from acpbridge.model.events import Update
from acpbridge.model.settings import Settings
from acpbridge.protocol import strict
from acpbridge.runtimes.base import Opening, RuntimeSession, SessionHost, SessionSpec, TurnResult

# Whoever does the work hears at once that it is unwanted, and has so long to say how it ended.
# Seconds.
REPORT_WAIT: Final = 2.0


@dataclass(frozen=True, slots=True)
class Report:
    """How a turn ended, by the word of who did its work."""

    stop_reason: str = "end_turn"
    text: str = ""
    error: BridgeError | None = None


@dataclass(eq=False, slots=True)
class ReportedTurn:
    """A turn on its way to a report.

    Attributes:
        unwanted: set when it is to be ended.
        reported: set once there is a report.
    """

    run_id: str = ""
    unwanted: anyio.Event = field(default_factory=anyio.Event)
    reported: anyio.Event = field(default_factory=anyio.Event)
    report: Report = field(default_factory=Report)

    def end(self, report: Report) -> None:
        """Say how it ended; the first word counts."""
        if not self.reported.is_set():
            self.report = report
            self.reported.set()


@dataclass(eq=False, slots=True)
class ReportedRuntime:
    """Runs one session.

    Attributes:
        turn: the one under way, or just accepted; None between two.
        running: returns the id of the run that the session works on.
    """

    turn: ReportedTurn | None = None
    running: Callable[[], str] = lambda: ""

    @asynccontextmanager
    async def connect(self, spec: SessionSpec, host: SessionHost) -> AsyncIterator[RuntimeSession]:
        """Bring the session up; there is nothing to wait for."""
        session = _ReportedSession(self, spec, host)
        try:
            yield session
        finally:
            with anyio.CancelScope(shield=True):
                await session.stop()


class _ReportedSession:
    """A session that hears what comes of its turns."""

    # Whatever runs is no model that could have fallen silent: the process above it is watched.
    tool_running = True
    pid = 0
    mode: str | None = None
    unasked = ""

    def __init__(self, runtime: ReportedRuntime, spec: SessionSpec, host: SessionHost) -> None:
        self._runtime = runtime
        self._spec = spec
        self._host = host
        self._stopped = anyio.Event()

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return {"protocolVersion": 1, "agentCapabilities": {}}

    async def open(self, how: Opening) -> Mapping[str, Any]:
        del how
        return {}

    async def apply(self, layers: Sequence[Settings]) -> tuple[Settings, ...]:
        if any(layers):
            raise BridgeError("unsupported_control", "A role takes no settings: its caller's are.")
        return tuple(layers)

    async def prompt(self, content: tuple[Mapping[str, Any], ...]) -> TurnResult:
        del content
        turn = self._runtime.turn
        if turn is None or turn.run_id != self._runtime.running():
            message = f"{self._spec.key} is a role inside a run of its caller, who alone calls it."
            raise BridgeError("turn_failed", message, hint="Prompt the session above it.")
        try:
            await turn.reported.wait()
        finally:
            self._runtime.turn = None
        report = turn.report
        if report.text:
            said = {"type": "text", "text": report.text}
            raw = strict.dumps({"sessionUpdate": "agent_message_chunk", "content": said})
            self._host.emit(Update(raw, "agent_message_chunk"))
        if report.error is not None:
            raise report.error
        return TurnResult({"stopReason": report.stop_reason}, report.stop_reason)

    def cancel(self) -> None:
        if self._runtime.turn is not None:
            self._runtime.turn.unwanted.set()

    async def set_mode(self, mode: str) -> None:
        raise BridgeError("unsupported_control", f"A role has no modes, so no {mode!r}.")

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        del params
        raise BridgeError("method_not_found", f"A role does not serve {method}.")

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        pass

    async def close(self) -> None:
        self.cancel()

    async def died(self) -> BaseException:
        await self._stopped.wait()
        return BridgeError("agent_died", "The role was ended.")

    async def stop(self, grace: float | None = None) -> tuple[int, ...]:
        turn = self._runtime.turn
        if turn is not None:
            turn.unwanted.set()
            with anyio.move_on_after(REPORT_WAIT if grace is None else grace):
                await turn.reported.wait()
            turn.end(Report("cancelled"))
        self._stopped.set()
        return ()
