"""The composition root: the only module that names the concrete classes of every floor.

It reads the configuration file, wires ledger, log, broker, supervisor, runtimes, router and server
together, and runs the daemon from its lock to its last breath.
"""

import gc
import os
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import structlog

from acpbridge import __version__, logs
from acpbridge.config import catalogue
from acpbridge.config.snapshot import Config
from acpbridge.controller.bounds import bounds
from acpbridge.controller.containment import containment_of
from acpbridge.controller.errands import Errands
from acpbridge.controller.journal import Journal, without_journal
from acpbridge.controller.supervisor import Supervisor
from acpbridge.controller.sweep import sweep
from acpbridge.daemon import killed, standing
from acpbridge.daemon.arming import faults_from
from acpbridge.daemon.configfile import ConfigFile
from acpbridge.daemon.duties import Duties
from acpbridge.daemon.lifetime import Lifetime
from acpbridge.daemon.lock import DaemonLock
from acpbridge.daemon.manager import READY, STOPPING, Manager
from acpbridge.daemon.obstacles import close_to_others, put_aside
from acpbridge.daemon.paths import Paths, make_private
from acpbridge.daemon.server import Server
from acpbridge.daemon.standing import keep_listening
from acpbridge.daemon.system import RandomIds, SystemClock
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.faults import Faults, no_faults
from acpbridge.model.keys import AgentId
from acpbridge.model.permission import Decision, PermissionRequest, Question
from acpbridge.permissions.audit import Audit
from acpbridge.permissions.broker import PermissionBroker
from acpbridge.redact import Redactor
from acpbridge.router.places import Places
from acpbridge.router.router import Router
from acpbridge.router.scribe import Scribe
from acpbridge.router.services import Services
from acpbridge.router.surroundings import Surroundings
from acpbridge.router.view import DaemonInfo
from acpbridge.runtimes.acp import AcpRuntime
from acpbridge.runtimes.inventory import default_agent
from acpbridge.runtimes.python import Agent, PythonRuntime
from acpbridge.store.ledger import Ledger
from acpbridge.store.sessionlog import SessionLog
from acpbridge.transport import unix
from acpbridge.transport.child import raise_descriptor_limit
from acpbridge.transport.helpers import kernel
from acpbridge.transport.tasks import background

log = structlog.get_logger(__name__)

# A clean stop has this long to end every tree; what is left then dies with the channels. Seconds.
STOP_LIMIT: Final = 8.0


class _Sink:
    """Takes what the broker tells before there is a router to tell it to."""

    router: Router | None = None
    errands: Errands | None = None

    def asked(self, question: Question) -> None:
        if self.router is None:
            return
        self.router.asked(question)
        if self.errands is not None and not self.router.attended(question.request.session):
            self.errands.call(question)

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
        uncalled: how calling a person failed last; empty otherwise.
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
    uncalled: list[str] = field(default_factory=list)

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

    def called(self, problem: str) -> None:
        """Take note of how calling a person went."""
        self.uncalled[:] = [problem] if problem else []
        if problem:
            log.warning("nobody was called", problem=problem)

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
    faults: Faults = no_faults


