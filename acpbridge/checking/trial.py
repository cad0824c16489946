"""The trial of one agent: it is started as a run would start it, and never prompted.

A session is opened in an empty directory, for that alone tells of a login that is missing and of
the mode in which a person is asked; it is closed again. Above is `agents`, which gives the place.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

import anyio

from acpbridge.checking.report import Check, Status, failed
from acpbridge.config.environment import child_environment
from acpbridge.config.snapshot import Limits
from acpbridge.errors import BridgeError
from acpbridge.model.events import Event
from acpbridge.model.keys import AgentPath, SessionKey
from acpbridge.model.permission import Decision, Effect, PermissionAsk, Reason
from acpbridge.model.sessions import Lineage
from acpbridge.runtimes.base import New, Runtime, RuntimeSession, SessionSpec
from acpbridge.runtimes.inventory import Listed, asks
from acpbridge.runtimes.logins import NOT_NEEDED, UNKNOWN

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

    def lost(self) -> None:
        """Nothing was asked."""

    async def call(self, method: str, params: Any) -> Any:
        """Serve nothing."""
        del params
        raise BridgeError("method_not_found", f"acpbridge does not serve {method}.")


class Trial:
    """One agent and what is seen of it.

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

    async def run(self, runtime: Runtime) -> Check:
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
