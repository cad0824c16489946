"""A router with everything real below it but the agents: those are scripted, in memory.

`Runtime` here is a second implementation of the seam. What an agent does with a prompt is its
first word; `Diary` says what was done to agents, and lets a test wait for it.
"""

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import anyio
import anyio.lowlevel
import pytest

from acpbridge.config.snapshot import Config, Limits
from acpbridge.controller.census import ProcessInfo
from acpbridge.controller.strays import Unowned
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.events import Update
from acpbridge.model.faults import Faults, no_faults
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.permission import (
    Decision,
    Option,
    OptionKind,
    PermissionAsk,
    PermissionRequest,
    Question,
    ToolKind,
    ToolSubject,
)
from acpbridge.model.requesters import Requester, Role
from acpbridge.model.sessions import SessionState
from acpbridge.model.settings import Settings
from acpbridge.permissions.audit import Audit
from acpbridge.permissions.broker import PermissionBroker
from acpbridge.router import mains
from acpbridge.router.api import RunReceipt, RunRequest, RunResult
from acpbridge.router.places import Places
from acpbridge.router.router import Router
from acpbridge.router.scribe import Scribe
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.router.surroundings import Surroundings
from acpbridge.router.turns import Turn
from acpbridge.router.view import DaemonInfo
from acpbridge.runtimes.base import Load, New, Opening, Resume, SessionHost, SessionSpec, TurnResult
from acpbridge.store.ledger import Ledger
from acpbridge.store.sessionlog import SessionLog

OPERATOR = Requester(Role.OPERATOR, pid=7, uid=1000, client_id="terminal")
ALLOW = Option("yes", "Yes", OptionKind.ALLOW_ONCE)
REJECT = Option("no", "No", OptionKind.REJECT_ONCE)
FAKE = AgentId("fake")

# How a report of acpbridge begins.
REPORT = "What follows is a report"

# Generous: what must not hang, is noticed all the same.
PATIENCE = 18.0

# What an agent gets that is stopped without a word about grace.
OWN_GRACE = 0.05


def agent_in(key: SessionKey) -> Requester:
    return Requester(Role.AGENT, key, pid=9, uid=1000, client_id="inside")


async def refused(code: str, awaitable: Awaitable[Any]) -> BridgeError:
    """Check that something is refused, with a code."""
    with pytest.raises(BridgeError) as caught:
        await awaitable
    assert caught.value.code == code
    return caught.value


async def until(condition: Callable[[], Any]) -> None:
    """Let everything else go on until a condition holds; the caller's time limit is the bound."""
    while not condition():
        await anyio.lowlevel.checkpoint()


