"""The runtime of agents that speak ACP: a supervised process behind the seam."""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import anyio

from acpbridge.controller import refusals
from acpbridge.controller.acp_controller import AcpRuntimeController, Setup
from acpbridge.controller.process import AgentProcess, Launcher, LaunchSpec
from acpbridge.errors import BridgeError
from acpbridge.model.faults import Faults, no_faults
from acpbridge.model.settings import Settings
from acpbridge.permissions.confine import Roots
from acpbridge.protocol import acp
from acpbridge.protocol.content import check_content
from acpbridge.protocol.envelope import LONG
from acpbridge.protocol.framing import DEFAULT_LIMIT
from acpbridge.protocol.jsonrpc import Peer
from acpbridge.protocol.toolcalls import ToolCalls
from acpbridge.runtimes import settings
from acpbridge.runtimes.acp_client import AcpClient
from acpbridge.runtimes.advertised import served
from acpbridge.runtimes.base import (
    Load,
    New,
    Opening,
    RuntimeSession,
    SessionHost,
    SessionSpec,
    TurnResult,
)
from acpbridge.runtimes.bypass import SETTERS
from acpbridge.runtimes.client_files import Serving, serve_files, session_roots
from acpbridge.runtimes.command import command_for
from acpbridge.runtimes.modes import ModeKeeper
from acpbridge.runtimes.terminals import Terminals
from acpbridge.transport.longlines import LongLines
from acpbridge.transport.tasks import background

# Whatever an agent sends but updates: real answers have 100 KB, and a question may have so much.
STRICT_LIMIT: Final = 1024 * 1024


class AcpRuntime:
    """Runs ACP agents with the launcher that it is given: real processes, or ends in memory.

    Args:
        launcher: starts agents.
        max_message_bytes: limit of one line in either direction.
        faults: points at which a test may fail or kill.
        learn: told of the variables that an agent sets for a command, before they are shown.
    """

    def __init__(
        self,
        launcher: Launcher,
        max_message_bytes: int = DEFAULT_LIMIT,
        faults: Faults = no_faults,
        learn: Callable[[Mapping[str, str]], None] = lambda _given: None,
    ) -> None:
        self._launcher = launcher
        self._learn = learn
        self._faults = faults
        self._limit = max_message_bytes
        self._lines = LongLines()

    @asynccontextmanager
    async def connect(self, spec: SessionSpec, host: SessionHost) -> AsyncIterator[RuntimeSession]:
        """Start the agent and have `initialize` answered; leaving the context ends it.

        Raises:
            BridgeError: `agent_not_found`, `start_failed`, `start_timeout`, `protocol_version`.
        """
        definition = spec.definition
        command = command_for(definition, spec.env, spec.cwd)
        launch = LaunchSpec(
            name=str(spec.key),
            argv=command.argv,
            env=dict(spec.env),
            # A launcher would run what a workspace has under the package's name: it starts at
            # home, and the agent is told its directory by the protocol.
            cwd=spec.env.get("HOME", "/") if command.cold else spec.cwd,
            grace=definition.facts.grace,
            better=definition.facts.wrong_commands,
            parent="" if spec.lineage.parent is None else str(spec.lineage.parent),
            above=tuple(map(str, spec.above)),
            stop_grace=spec.stop_grace,
            containment=definition.containment,
        )
        async with session_roots(spec) as roots, self._launcher.launch(launch) as process:
            reading = self._limit, self._lines
            terminals = Terminals(spec, host, self._launcher, process.pid, self._learn)
            session = _AcpSession(spec, host, process, terminals, reading, cold=command.cold)
            session.serve(roots, self._faults)
            async with terminals, session.controller:
                try:
                    await session.controller.connect()
                except BridgeError as error:
                    raise command.explain(error) from None
                async with background(session.modes.watch):
                    yield session


