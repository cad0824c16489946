"""Checks of agents: each is started as the daemon would start it, and never prompted.

The process that asks is the root of it all: supervisor, keeper and shims are its own, and nothing
of them outlives it. A session is opened in an empty directory, for that alone tells of a login that
is missing and of the mode in which a person is asked; it is closed again, and the directory goes.
"""

import signal
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import anyio

from acpbridge import logs
from acpbridge.checking.report import Check, Status, failed
from acpbridge.config.environment import child_environment
from acpbridge.config.snapshot import Limits
from acpbridge.controller.containment import ShimContainment
from acpbridge.controller.supervisor import Supervisor
from acpbridge.errors import BridgeError
from acpbridge.model.events import Event
from acpbridge.model.keys import AgentPath, SessionKey
from acpbridge.model.permission import Decision, Effect, PermissionAsk, Reason
from acpbridge.model.sessions import Lineage
from acpbridge.redact import Redactor
from acpbridge.runtimes.acp import AcpRuntime
from acpbridge.runtimes.base import New, RuntimeSession, SessionSpec
from acpbridge.runtimes.inventory import Listed, asks
from acpbridge.runtimes.logins import NOT_NEEDED, UNKNOWN
from acpbridge.transport.tasks import background

# Starting four agents keeps a small machine busy; their start limits count from their own start.
AT_ONCE: Final = 4

# An agent that does not free its session in this time is ended anyway. Seconds.
CLOSE_WAIT: Final = 2.0


@dataclass(frozen=True, slots=True)
class Caller:
    """Who checks, and how far it may go.

    Attributes:
        env: whose logins and programs count.
        limits: of a start.
        fetch: whether an agent that is not installed may be downloaded.
    """

    env: Mapping[str, str]
    limits: Limits
    fetch: bool


class _Nobody:
    """The host of a session in which nothing is to happen: it allows nothing, and keeps nothing."""

    def emit(self, event: Event) -> None:
        """Let it go."""

    async def room(self) -> None:
        """There always is room."""

    async def ask(self, ask: PermissionAsk) -> Decision:
        """Allow nothing."""
        del ask
        return Decision(Effect.CANCEL, None, Reason.CANCELLED)

    async def call(self, method: str, params: Any) -> Any:
        """Serve nothing."""
        del params
        raise BridgeError("method_not_found", f"acpbridge does not serve {method}.")


def check_agents(agents: list[Listed], caller: Caller) -> list[Check]:
    """Check agents side by side; return what came of each, in their order.

    Raises:
        KeyboardInterrupt: when a person wants it ended; everything that was started is ended.
    """
    redactor = Redactor(caller.env.items())
    logs.to_stderr(redactor.value, quiet=True)
    checks = anyio.run(_check_all, agents, caller, redactor)
    if checks is None:
        raise KeyboardInterrupt
    return [_without_secrets(check, redactor) for check in checks]


async def _check_all(
    agents: list[Listed], caller: Caller, redactor: Redactor
) -> list[Check] | None:
    out: list[Check | None] = [None] * len(agents)
    with tempfile.TemporaryDirectory(prefix="acpbridge-doctor-", ignore_cleanup_errors=True) as top:
        folder = Path(top)
        journal = folder / "processes.json"
        places = anyio.CapacityLimiter(AT_ONCE)
        scope = anyio.CancelScope()

        async def one(index: int, runtime: AcpRuntime) -> None:
            work = folder / f"{index}"
            work.mkdir()
            async with places:
                out[index] = await _Checking(agents[index], caller, folder, work).run(runtime)

        async with background(lambda: _obey_signals(scope)):
            with scope:
                async with Supervisor(journal, ShimContainment(), redactor.text) as supervisor:
                    runtime = AcpRuntime(supervisor, caller.limits.max_message_bytes)
                    async with anyio.create_task_group() as tasks:
                        for index in range(len(agents)):
                            tasks.start_soon(one, index, runtime)
    return None if scope.cancelled_caught else [check for check in out if check is not None]


async def _obey_signals(scope: anyio.CancelScope) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, signal.SIGHUP) as signals:
        async for _ in signals:
            scope.cancel()


