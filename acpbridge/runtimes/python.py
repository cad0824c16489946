"""The runtime of agents that are Python functions, in this process.

An agent is `async def agent(turn: Turn)`. It runs in the process of its caller: code that blocks,
blocks the caller's event loop; code that shields itself from cancellation cannot be ended: it is
left behind, and it is said that it goes on; and nothing keeps it from the caller's memory. That is
the embedder's bargain. The daemon serves Python agents as processes of their own instead.
"""

import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final

import anyio

from acpbridge import __version__
from acpbridge.errors import BridgeError
from acpbridge.logline import Logger
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.events import Event, Update
from acpbridge.model.permission import Decision, Effect, PermissionAsk, Reason
from acpbridge.model.settings import Settings
from acpbridge.runtimes.base import (
    New,
    Opening,
    RuntimeSession,
    SessionHost,
    SessionSpec,
    TurnResult,
)
from acpbridge.runtimes.content import diff_content, text_content
from acpbridge.runtimes.toolcall import ToolCall
from acpbridge.runtimes.turn import Exchange, PlanEntry, StopReason, Turn
from acpbridge.transport.foreign import Foreign

__all__ = [
    "Agent",
    "Exchange",
    "PlanEntry",
    "PythonRuntime",
    "StopReason",
    "ToolCall",
    "Turn",
    "diff_content",
    "text_content",
]

log = Logger(__name__)

Agent = Callable[[Turn], Awaitable[StopReason | str | None]]
"""An agent's code. It may return a `StopReason`; or a text, which is said; None ends normally."""

# Every question goes to a person: there is no other mode that this runtime could be put into.
MODE: Final = "default"
MODES: Final = {
    "currentModeId": MODE,
    "availableModes": [{"id": MODE, "name": "Asks before it acts"}],
}

# Prompts reach the agent's code as they are, so it may get what `Turn` has a view of.
CAPABILITIES: Final[Mapping[str, Any]] = {
    "loadSession": False,
    "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
    "mcpCapabilities": {"http": False, "sse": False},
    "sessionCapabilities": {"close": {}},
}

# Cancelled code may clean up for so long before `stop` returns without it. Seconds.
STOP_WAIT: Final = 2.0

# And for so long in any case: before that nobody can say that it does not end. Seconds.
LEAST_WAIT: Final = 0.2

# An exception's text may hold a whole document.
LONGEST_REASON: Final = 1000


class PythonRuntime:
    """Runs one agent's code, a session per `connect`.

    Args:
        agent: the agent's code.
    """

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    @asynccontextmanager
    async def connect(self, spec: SessionSpec, host: SessionHost) -> AsyncIterator[RuntimeSession]:
        """Bring up a session; leaving the context cancels its turn."""
        session = _PythonSession(self._agent, spec, host)
        try:
            yield session
        finally:
            with anyio.CancelScope(shield=True):
                await session.stop()


