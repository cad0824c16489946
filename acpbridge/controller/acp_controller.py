"""ACP towards one agent: connect, open a session, prompt, cancel, and every other call.

It speaks for one process over one connection. What the agent calls on us goes to the handler that
it is given; nothing here decides a permission or knows what a session of ours is.
"""

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final

import anyio

from acpbridge import __version__
from acpbridge.controller import logins, refusals
from acpbridge.controller.chosen import Chosen
from acpbridge.controller.process import AgentProcess
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentFacts
from acpbridge.protocol import acp
from acpbridge.protocol.content import check_servers
from acpbridge.protocol.errors import broken_answer
from acpbridge.protocol.jsonrpc import Call, Noise, Peer
from acpbridge.transport.connection import Connection, Handler
from acpbridge.transport.longlines import LongLines
from acpbridge.transport.tasks import Owner, background, in_time

# An agent that has closed its stdout has as good as exited; its status comes within this. Seconds.
STATUS_WAIT: Final = 1.0

# A session is open within this: an agent may start servers, or download them, before it answers.
# Seconds.
OPEN_SECONDS: Final = 180.0


@dataclass(frozen=True, slots=True)
class Setup:
    """What a session is opened with, whichever way that is.

    Attributes:
        cwd: absolute directory.
        mcp_servers: in the shape of the protocol.
        additional_directories: that it may work in, too.
        seconds: within which the agent has to answer.
    """

    cwd: str
    mcp_servers: tuple[Mapping[str, Any], ...] = ()
    additional_directories: tuple[str, ...] = ()
    seconds: float = OPEN_SECONDS