@dataclass
class SteppedClock:
    """A clock that stands still until a test moves it; `sleeps` counts who began to wait for it."""

    seconds: float = 1000.0
    sleeps: int = 0
    _moved: anyio.Event = field(default_factory=anyio.Event)

    def advance(self, seconds: float) -> None:
        self.seconds += seconds
        self._moved.set()
        self._moved = anyio.Event()

    async def sleep(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError(seconds)  # as anyio.sleep does
        end = self.seconds + seconds
        self.sleeps += 1
        while self.seconds < end:
            await self._moved.wait()

    def wall(self) -> datetime:
        return datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

    def monotonic(self) -> float:
        return self.seconds


class Ids:
    def uuid4(self) -> UUID:
        return uuid4()


@dataclass
class Diary:
    lines: list[str] = field(default_factory=list)

    def note(self, line: str) -> None:
        self.lines.append(line)

    async def has(self, line: str, times: int = 1) -> None:
        await until(lambda: self.lines.count(line) >= times)


@dataclass
class Script:
    """How agents behave that are started from now on.

    Attributes:
        starts: `ok`, `fail`, `fault`, `hang`, or `hold` (fail once released): what a start does.
        opens: what comes of an opening: "ok", "hang", or an error's code, by its kind.
        caps: which ways to reopen are advertised.
        survives: a stop proves nothing: the pid is reported as left.
        refuses: nothing can be chosen.
        hears: what an agent does with the report of a run that it had given away, as a prompt; it
            counts for those too that are up already.
    """

    starts: str = "ok"
    opens: dict[type[New | Load | Resume], str] = field(default_factory=dict)
    caps: tuple[str, ...] = ("resume",)
    survives: bool = False
    refuses: bool = False
    hears: str = "end end_turn"


class Agent:
    """One scripted agent that is up: a `RuntimeSession`."""

    def __init__(self, runtime: "Runtime", spec: SessionSpec, host: SessionHost) -> None:
        self.runtime = runtime
        self.spec = spec
        self.host = host
        self.script = replace(runtime.script)
        self.pid = next(runtime.pids)
        self.mode: str | None = "default"
        self.unasked = ""
        self.tool_running = False
        self.dead = anyio.Event()
        self.decisions: list[Decision] = []
        self.contents: list[tuple[Mapping[str, Any], ...]] = []
        self.word = ""
        self._reason: str | None = None
        self._over = anyio.Event()

    @property
    def capabilities(self) -> Mapping[str, Any]:
        resume: dict[str, Any] = {"resume": {}} if "resume" in self.script.caps else {}
        load = "load" in self.script.caps
        return {"agentCapabilities": {"loadSession": load, "sessionCapabilities": resume}}

    def note(self, what: str) -> None:
        self.runtime.diary.note(what)

    async def open(self, how: Opening) -> Mapping[str, Any]:
        known = "" if isinstance(how, New) else f" {how.session_id}"
        self.note(f"open {type(how).__name__}{known}")
        fate = self.script.opens.get(type(how), "ok")
        if fate == "hang":
            await anyio.sleep_forever()
        if fate != "ok":
            raise BridgeError(fate, f"refused: {fate}")
        return {"sessionId": f"s{self.pid}" if isinstance(how, New) else how.session_id}

    async def prompt(self, content: tuple[Mapping[str, Any], ...]) -> TurnResult:
        text = content[0]["text"]
        if text.startswith("[Inter-session message]"):
            text = text.partition("\n\n")[2]  # the envelope is not for the script
        if self.dead.is_set():
            raise BridgeError("agent_died", "The agent is gone.")
        self._begin()
        self.contents.append(content)
        self.note(f"prompt {text}")
        if text.startswith(REPORT):
            text = self.runtime.script.hears
        self.word = text.split()[0]
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._play, *text.split())
            await self._over.wait()
            tasks.cancel_scope.cancel()
        if self._reason is None:
            raise BridgeError("agent_died", "The agent died: exit status 1.")
        if self._reason == "!":
            raise BridgeError("turn_failed", "it went wrong")
        return TurnResult({"stopReason": self._reason, "usage": {"n": 1}}, self._reason)

    def _begin(self) -> None:
        self._reason, self._over = None, anyio.Event()

    async def _play(self, word: str, *rest: str) -> None:
        if word == "say":
            self.say(*rest)
            self.answer("end_turn")
        elif word == "end":
            self.answer(rest[0] if rest else "")
        elif word == "crash":
            self.die()
        elif word == "raise":
            self.answer("!")
        elif word == "ask":
            number = int(rest[0])
            async with anyio.create_task_group() as tasks:
                for n in range(number):
                    tasks.start_soon(self._ask, f"call-{n}")
            self.answer("end_turn")

    async def _ask(self, call: str) -> None:
        subject = ToolSubject(call, "Run", ToolKind.EXECUTE, known_kind=True)
        self.decisions.append(await self.host.ask(PermissionAsk(subject, (ALLOW, REJECT))))

    def say(self, text: str) -> None:
        block = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
        self.host.emit(Update(json.dumps(block).encode(), "agent_message_chunk"))

    def answer(self, reason: str) -> None:
        self._reason = reason
        self._over.set()

    def die(self) -> None:
        self.dead.set()
        self._over.set()

    def cancel(self) -> None:
        self.note("cancel")
        if self.word == "late":
            self.answer("end_turn")
        elif self.word not in ("deaf", "stone", "leaves"):
            self.answer("cancelled")

    async def apply(self, layers: Sequence[Settings]) -> tuple[Settings, ...]:
        told = [layer.to_json() for layer in layers]
        self.note(f"apply {json.dumps(told)}")
        if self.script.refuses:
            raise BridgeError("unsupported_control", "refused")
        return tuple(layers)

    async def set_mode(self, mode: str) -> None:
        self.mode = mode

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        raise BridgeError("method_not_found", method)

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        self.note(f"notify {method}")

    async def close(self) -> None:
        self.note("close")
        if self.word == "deaf":
            self.answer("cancelled")

    async def died(self) -> BaseException:
        await self.dead.wait()
        return BridgeError("agent_died", "The agent died: exit status 1.")

    async def stop(self, grace: float | None = None) -> tuple[int, ...]:
        self.note(f"stop {grace}")
        if self.word != "stone":
            self.die()  # its stdin was closed
        with anyio.move_on_after(OWN_GRACE if grace is None else grace):
            await self.dead.wait()
        self.die()
        return (self.pid,) if self.script.survives else ()