class _PythonSession:
    """A session of an agent in this process."""

    def __init__(self, agent: Agent, spec: SessionSpec, host: SessionHost) -> None:
        self._agent = agent
        self._spec = spec
        self._host = host
        self._session_id: str | None = None
        self._history: list[Exchange] = []
        self._state: dict[str, Any] = {}
        self._running: _Running | None = None
        self._code: list[_Running] = []
        self._stopped = anyio.Event()

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return {
            "protocolVersion": 1,
            "agentInfo": {"name": str(self._spec.definition.id), "version": __version__},
            "agentCapabilities": CAPABILITIES,
            "authMethods": [],
        }

    @property
    def pid(self) -> int:
        return 0

    @property
    def mode(self) -> str | None:
        return None if self._session_id is None else MODE

    @property
    def unasked(self) -> str:
        return ""

    @property
    def tool_running(self) -> bool:
        return self._running is not None and self._running.turn.tools_running > 0

    async def open(self, how: Opening) -> Mapping[str, Any]:
        self._check_up()
        if not isinstance(how, New):
            message = "An agent in process keeps nothing: it cannot load or resume a session."
            raise BridgeError("unsupported_control", message)
        definition = self._spec.definition
        wanted = definition.wanted_mode
        _check_mode(definition, MODE if wanted is None else wanted)
        self._session_id = str(uuid.uuid4())
        return {"sessionId": self._session_id, "modes": MODES}

    async def prompt(self, content: tuple[Mapping[str, Any], ...]) -> TurnResult:
        self._check_open()
        if self._running is not None:
            raise BridgeError("busy", "A turn of this session is running.")
        spec, history = self._spec, tuple(self._history)
        turn = Turn(content, spec.cwd, history, self._host, state=self._state)
        running = self._running = _Running(turn, self._agent)
        self._code = [one for one in self._code if one.going_on]
        self._code.append(running)
        try:
            await running.run()
        finally:
            self._history.append(Exchange(content, turn.said))
            self._running = None
            # A task that the code has left, or the code itself, may go on: it speaks for no turn.
            turn.host = _Over(self._host, self._stopped)
        self._check_up()
        reason = running.reason()
        usage = {"usage": dict(turn.tokens_used)} if turn.tokens_used else {}
        return TurnResult({"stopReason": reason, **usage}, reason)

    async def apply(self, layers: Sequence[Settings]) -> tuple[Settings, ...]:
        self._check_open()
        for layer in (layer for layer in layers if not layer.lenient):
            named = {"a model": layer.model, "thinking": layer.thinking, **layer.options}
            for name in (name for name, value in named.items() if value not in (None, "")):
                message = (
                    f"An agent in process lets its client choose nothing, not {name!r} either."
                )
                raise BridgeError("unsupported_control", message)
            if layer.mode:
                _check_mode(self._spec.definition, layer.mode)
        return tuple(layers)

    def cancel(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def set_mode(self, mode: str) -> None:
        self._check_open()
        _check_mode(self._spec.definition, mode)

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        self._check_open()
        if method == "session/set_mode":
            await self.set_mode(str(params.get("modeId")))
            return {}
        raise BridgeError("method_not_found", f"The agent does not serve {method}.")

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        del params  # there is one session only
        if method == "session/cancel":
            self.cancel()

    async def close(self) -> None:
        self._check_open()
        self.cancel()
        self._session_id = None

    async def died(self) -> BridgeError:
        await self._stopped.wait()
        return self._gone()

    async def stop(self, grace: float | None = None) -> tuple[int, ...]:
        self._stopped.set()
        if self._running is not None:
            await self._running.end(STOP_WAIT if grace is None else max(grace, LEAST_WAIT))
        # What cannot be ended is in this process: that is what is left.
        return (os.getpid(),) if any(one.going_on for one in self._code) else ()

    def _check_up(self) -> None:
        if self._stopped.is_set():
            raise self._gone()

    def _check_open(self) -> None:
        self._check_up()
        if self._session_id is None:
            raise BridgeError("no_such_session", "The agent's session is not open.")

    def _gone(self) -> BridgeError:
        return BridgeError("agent_died", "The agent was stopped.")


class _Over:
    """The host of a turn that is over: what is said is late, and what is asked is cancelled."""

    def __init__(self, host: SessionHost, stopped: anyio.Event) -> None:
        self._host = host
        self._stopped = stopped

    def emit(self, event: Event) -> None:
        if not self._stopped.is_set():
            self._host.emit(replace(event, late=True) if isinstance(event, Update) else event)

    async def room(self) -> None:
        await self._host.room()

    async def ask(self, ask: PermissionAsk) -> Decision:
        del ask
        return Decision(Effect.CANCEL, None, Reason.CANCELLED)

    def lost(self) -> None:
        self._host.lost()

    async def call(self, method: str, params: Any) -> Any:
        return await self._host.call(method, params)


class _Running:
    """A turn with the task that runs the agent's code."""

    def __init__(self, turn: Turn, agent: Agent) -> None:
        self.turn = turn
        self._returned = False
        self._result: StopReason | str | None = None
        self._error: BridgeError | None = None
        self._code = Foreign(partial(self._call, agent))

    @property
    def going_on(self) -> bool:
        """Whether the code has not come to its end."""
        return self._code.running

    def cancel(self) -> None:
        self.turn.cancelled = True
        self._code.cancel()

    async def run(self) -> None:
        """Wait for the code's end, or until it is left behind; cancelled, end it."""
        try:
            await self._code.wait()
        finally:
            if self.going_on:
                with anyio.CancelScope(shield=True):
                    await self.end(STOP_WAIT)

    async def end(self, seconds: float) -> None:
        """Cancel the code, and leave it behind if it does not end in time."""
        self.cancel()
        with anyio.move_on_after(seconds):
            await self._code.wait()
        if self.going_on:
            log.error("the agent's code goes on although its turn was ended")
            self._code.leave()

    async def _call(self, agent: Agent) -> None:
        try:
            self._result = await _start(agent, self.turn)
            self._returned = True
            if isinstance(self._result, str) and not isinstance(self._result, StopReason):
                self.turn.say(self._result)
        except BridgeError as error:
            self._error = error
        except (Exception, SystemExit) as error:
            # The boundary of a call. What a cancelled turn still raises is no failure.
            if not self.turn.cancelled:
                log.exception("the agent's code raised")
            self._error = BridgeError("turn_failed", _reason(error))

    def reason(self) -> str:
        """Return the stop reason, or raise what the agent's code did. A cancelled turn is one."""
        if self.turn.cancelled:
            return StopReason.CANCELLED.value
        if self._error is not None:
            raise self._error
        if not self._returned:
            raise BridgeError("turn_failed", "The agent's code was cancelled from within.")
        result = self._result
        return result.value if isinstance(result, StopReason) else StopReason.END_TURN.value


def _check_mode(definition: AgentDefinition, mode: str) -> None:
    if mode in definition.facts.bypass_modes and not definition.allow_bypass:
        message = f"Mode {mode!r} of {definition.id} asks nobody; it is refused."
        raise BridgeError("bypass_refused", message)
    if mode != MODE:
        message = f"The agent could not be put into mode {mode!r}: it offers {MODE}."
        raise BridgeError("mode_not_set", message, data={"mode": mode})


def _start(agent: Agent, turn: Turn) -> Awaitable[StopReason | str | None]:
    pending = agent(turn)
    if not hasattr(pending, "__await__"):
        # All in the message: on the wire of ACP there is no hint.
        message = "The agent's code is no async function; write it as: async def agent(turn): ..."
        raise BridgeError("turn_failed", message)
    return pending


def _reason(error: BaseException) -> str:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    text = " ".join(str(error).split())[:LONGEST_REASON]
    return f"The agent's code raised {type(error).__name__}" + (f": {text}" if text else ".")
