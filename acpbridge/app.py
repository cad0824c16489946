"""The composition root: the only module that names the concrete classes of every floor.

It reads the configuration file, wires ledger, log, broker, supervisor, runtimes, router and server
together, and runs the daemon from its lock to its last breath.
"""

import os
import signal
import time
import uuid
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import structlog

from acpbridge import __version__, logs
from acpbridge.config import catalogue
from acpbridge.config.load import load
from acpbridge.config.snapshot import Config
from acpbridge.controller.containment import ShimContainment
from acpbridge.controller.supervisor import Supervisor
from acpbridge.controller.sweep import sweep
from acpbridge.daemon.lock import DaemonLock
from acpbridge.daemon.paths import Paths, make_private
from acpbridge.daemon.server import Duties, Server
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.keys import AgentId
from acpbridge.model.permission import Decision, PermissionRequest, Question
from acpbridge.model.ports import Faults, no_faults
from acpbridge.permissions.audit import Audit
from acpbridge.permissions.broker import PermissionBroker
from acpbridge.redact import Redactor
from acpbridge.router.places import Places
from acpbridge.router.router import Router
from acpbridge.router.scribe import Scribe
from acpbridge.router.services import Services
from acpbridge.router.setting import Setting
from acpbridge.router.view import DaemonInfo
from acpbridge.runtimes.acp import AcpRuntime
from acpbridge.runtimes.command import command_for
from acpbridge.runtimes.python import Agent, PythonRuntime
from acpbridge.store.ledger import Ledger
from acpbridge.store.sessionlog import SessionLog
from acpbridge.transport import keeper as kernel
from acpbridge.transport import unix
from acpbridge.transport.child import raise_descriptor_limit
from acpbridge.transport.tasks import background

log = structlog.get_logger(__name__)

# A clean stop has this long to end every tree; what is left then dies with the channels. Seconds.
STOP_LIMIT: Final = 8.0

# Four times what the reader of the text takes, should every character be a long one. Bytes.
CONFIG_LIMIT: Final = 1024 * 1024


class SystemClock:
    """The clocks of the machine."""

    def wall(self) -> datetime:
        """Return the wall-clock time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds of CLOCK_MONOTONIC."""
        return time.monotonic()


class RandomIds:
    """Unique names from the kernel's random numbers."""

    def uuid4(self) -> uuid.UUID:
        """Return a version 4 uuid."""
        return uuid.uuid4()


def faults_from(environ: Mapping[str, str]) -> Faults:
    """Return the fault points that `ACPBRIDGE_FAULT=POINT:N` arms: the N-th pass is fatal."""
    armed = environ.get("ACPBRIDGE_FAULT")
    if not armed:
        return no_faults
    wanted, _, number = armed.partition(":")
    if number and not number.isdecimal():
        raise BridgeError("usage", "ACPBRIDGE_FAULT is written POINT:N, with a number N.")
    left = [int(number or 1)]

    def pass_point(point: str) -> None:
        if point == wanted:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return pass_point