class Runtime:
    """Runs scripted agents, and is the kernel that one may ask about them."""

    def __init__(self) -> None:
        self.script = Script()
        self.diary = Diary()
        self.pids = count(100)
        self.running: dict[str, Agent] = {}
        self.strays: tuple[list[int], list[int]] = ([], [])
        self.most = 0
        self.specs: list[SessionSpec] = []
        self.released = anyio.Event()

    @asynccontextmanager
    async def connect(self, spec: SessionSpec, host: SessionHost) -> AsyncIterator[Agent]:
        agent = Agent(self, spec, host)
        name = str(spec.key)
        assert name not in self.running, "two processes of one session"
        self.running[name] = agent
        self.most = max(self.most, len(self.running))
        self.specs.append(spec)
        self.diary.note("start")
        try:
            if agent.script.starts == "hold":
                await self.released.wait()
            if agent.script.starts in ("fail", "hold"):
                raise BridgeError("start_failed", "boom")
            if agent.script.starts == "fault":
                raise ZeroDivisionError
            if agent.script.starts == "hang":
                await anyio.sleep_forever()
            yield agent
        finally:
            with anyio.CancelScope(shield=True):
                await agent.stop()
            if not agent.script.survives:
                del self.running[name]
            self.diary.note("gone")

    @property
    def keeper_pid(self) -> int:
        return 5

    @property
    def guard_pid(self) -> int:
        return 4

    def held(self, name: str) -> str | None:
        return "shim" if name in self.running else None

    async def unowned(self) -> list[Unowned]:
        return []

    async def end_unowned(self) -> tuple[list[int], list[int]]:
        return self.strays

    async def processes(self, name: str) -> list[ProcessInfo]:
        agent = self.running.get(name)
        if agent is None:
            return []
        return [_process(agent.pid + 1000, "shim"), _process(agent.pid, "agent")]

    async def trees(self, names: list[str]) -> dict[str, list[ProcessInfo]]:
        return {name: await self.processes(name) for name in names}

    async def alive(self, processes: list[ProcessInfo], named: Collection[int] = ()) -> list[int]:
        pids = {agent.pid for agent in self.running.values()}
        return [process.pid for process in processes if process.pid in pids]


def _process(pid: int, role: str) -> ProcessInfo:
    return ProcessInfo(pid, 1, 1, "fake", "sleeping", 1, 0.0, "2026-01-02T03:04:05+00:00", role)