class _AcpSession:
    """An agent's session over its own process."""

    def __init__(
        self,
        spec: SessionSpec,
        host: SessionHost,
        process: AgentProcess,
        terminals: Terminals,
        reading: tuple[int, LongLines],
        *,
        cold: bool,
    ) -> None:
        limit, lines = reading
        self._spec = spec
        self._host = host
        self._process = process
        self._terminals = terminals
        tools = ToolCalls(spec.definition.facts.tool_names, spec.cwd)
        start = process.start_ticks
        self._client = AcpClient(host, process.pid, self._mode_told, tools, start_ticks=start)
        # Taken up again, and not yet proven by a turn to be really there.
        self._doubtful = False
        self._called_off = False
        self._sent = False
        self._pause = anyio.CancelScope()
        self.controller = AcpRuntimeController(
            process,
            self._client,
            spec.definition.facts,
            start_seconds=spec.cold_start_seconds if cold else spec.start_seconds,
            answering=self._client.answering,
            arrived=self._client.arrived,
            peer=Peer(limit, strict_limit=min(limit, STRICT_LIMIT), unread_limit=LONG),
            long_lines=lines,
            served=served(spec.definition),
        )
        self.controller.hear_noise(self._client.on_noise)
        self.controller.hear_gone(self._gone)
        self._client.on_options = self.controller.chosen.options_told
        self._client.malformed.give_up = self.controller.give_up
        self.modes = ModeKeeper(
            spec.definition,
            host,
            self.controller.chosen,
            cancel=self.cancel,
            give_up=self.controller.give_up,
        )

    def serve(self, roots: Roots, faults: Faults) -> None:
        """Serve what the definition lets the agent do with files, and have run."""
        client = self._client
        terminals = self._terminals.methods(lambda: client.session_id, self.controller.drained)
        serving = Serving(
            self._host,
            roots,
            self._process.pid,
            lambda: client.session_id,
            client.wanted,
            self.controller.drained,
            faults,
        )
        client.served = {**serve_files(serving, self._spec), **terminals}

    @property
    def capabilities(self) -> Mapping[str, Any]:
        return self.controller.capabilities

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def mode(self) -> str | None:
        return self.controller.chosen.mode

    @property
    def unasked(self) -> str:
        return self.modes.unasked

    @property
    def tool_running(self) -> bool:
        return self._client.tools.running or self._terminals.awaited

    async def open(self, how: Opening) -> Mapping[str, Any]:
        spec, controller = self._spec, self.controller
        setup = Setup(
            spec.cwd, spec.mcp_servers, spec.additional_directories, spec.cold_start_seconds
        )
        if isinstance(how, New):
            result = await controller.new(setup)
        else:
            self._client.session_id = how.session_id
            # What a load sends before its answer is history, which our log has already.
            self._client.replaying = isinstance(how, Load)
            reopen = controller.load if isinstance(how, Load) else controller.resume
            try:
                result = await reopen(how.session_id, setup)
                if isinstance(how, Load) and spec.definition.facts.replay_quiet:
                    await self._client.replay_over(spec.definition.facts.replay_quiet)
            finally:
                self._client.replaying = False
        self._client.session_id = controller.session_id
        self._doubtful = not isinstance(how, New)
        await self.modes.ensure()
        self.modes.opened = True
        return result

    async def apply(self, layers: Sequence[Settings]) -> tuple[Settings, ...]:
        before = self.modes.wanted
        if any(layers):
            layers = await settings.apply(self.controller.chosen, layers, self.modes.check)
        chosen = [layer.mode for layer in layers if layer.mode is not None]
        self.modes.wanted = (chosen[-1] if chosen else "") or self._spec.definition.wanted_mode
        try:
            await self.modes.ensure()
        except BridgeError:
            # A turn that did not get its mode leaves no trace.
            self.modes.wanted = before
            raise
        return tuple(layers)

    async def set_mode(self, mode: str) -> None:
        await self.modes.set(mode)

    def _mode_told(self, mode: str) -> None:
        self.controller.chosen.mode_told(mode)

    async def prompt(self, content: tuple[Mapping[str, Any], ...]) -> TurnResult:
        check_content(self.capabilities, content)
        self._called_off = False
        with anyio.CancelScope() as self._pause:
            await self._client.aftermath.over()
        # The agent may have left its mode since the last turn: nothing is prompted in another.
        await self.modes.ensure()
        self.modes.begin_turn()
        self._client.begin_turn()
        self._terminals.begin_turn()
        try:
            raw = await self.controller.prompt(content, self._send, self._client.answered)
        except BridgeError as error:
            if self.modes.entered is not None and error.code == "request_cancelled":
                raise self.modes.entered from None
            facts = self._spec.definition.facts
            # One that has begun to work has found the conversation, and has taken the prompt.
            doubtful = self._doubtful and not self._client.heard
            if doubtful and refusals.prompt_says_unknown_session(error, facts):
                message = f"The agent refused session/prompt: {error.message}"
                raise BridgeError("resume_not_found", message, data=error.data) from None
            raise
        finally:
            self._sent = False
            self._client.end_turn()
            self.modes.end_turn()
        for problem in (self.modes.entered, self._client.lost):
            if problem is not None:
                raise problem
        self._doubtful = False
        reason = raw.get("stopReason")
        return TurnResult(raw, reason if isinstance(reason, str) else "")

    def _send(self) -> bool:
        """Take the prompt as sent, unless it was called off: it would never hear of that."""
        self._sent = self._client.prompted = not self._called_off
        return self._sent

    def cancel(self) -> None:
        self._called_off = True
        self._pause.cancel()
        if not self._sent:
            return
        self._terminals.cancel_turn()
        # The protocol wants every open question answered before the cancel is seen to be done.
        for call in self._client.cancel_turn():
            self.controller.answer(call, acp.selected(None))
        self.controller.cancel()

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        if method in SETTERS:
            # Nobody enters a bypass mode by another road (row 28).
            self.modes.check_request(params)
        result = await self.controller.request(method, params)
        if method in SETTERS:
            self.controller.chosen.answered(result)
        return result

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self.controller.notify(method, params)

    async def close(self) -> None:
        self._client.closed = True
        await self.controller.close()

    async def died(self) -> BridgeError:
        return await self.controller.died()

    def _gone(self) -> None:
        self._terminals.end_all()
        self._host.lost()

    async def stop(self, grace: float | None = None) -> tuple[int, ...]:
        left: list[int] = []

        async def of_terminals() -> None:
            left.extend(await self._terminals.stop(grace))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(of_terminals)
            left.extend(await self.controller.stop(grace))
        return tuple(left)