class _Checking:
    """The check of one agent.

    Args:
        agent: which one.
        caller: who checks.
        home: stands for the state directory.
        work: an empty directory of its own.
    """

    def __init__(self, agent: Listed, caller: Caller, home: Path, work: Path) -> None:
        self._agent = agent
        self._caller = caller
        self._home = home
        self._work = work
        self._facts: dict[str, Any] = {
            "launch": agent.launch,
            "command": None if agent.command is None else list(agent.command.argv),
            "agent": None,
            "version": None,
            "protocolVersion": None,
            "handshakeMs": None,
            "login": agent.login,
            "loginState": NOT_NEEDED if agent.login == NOT_NEEDED else UNKNOWN,
            "mode": None,
            "asks": None,
        }

    async def run(self, runtime: AcpRuntime) -> Check:
        """Start the agent, open a session, end both, and say what was seen."""
        agent = self._agent
        if agent.problem is not None:
            return self._failed(agent.problem)
        if agent.command is not None and agent.command.launcher and not self._caller.fetch:
            return self._skipped(agent.command.launcher)
        began = time.monotonic()
        try:
            async with runtime.connect(self._spec(), _Nobody()) as session:
                self._facts["handshakeMs"] = round((time.monotonic() - began) * 1000)
                self._note_initialize(session.capabilities)
                await self._open(session)
        except BridgeError as error:
            if error.code == "auth_required":
                self._facts["loginState"] = "missing"
            return self._failed(error)
        return self._ok()

    def _spec(self) -> SessionSpec:
        definition, limits = self._agent.definition, self._caller.limits
        key = SessionKey.acp(definition.id, uuid4())
        mark = f"{key}.{uuid4().hex}"
        return SessionSpec(
            definition=definition,
            revision="",
            key=key,
            path=AgentPath(str(definition.id)),
            lineage=Lineage(),
            cwd=str(self._work),
            mcp_servers=definition.mcp_servers,
            env=child_environment(definition, self._caller.env, home=str(self._home), mark=mark),
            mark=mark,
            start_seconds=limits.start_seconds,
            cold_start_seconds=limits.cold_start_seconds,
        )

    async def _open(self, session: RuntimeSession) -> None:
        limit = self._caller.limits.start_seconds
        try:
            with anyio.fail_after(limit):
                await session.open(New())
        except TimeoutError:
            message = f"The agent did not answer session/new in {limit:g} s."
            raise BridgeError("start_timeout", message) from None
        definition = self._agent.definition
        self._facts |= {"mode": session.mode, "asks": asks(definition, session.mode)}
        if definition.facts.session_needs_login:
            self._facts["loginState"] = "present"
        try:
            with anyio.move_on_after(CLOSE_WAIT):
                await session.close()
        except BridgeError:
            return  # it is ended next, whatever it says to that

    def _note_initialize(self, result: Mapping[str, Any]) -> None:
        info = result.get("agentInfo")
        told = info if isinstance(info, dict) else {}
        self._facts |= {
            "agent": _text(told.get("name")),
            "version": _text(told.get("version")),
            "protocolVersion": result.get("protocolVersion"),
        }

    # What is said.

    def _answered(self) -> str:
        program, version = self._facts["agent"] or "it", self._facts["version"]
        shown = f"{program} {version or '(version unknown)'}"
        return f"{shown} answered in {self._facts['handshakeMs']} ms"

    def _failed(self, error: BridgeError) -> Check:
        check = failed("agent", str(self._agent.definition.id), error, self._facts)
        if self._facts["handshakeMs"] is None:
            return check
        return replace(check, message=f"{self._answered()}; {error.message}")

    def _skipped(self, launcher: str) -> Check:
        name = str(self._agent.definition.id)
        install = self._agent.definition.facts.install_hint
        message = f"not installed; a run would fetch it through {launcher}"
        trial = f"acpbridge doctor {name} tries it with its download."
        hint = f"{install}. {trial}" if install else trial
        return Check("agent", name, Status.SKIPPED, message, hint, facts=self._facts)

    def _ok(self) -> Check:
        facts, name = self._facts, str(self._agent.definition.id)
        message = (
            f"{self._answered()}; "
            f"login {_login(facts['loginState'], facts['login'])}; "
            f"mode {facts['mode'] or UNKNOWN} ({_asked(facts['asks'])})"
        )
        hint = ""
        if facts["loginState"] == UNKNOWN:
            say = f"acpbridge run --agent {name} 'Say hello'"
            hint = f"Only a prompt would tell whether it is logged in: {say}"
        return Check("agent", name, Status.OK, message, hint, facts=facts)


def _login(state: str, source: str) -> str:
    return state if source in (state, UNKNOWN) else f"{state} (source: {source})"


def _asked(asked: bool | None) -> str:  # noqa: FBT001 - yes, no, or nobody knows
    if asked is None:
        return "whether it asks is unknown"
    return "asks" if asked else "nobody is asked"


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _without_secrets(check: Check, redactor: Redactor) -> Check:
    """An agent may put what it was given into what it says."""
    said = {"message": check.message, "next": check.next, "facts": dict(check.facts)}
    clean = redactor.value(said)
    error = (
        None
        if check.error is None
        else BridgeError.from_json(redactor.value(check.error.to_json()))
    )
    return replace(check, **clean, error=error)