class AcpRuntimeController(Owner):
    """One agent process that speaks ACP; use it as an async context manager.

    Args:
        process: the agent.
        handler: serves what the agent calls on us.
        facts: what is known of the program.
        start_seconds: limit for the answer to `initialize`.
        answering: the last look at an answer before it is written; see `Connection`.
        arrived: told inline of each call of the agent; see `Connection`.
        peer: the protocol state, where another limit than the default is wanted.
        long_lines: shared by all agents; see `Connection`.
        served: what is served to the agent, beyond what always is; in the shape of the protocol.

    Attributes:
        capabilities: the raw `initialize` result, empty before `connect`.
        session_id: of the session that is open, by the agent's own name for it.
        chosen: the session's mode, model and options.
    """

    def __init__(  # noqa: PLR0913 - a process, and by keyword how it is spoken to
        self,
        process: AgentProcess,
        handler: Handler,
        facts: AgentFacts,
        *,
        start_seconds: float,
        answering: Any = None,
        arrived: Callable[[Call], None] | None = None,
        peer: Peer | None = None,
        long_lines: LongLines | None = None,
        served: Mapping[str, Any] | None = None,
    ) -> None:
        self._process = process
        self._served = dict(served or {})
        self._facts = facts
        self._start_seconds = start_seconds
        self._connection = Connection(
            process.stdout,
            process.stdin,
            handler,
            peer=peer,
            lost=lambda: BridgeError("agent_died", "The agent is gone."),
            answering=answering,
            arrived=arrived,
            long_lines=long_lines,
        )
        self._exit = ""
        self._dead = anyio.Event()
        self._error: BridgeError | None = None
        self.capabilities: Mapping[str, Any] = {}
        self.session_id: str | None = None
        self.chosen = Chosen(self.request, facts)

    async def _enter(self, stack: AsyncExitStack) -> None:
        # Last of all whoever still waits for an answer is told; the watchers are gone by then.
        stack.callback(self._take_as_dead, "its session was left")
        await stack.enter_async_context(self._connection)
        await stack.enter_async_context(background(self._watch_exit, self._watch_end))

    # Life.

    async def connect(self) -> Mapping[str, Any]:
        """Send `initialize` and return its raw result.

        Raises:
            BridgeError: `start_timeout`, `start_failed`, `protocol_version`.
        """
        params = {
            "protocolVersion": acp.PROTOCOL_VERSION,
            "clientCapabilities": {
                "fs": {"readTextFile": False, "writeTextFile": False},
                "session": {"configOptions": {"boolean": {}}},
                **self._served,
            },
            "clientInfo": {"name": acp.CLIENT_INFO_NAME, "version": __version__},
        }
        try:
            result = await in_time(self._start_seconds, lambda: self._call("initialize", params))
        except TimeoutError:
            message = f"The agent did not answer initialize in {self._start_seconds:g} s."
            message += self._first_noise()
            raise self._process.post_mortem("start_timeout", message) from None
        except BridgeError as error:
            raise self._start_error(error) from None
        self._check_version(result)
        self.capabilities = result
        self._process.initialized()
        return self.capabilities

    def _check_version(self, result: Any) -> None:
        try:
            answer = acp.read(acp.InitializeResult, result, "the answer to initialize")
        except BridgeError as error:
            raise self._process.post_mortem("start_failed", error.message) from None
        if answer.protocolVersion != acp.PROTOCOL_VERSION:
            message = (
                f"The agent speaks ACP version {answer.protocolVersion}; "
                f"acpbridge speaks version {acp.PROTOCOL_VERSION}."
            )
            raise self._process.post_mortem("protocol_version", message)

    def _start_error(self, error: BridgeError) -> BridgeError:
        if error.code == "agent_died":
            message = f"The agent ended before it was ready: {self._exit or 'it closed stdout'}."
            message += self._first_noise()
        else:
            message = f"The agent refused initialize: {error.message}"
        return self._process.post_mortem("start_failed", message)

    def _first_noise(self) -> str:
        noise = self._connection.first_noise
        if noise is None:
            return ""
        return " " + refusals.not_acp(self._connection.noise, noise.head)

    async def died(self) -> BridgeError:
        """Wait until the agent is gone and return why."""
        await self._dead.wait()
        assert self._error is not None
        return self._error

    async def _watch_exit(self) -> None:
        self._exit = await self._process.exited()
        self._connection.finish_reading()

    async def _watch_end(self) -> None:
        await self._connection.closed.wait()
        with anyio.move_on_after(STATUS_WAIT):
            while not self._exit:
                self._exit = await self._process.exited()
        given_up = self._connection.given_up
        self._take_as_dead(f"it was given up, {given_up}" if given_up else "it closed its stdout")

    def _take_as_dead(self, otherwise: str) -> None:
        if not self._dead.is_set():
            message = f"The agent died: {self._exit or otherwise}."
            self._error = self._process.post_mortem("agent_died", message)
            self._dead.set()

    # Sessions.

    async def new(self, setup: Setup) -> Mapping[str, Any]:
        """Send `session/new`; return its raw result.

        Raises:
            BridgeError: `auth_required`, `start_failed`, `start_timeout`, `agent_died`.
        """
        params = self._setup(setup)
        try:
            result = await self._set_up("session/new", params, setup.seconds)
            answer = acp.read(acp.NewSessionResult, result, "the answer to session/new")
        except BridgeError as error:
            raise self._open_error("session/new", error) from None
        return self._opened(answer.sessionId, result)

    async def load(self, session_id: str, setup: Setup) -> Mapping[str, Any]:
        """Send `session/load`; the agent replays the history before it answers.

        Raises:
            BridgeError: `resume_not_found`, `unsupported_control`, and those of `new`.
        """
        return await self._reopen("session/load", ("loadSession",), session_id, setup)

    async def resume(self, session_id: str, setup: Setup) -> Mapping[str, Any]:
        """Send `session/resume`; nothing is replayed.

        Raises:
            BridgeError: as `load`.
        """
        marker = ("sessionCapabilities", "resume")
        return await self._reopen("session/resume", marker, session_id, setup)

    def _setup(self, setup: Setup) -> dict[str, Any]:
        check_servers(self.capabilities, setup.mcp_servers)
        servers = [dict(server) for server in setup.mcp_servers]
        params: dict[str, Any] = {"cwd": setup.cwd, "mcpServers": servers}
        if setup.additional_directories:
            self._need("sessionCapabilities", "additionalDirectories")
            params["additionalDirectories"] = list(setup.additional_directories)
        return params

    async def _reopen(
        self, method: str, marker: tuple[str, ...], session_id: str, setup: Setup
    ) -> Mapping[str, Any]:
        params = {"sessionId": session_id, **self._setup(setup)}
        self._need(*marker)
        try:
            result = await self._set_up(method, params, setup.seconds)
        except BridgeError as error:
            raise self._open_error(method, error) from None
        return self._opened(session_id, result if isinstance(result, dict) else {})

    async def _set_up(self, method: str, params: dict[str, Any], seconds: float) -> Any:
        wanted = self._facts.auth_method
        try:
            return await in_time(
                seconds,
                lambda: logins.set_up(self._call, method, params, self.capabilities, wanted),
            )
        except TimeoutError:
            message = f"The agent did not answer {method} in {seconds:g} s."
            error = self._process.post_mortem("start_timeout", message)
            error.hint = "Raise limits.coldStartSeconds if the agent is only slow."
            raise error from None

    def _need(self, *marker: str) -> None:
        if not acp.can(self.capabilities, *marker):
            message = f"The agent does not advertise {'.'.join(marker)}."
            raise BridgeError("unsupported_control", message)

    def _opened(self, session_id: str, result: Mapping[str, Any]) -> Mapping[str, Any]:
        self.session_id = session_id
        self.chosen.opened(result)
        return {**result, "sessionId": session_id}

    def _open_error(self, method: str, error: BridgeError) -> BridgeError:
        if error.code in ("agent_died", "start_timeout"):
            return error
        if refusals.needs_login(error):
            return self._login_error(error)
        text = f"The agent refused {method}: {error.message}"
        if method != "session/new" and refusals.says_unknown_session(error, self._facts):
            return BridgeError("resume_not_found", text, data=error.data)
        wrapped = self._process.post_mortem("start_failed", text)
        wrapped.data.update(error.data)
        return wrapped

    def _login_error(self, error: BridgeError) -> BridgeError:
        return refusals.login_error(error, self._facts, self.capabilities)

    # Turns.

    async def prompt(
        self,
        content: tuple[Mapping[str, Any], ...],
        wanted: Callable[[], bool] = lambda: True,
        answered: Callable[[], None] = lambda: None,
    ) -> Mapping[str, Any]:
        """Send a prompt; return the raw result when the turn has ended.

        Args:
            content: the blocks of the prompt.
            wanted: asked in the moment in which it is sent, after any wait.
            answered: called inline when its answer arrives; what comes after that is of no turn.

        Raises:
            BridgeError: `agent_died`, `auth_required`, `turn_failed`, `invalid_message`,
                `request_cancelled`.
        """
        params = {"sessionId": self._session(), "prompt": [dict(block) for block in content]}
        await self._connection.drained()
        if not wanted():
            raise BridgeError("request_cancelled", "The turn was cancelled.")
        try:
            result = await self._call("session/prompt", params, answered)
        except BridgeError as error:
            if refusals.needs_login(error):
                raise self._login_error(error) from None
            raise
        if not isinstance(result, dict):
            raise broken_answer("The answer to session/prompt is not an object.")
        return result

    async def drained(self) -> None:
        """Wait until the agent has read enough of what it was sent for more to be sent."""
        await self._connection.drained()

    def cancel(self) -> None:
        """Ask the agent to end the turn."""
        if self.session_id is not None:
            self._connection.notify("session/cancel", {"sessionId": self.session_id})

    async def close(self) -> None:
        """Have the agent free the session, where it can.

        Raises:
            BridgeError: what the agent answered.
        """
        if acp.can(self.capabilities, "sessionCapabilities", "close"):
            await self.request("session/close", {})

    async def stop(self, grace: float | None = None) -> tuple[int, ...]:
        """End the process, tree and all; return the pids that are left."""
        return await self._process.stop(grace)

    def status(self) -> dict[str, Any]:
        """Return what is known of the agent without asking it."""
        return {
            "pid": self._process.pid,
            "agentSessionId": self.session_id,
            "mode": self.chosen.mode,
            "noise": self._connection.noise,
            "alive": not self._connection.closed.is_set(),
        }

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        """Send any request; the session id is filled in where it is missing.

        Raises:
            BridgeError: what the agent answered, or `agent_died`.
        """
        return await self._call(method, {"sessionId": self._session(), **params})

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send any notification; the session id is filled in where it is missing."""
        self._connection.notify(method, {"sessionId": self._session(), **params})

    def hear_noise(self, told: Callable[[Noise], None]) -> None:
        """Have somebody told of what the agent sends that is no message."""
        self._connection.on_noise = told

    def hear_gone(self, told: Callable[[], None]) -> None:
        """Have somebody told that the agent is gone, before what it asks is cancelled."""
        self._connection.on_gone = told

    def give_up(self, why: str) -> None:
        """Take no more from the agent: it counts as dead, and its tree is ended for that."""
        self._connection.give_up(why)

    def answer(self, call: Call, result: Any) -> None:
        """Answer an open call of the agent now, before its handler has come to an end."""
        self._connection.answer(call, result)

    def _session(self) -> str:
        if self.session_id is None:
            raise BridgeError("no_such_session", "The agent's session is not open yet.")
        return self.session_id

    async def _call(
        self,
        method: str,
        params: Mapping[str, Any],
        answered: Callable[[], None] = lambda: None,
    ) -> Any:
        try:
            await self._connection.drained()
            return await self._connection.request(method, params, answered=answered)
        except BridgeError as error:
            if error.code != "agent_died":
                raise
        raise await self.died()