@dataclass
class World:
    router: Router
    runtime: Runtime
    ledger: Ledger
    log: SessionLog
    broker: PermissionBroker
    services: Services
    clock: SteppedClock
    cwd: str
    audit: Path
    learned: list[Mapping[str, str]] = field(default_factory=list)

    @property
    def diary(self) -> Diary:
        return self.runtime.diary

    async def run(
        self, text: str, *, by: Requester = OPERATOR, key: SessionKey | None = None, **how: Any
    ) -> RunReceipt:
        how.setdefault("agent", "fake")
        how.setdefault("cwd", self.cwd)
        content = ({"type": "text", "text": text},)
        request = RunRequest(content, session="" if key is None else str(key), **how)
        return await self.router.run(request, by)

    async def done(self, text: str, **how: Any) -> tuple[RunReceipt, RunResult]:
        receipt = await self.run(text, **how)
        return receipt, await self.wait(receipt)

    async def wait(self, receipt: RunReceipt, by: Requester = OPERATOR) -> RunResult:
        return await self.router.wait(receipt.run_id, by)

    def session(self, key: SessionKey) -> Session:
        session = self.router._directory.get(key)
        assert session is not None
        return session

    def made(self) -> list[Session]:
        """Return the sessions but for the main ones that nobody has used."""
        return [session for session in self.router._directory if not mains.unused(session)]

    async def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the same sessions, for an operator."""
        made = {str(session.key) for session in self.made()}
        rows = await self.router.sessions(OPERATOR, everything=True)
        return [row for row in rows if row["key"] in made]

    def turn(self, key: SessionKey) -> Turn:
        turn = self.session(key).turn
        assert turn is not None
        return turn

    def agent(self, key: SessionKey) -> Agent:
        return self.runtime.running[str(key)]

    async def rest(self, key: SessionKey) -> SessionState:
        """Wait until a session's task has ended; return its state, and that the ledger has it."""
        session = self.session(key)
        if session._gone is not None:
            await session._gone.wait()
        stored = await self.ledger.session(key)
        assert stored is not None
        assert stored.state is session.record.state
        return session.record.state

    async def is_ready(self, key: SessionKey) -> None:
        """Wait until a session's process waits for the next turn."""
        session = self.session(key)
        await until(lambda: session._life is not None and session._life._idle_since is not None)

    async def events(self, key: SessionKey) -> list[dict[str, Any]]:
        """Return everything that the log has of a session."""
        await self.log.open(key)
        await self.log.committed(key) if self._behind(key) else None
        found: list[dict[str, Any]] = []
        async with self.log.follow(key) as follower:
            while len(found) < self.log.last_seq(key):
                found += [json.loads(line) for line in await follower.read()]
        return found

    def _behind(self, key: SessionKey) -> bool:
        stream = self.log._sessions[key].stream
        return stream.committed < stream.last

    async def types(self, key: SessionKey) -> list[str]:
        return [event["type"] for event in await self.events(key)]

    async def questions(self, number: int) -> list[Question]:
        await until(lambda: len(self.broker.questions()) >= number)
        return self.broker.questions()


@asynccontextmanager
async def world(
    path: Path,
    *,
    limits: Limits = Limits(),  # noqa: B008 -- frozen
    idle_ttl: float = 900.0,
    faults: Faults = no_faults,
    runtime: Runtime | None = None,
    patience: float = PATIENCE,
    more: Mapping[str, Any] | None = None,
    config: Config | None = None,
    **definition: Any,
) -> AsyncIterator[World]:
    clock, runtime = SteppedClock(), runtime or Runtime()
    cwd = path / "work"
    cwd.mkdir(exist_ok=True)
    fake = AgentDefinition(id=FAKE, command=("fake",), **definition)
    config = config or Config(agents={FAKE: fake}, limits=limits)
    audit = Audit.open(path / "audit.jsonl", boot_id="b", clock=clock, faults=faults)
    made: list[Router] = []

    def asked(question: Question) -> None:
        made[0].asked(question)

    def decided(request: PermissionRequest, decision: Decision) -> None:
        made[0].decided(request, decision)

    try:
        with anyio.fail_after(patience):
            async with (
                Ledger(path, faults) as ledger,
                SessionLog(path, clock, "epoch", lambda line: line, faults) as log,
            ):
                await ledger.recover("2026-01-02T03:04:05+00:00")
                broker = PermissionBroker(audit, clock, on_asked=asked, on_decided=decided)
                services = Services(
                    ledger=ledger,
                    log=log,
                    scribe=Scribe(),
                    broker=broker,
                    runtime=lambda _: runtime,
                    places=Places(
                        lambda: limits.max_processes, lambda: limits.max_concurrent_subagents
                    ),
                    clock=clock,
                    ids=Ids(),
                    faults=faults,
                    idle_ttl=lambda: idle_ttl,
                    sleep=clock.sleep,
                    **{"redact": lambda value: value, **(more or {})},
                )
                learned: list[Mapping[str, str]] = []
                around = Surroundings(
                    daemon=DaemonInfo(1, "epoch", "now", "0", str(path), "", "shim"),
                    config=lambda: config,
                    default_agent=lambda env, cwd: fake,
                    learn=learned.append,
                    notices=lambda: ["look here"],
                )
                async with Router(services, runtime, audit, around) as router:
                    made.append(router)
                    yield World(
                        router,
                        runtime,
                        ledger,
                        log,
                        broker,
                        services,
                        clock,
                        str(cwd),
                        path / "audit.jsonl",
                        learned,
                    )
    finally:
        audit.close()