class ConfigFile:
    """The configuration in force: read again when the file changes, the last good one if it is bad.

    Args:
        path: of the file; without one the defaults hold.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, ...] | None = None
        self._config = Config()
        self.problem = ""

    def first(self) -> Config:
        """Read the file for the first time.

        Raises:
            BridgeError: `config_error`, with file, line and key.
        """
        self._stamp = self._look()
        self._config = self._read(first=True)
        return self._config

    def current(self) -> Config:
        """Return what is in force now."""
        stamp = self._look()
        if stamp != self._stamp:
            self._stamp = stamp
            try:
                self._config, self.problem = self._read(first=False), ""
            except BridgeError as error:
                self.problem = f"the last good configuration is in force: {error.message}"
        return self._config

    def _look(self) -> tuple[int, ...] | None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        except OSError as error:
            return (error.errno or 0,)  # reading it says what is wrong
        return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino

    def _read(self, *, first: bool) -> Config:
        try:
            # A FIFO would hold the daemon up, and a device might never end.
            if self._path.exists() and not self._path.is_file():
                raise BridgeError("config_error", f"{self._path} is not a file.")
            with self._path.open("rb") as file:
                data = file.read(CONFIG_LIMIT + 1)
            if len(data) > CONFIG_LIMIT:
                raise BridgeError("config_error", f"{self._path}: over {CONFIG_LIMIT} bytes.")
            text = data.decode("utf-8-sig")
        except FileNotFoundError:
            if first:
                return Config()
            raise BridgeError("config_error", f"{self._path} is gone.") from None
        except UnicodeDecodeError as error:
            line = error.object.count(b"\n", 0, error.start) + 1
            message = f"{self._path}, line {line}: not UTF-8; save the file as UTF-8."
            raise BridgeError("config_error", message) from None
        except OSError as error:
            message = f"{self._path} cannot be read: {error.strerror}."
            raise BridgeError("config_error", message) from None
        return load(text, str(self._path), str(Path.home()))


def default_agent(env: Mapping[str, str], cwd: str) -> AgentDefinition:
    """Return the first catalogue agent that is installed and logged in, else the demo."""
    for name in catalogue.CATALOGUE:
        definition = catalogue.entry(name)
        if definition is None or not _logged_in(definition, env):
            continue
        try:
            if not command_for(definition, env, cwd).cold:
                return definition
        except BridgeError:
            continue
    return catalogue.DEMO


def _logged_in(definition: AgentDefinition, env: Mapping[str, str]) -> bool:
    facts = definition.facts
    if any(env.get(name) for name in facts.secret_names):
        return True
    for name in facts.login_files:
        first, _, rest = name.partition("/")
        place, below = (first[1:], rest) if first.startswith("$") else ("HOME", name)
        if env.get(place) and Path(env[place], below).is_file():
            return True
    return False


class _Sink:
    """Takes what the broker tells before there is a router to tell it to."""

    router: Router | None = None

    def asked(self, question: Question) -> None:
        if self.router is not None:
            self.router.asked(question)

    def decided(self, request: PermissionRequest, decision: Decision) -> None:
        if self.router is not None:
            self.router.decided(request, decision)


@dataclass(frozen=True, slots=True)
class _Base:
    """What everything that is wired here shares.

    Attributes:
        paths: of the state directory.
        configuration: read already.
        info: what status says of the daemon.
        faults: named points for tests.
        redactor: knows the secrets.
        agents: that are code of this process, where it is not the daemon's.
        notices: what an operator should know, for as long as the daemon runs.
        trouble: the store's, while it cannot write; empty otherwise.
    """

    paths: Paths
    configuration: ConfigFile
    info: DaemonInfo
    faults: Faults
    redactor: Redactor
    agents: Mapping[AgentId, Agent]
    clock: SystemClock = field(default_factory=SystemClock)
    notices: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)

    def config(self) -> Config:
        """Return what is in force now; agents that are code of this process come first."""
        config = self.configuration.current()
        own = {name: _in_process(name) for name in self.agents}
        others = {name: agent for name, agent in config.agents.items() if name not in own}
        return replace(config, agents={**own, **others}) if own else config

    def learn(self, env: Mapping[str, str]) -> None:
        """Take in the secrets of a caller's environment."""
        for name, value in env.items():
            self.redactor.add(name, value)

    def store_failed(self, error: BridgeError | None) -> None:
        """Take note that the log cannot be written, or that it can again."""
        self.trouble[:] = [] if error is None else [error.message]
        log.warning("store", trouble=self.trouble)


@dataclass(frozen=True, slots=True)
class Opened:
    """What is up below the faces."""

    router: Router
    supervisor: Supervisor
    audit: Audit


def _in_process(name: AgentId) -> AgentDefinition:
    return AgentDefinition(name, name=str(name), kind=RuntimeKind.PYTHON, facts=catalogue.PYTHON)


@asynccontextmanager
async def open_router(  # noqa: PLR0913 - what differs between the daemon and an embedding program
    paths: Paths,
    configuration: ConfigFile,
    info: DaemonInfo,
    faults: Faults,
    *,
    nofile: int | None = None,
    agents: Mapping[AgentId, Agent] | None = None,
    log_to: Callable[[Callable[[Any], Any]], None] = logs.to_stderr,
) -> AsyncIterator[Opened]:
    """Bring up everything below the faces, in the state directory that is already locked.

    Args:
        paths: of the state directory.
        configuration: read already.
        info: what status says of the daemon.
        faults: named points for tests.
        nofile: the agents' soft limit of open files, where this process raised its own.
        agents: that are code of this process; never the daemon's.
        log_to: sets up where this process logs, given what takes out the secrets.
    """
    redactor = Redactor(os.environ.items())
    base = _Base(paths, configuration, info, faults, redactor, agents or {})
    log_to(redactor.value)
    left = await anyio.to_thread.run_sync(sweep, paths.journal, str(paths.home))
    if left:
        base.notices.append(f"{len(left)} processes of an earlier daemon were ended: {left}")
    clock = base.clock
    supervisor = Supervisor(paths.journal, ShimContainment(), redactor.text, faults, nofile=nofile)
    session_log = SessionLog(
        paths.home,
        clock,
        info.epoch,
        redactor.json_line,
        faults,
        on_failure=base.store_failed,
    )
    audit = Audit.open(
        paths.audit, boot_id=kernel.boot_id(), clock=clock, redact=redactor.value, faults=faults
    )
    try:
        async with Ledger(paths.home, faults) as ledger, session_log, supervisor:
            await ledger.recover(clock.wall().isoformat(timespec="milliseconds"))
            sink = _Sink()
            services = _services(base, ledger, session_log, supervisor, _broker(base, audit, sink))
            setting = Setting(
                daemon=info,
                config=base.config,
                default_agent=default_agent,
                learn=base.learn,
                notices=lambda: _notices(base, ledger, session_log),
            )
            async with Router(services, supervisor, audit, setting) as router:
                sink.router = router
                yield Opened(router, supervisor, audit)
    finally:
        audit.close()