def daemon_info(paths: Paths) -> DaemonInfo:
    """Return what this process says of itself as the daemon of a state directory."""
    return DaemonInfo(
        pid=os.getpid(),
        epoch=uuid.uuid4().hex[:12],
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        version=__version__,
        home=str(paths.home),
        socket=str(paths.socket),
        containment=containment_of(paths.home).name,
    )


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
    notices: Sequence[str] = (),
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
        notices: what an operator should know already.
    """
    redactor = Redactor(os.environ.items())
    base = _Base(paths, configuration, info, faults, redactor, agents or {})
    log_to(redactor.value)
    for notice in notices:
        base.notices.append(notice)
        log.warning("notice", text=notice)
    containment = containment_of(paths.home)
    if Journal.damaged(paths.journal):
        base.notices.append(without_journal(paths.journal))
        log.warning("the process journal is damaged", path=str(paths.journal))
    swept = await anyio.to_thread.run_sync(sweep, paths.journal, str(paths.home))
    killed_now = {*swept.killed, *await anyio.to_thread.run_sync(containment.sweep)}
    if killed_now:
        ended = f"{len(killed_now)} processes of an earlier daemon were ended"
        base.notices.append(f"{ended}: {', '.join(map(str, sorted(killed_now)))}")
    clock = base.clock
    supervisor = Supervisor(
        paths.journal, containment, redactor.text, faults, nofile=nofile, swept=swept
    )
    session_log = _session_log(base)
    audit = _audit(base)
    try:
        errands = _errands(base, supervisor)
        async with Ledger(paths.home, faults) as ledger, session_log, supervisor, errands:
            now = clock.wall().isoformat(timespec="milliseconds")
            await ledger.recover(now, killed.noted(paths.killed))
            killed.forget(paths.killed, faults)
            sink = _Sink()
            services = _services(base, ledger, session_log, supervisor, _broker(base, audit, sink))
            around = Surroundings(
                daemon=info,
                config=base.config,
                default_agent=default_agent,
                learn=base.learn,
                notices=lambda: [*_notices(base, ledger, session_log), *supervisor.notices],
            )
            async with Router(services, supervisor, audit, around) as router:
                sink.router, sink.errands = router, errands
                yield Opened(router, supervisor, audit, faults)
    finally:
        audit.close()


def _audit(base: _Base) -> Audit:
    path, boot, redact = base.paths.audit, kernel.boot_id(), base.redactor.value
    try:
        return Audit.open(path, boot_id=boot, clock=base.clock, redact=redact, faults=base.faults)
    except OSError as error:
        hint = f"Free disk space, or make sure that {path} can be written; then run again."
        message = f"The audit {path} cannot be opened: {error.strerror}."
        raise BridgeError("store_full", message, hint=hint) from None


def _session_log(base: _Base) -> SessionLog:
    return SessionLog(
        base.paths.home,
        base.clock,
        base.info.epoch,
        base.redactor.json_line,
        base.faults,
        on_failure=base.store_failed,
    )


def _errands(base: _Base, supervisor: Supervisor) -> Errands:
    return Errands(
        supervisor,
        command=lambda: base.configuration.current().notify.command,
        env=os.environ,
        home=str(base.paths.home),
        redact=base.redactor.text,
        told=base.called,
    )


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
        killed_past=lambda key: killed.noted(base.paths.killed).get(key),
        bounds=lambda: bounds(
            config().limits.max_processes_per_session, config().limits.max_rss_mb
        ),
        usage=supervisor.usage,
        stall=lambda: config().limits.stall_seconds,
    )


def _notices(base: _Base, ledger: Ledger, session_log: SessionLog) -> list[str]:
    problem = [base.configuration.problem] if base.configuration.problem else []
    return [
        *base.notices,
        *base.trouble,
        *base.uncalled,
        *problem,
        *ledger.notices,
        *session_log.notices,
    ]


@asynccontextmanager
async def serve_clients(
    paths: Paths,
    opened: Opened,
    configuration: ConfigFile,
    stop: Callable[[bool], None],
    stopping: Callable[[], bool] = lambda: False,
    mine: Callable[[], bool] = lambda: False,
) -> AsyncIterator[Server]:
    """Serve clients on the control socket beside the body.

    Args:
        paths: of the state directory.
        opened: what they come to.
        configuration: read already.
        stop: what their wish to stop the daemon comes to; True: at once.
        stopping: whether it is on its way out.
        mine: whether a socket that was removed may be bound again.
    """

    async def denied(pid: int, uid: int) -> None:
        await opened.audit.note("denied_connect", {"pid": pid, "uid": uid})

    duties = Duties(
        owner_of=opened.supervisor.owner_of,
        vanished=opened.router.vanished,
        stop=stop,
        denied=denied,
        limit=configuration.current().limits.max_message_bytes,
        stopping=stopping,
        notify=lambda: configuration.current().notify.terminal,
        faults=opened.faults,
    )
    server = Server(opened.router, duties)
    listener = await unix.listen(paths.socket)
    async with (
        listener,
        background(lambda: keep_listening(paths.socket, listener, server.listen, mine)),
    ):
        yield server


async def run_daemon(paths: Paths, ready: Callable[[], None], log_file: Path | None = None) -> None:
    """Run the daemon of a state directory until it is told to stop.

    Args:
        paths: of the state directory.
        ready: called once clients can connect.
        log_file: where a detached daemon logs; without one it logs to stderr.

    Raises:
        BridgeError: `daemon_running`, `not_our_socket`, `state_directory`, `config_error`.
    """
    manager = Manager.taken_from(os.environ, os.getpid())
    faults, notices = faults_from(os.environ)
    make_private(paths.home)
    lock = DaemonLock(paths.lock, faults=faults)
    lock.acquire()
    notices += [*put_aside(paths), *close_to_others(paths)]
    configuration = ConfigFile(paths.config)
    configuration.first()
    make_private(paths.socket.parent)
    nofile = raise_descriptor_limit()
    info = daemon_info(paths)
    log_to = logs.to_stderr if log_file is None else partial(logs.to_file, log_file, faults=faults)
    opening = open_router(
        paths, configuration, info, faults, nofile=nofile, log_to=log_to, notices=notices
    )
    lifetime = Lifetime(detached=log_file is not None)
    async with opening as opened:
        serving = serve_clients(
            *(paths, opened, configuration, lifetime.stop, lifetime.stopping, lock.in_place)
        )
        async with serving as server:

            async def leave_when_idle() -> None:
                await lifetime.leave_when_idle(
                    lambda: configuration.current().daemon.idle_exit_seconds,
                    server.idle_since,
                    opened.router.busy,
                )

            async def leave_when_displaced() -> None:
                await standing.leave_when_displaced(lock, lambda: lifetime.stop(False))  # noqa: FBT003

            duties = (leave_when_idle, leave_when_displaced, manager.keep_telling)
            async with background(lifetime.obey_signals, *duties):
                # What is there by now stays: to look through it for garbage took 0.1 s each time,
                # for which everybody waited.
                gc.freeze()
                ready()
                manager.tell(READY)
                log.info("ready", pid=info.pid, home=info.home)
                await lifetime.over()
                log.info("stopping")
                manager.tell(STOPPING)
                with anyio.move_on_after(STOP_LIMIT, shield=True) as patience:
                    await opened.router.stop()
                if patience.cancelled_caught:
                    log.warning("the stop was cut short", seconds=STOP_LIMIT)
        if lock.in_place():  # else the socket is another daemon's
            paths.socket.unlink(missing_ok=True)
    log.info("stopped")