def _broker(base: _Base, audit: Audit, sink: _Sink) -> PermissionBroker:
    return PermissionBroker(
        audit,
        base.clock,
        deadline=base.configuration.current().limits.permission_seconds,
        on_asked=sink.asked,
        on_decided=sink.decided,
        faults=base.faults,
    )


def _services(
    base: _Base,
    ledger: Ledger,
    session_log: SessionLog,
    supervisor: Supervisor,
    broker: PermissionBroker,
) -> Services:
    config = base.configuration.current
    runtime = AcpRuntime(supervisor, config().limits.max_message_bytes)
    own = {name: PythonRuntime(agent) for name, agent in base.agents.items()}
    return Services(
        ledger=ledger,
        log=session_log,
        scribe=Scribe(),
        broker=broker,
        # A Python agent of the daemon is a child process that speaks ACP, like any other.
        runtime=lambda definition: own.get(definition.id, runtime),
        places=Places(lambda: config().limits.max_processes),
        clock=base.clock,
        ids=RandomIds(),
        faults=base.faults,
        idle_ttl=lambda: config().limits.idle_ttl_seconds,
        redact=base.redactor.value,
    )


def _notices(base: _Base, ledger: Ledger, session_log: SessionLog) -> list[str]:
    problem = [base.configuration.problem] if base.configuration.problem else []
    return [*base.notices, *base.trouble, *problem, *ledger.notices, *session_log.notices]


@asynccontextmanager
async def serve_clients(
    paths: Paths, opened: Opened, configuration: ConfigFile, stop: Callable[[bool], None]
) -> AsyncIterator[None]:
    """Serve clients on the control socket beside the body.

    Args:
        paths: of the state directory.
        opened: what they come to.
        configuration: read already.
        stop: what their wish to stop the daemon comes to; True: at once.
    """

    async def denied(pid: int, uid: int) -> None:
        await opened.audit.note("denied_connect", {"pid": pid, "uid": uid})

    duties = Duties(
        owner_of=opened.supervisor.owner_of,
        vanished=opened.router.vanished,
        stop=stop,
        denied=denied,
        limit=configuration.current().limits.max_message_bytes,
    )
    server = Server(opened.router, duties)
    listener = await unix.listen(paths.socket)
    async with listener, background(lambda: server.listen(listener)):
        yield


async def run_daemon(paths: Paths, ready: Callable[[], None]) -> None:
    """Run the daemon of a state directory until it is told to stop.

    Args:
        paths: of the state directory.
        ready: called once clients can connect.

    Raises:
        BridgeError: `daemon_running`, `not_our_socket`, `config_error`.
    """
    make_private(paths.home)
    lock = DaemonLock(paths.lock)
    lock.acquire()
    configuration = ConfigFile(paths.config)
    configuration.first()
    make_private(paths.socket.parent)
    nofile = raise_descriptor_limit()
    info = DaemonInfo(
        pid=os.getpid(),
        epoch=uuid.uuid4().hex[:12],
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        version=__version__,
        home=str(paths.home),
        socket=str(paths.socket),
        containment=ShimContainment.name,
    )
    faults = faults_from(os.environ)
    async with open_router(paths, configuration, info, faults, nofile=nofile) as opened:
        stopping = anyio.Event()

        def stop(force: bool) -> None:  # noqa: FBT001 - one of two words on the wire
            if force:
                _leave_now()
            stopping.set()

        async with (
            serve_clients(paths, opened, configuration, stop),
            background(lambda: _obey_signals(stopping)),
        ):
            ready()
            log.info("ready", pid=info.pid, home=info.home)
            await stopping.wait()
            log.info("stopping")
            with anyio.move_on_after(STOP_LIMIT, shield=True):
                await opened.router.stop()
    paths.socket.unlink(missing_ok=True)
    log.info("stopped")


async def _obey_signals(stopping: anyio.Event) -> None:
    """The first signal stops politely, the second at once."""
    with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
        async for _ in signals:
            if stopping.is_set():
                _leave_now()
            stopping.set()


def _leave_now() -> None:
    """End at once: the channels close, and every shim kills its tree without grace."""
    os._exit(1)
