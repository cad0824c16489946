"""Opens everything below the faces: store, broker, supervisor, runtimes and router, wired together.

Above are `daemon`, and `embed` in somebody's program.
"""

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import anyio
import anyio.to_thread
import structlog

from acpbridge import logs
from acpbridge.app.policing import Policing
from acpbridge.app.recovering import recover
from acpbridge.app.setup import Base, Setup
from acpbridge.app.toolserver import tool_server
from acpbridge.config.environment import plain_environment
from acpbridge.controller.bounds import bounds
from acpbridge.controller.containment import ShimContainment, containment_of
from acpbridge.controller.errands import Errands
from acpbridge.controller.journal import Journal, without_journal
from acpbridge.controller.supervisor import Supervisor
from acpbridge.controller.sweep import Swept, sweep
from acpbridge.daemon import killed
from acpbridge.daemon.system import RandomIds
from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import Decision, PermissionRequest, Question
from acpbridge.permissions.audit import Audit
from acpbridge.permissions.broker import PermissionBroker
from acpbridge.permissions.grants import Grants
from acpbridge.permissions.judging import Judging
from acpbridge.redact import Redactor
from acpbridge.router.places import Places
from acpbridge.router.router import Router
from acpbridge.router.scribe import Scribe
from acpbridge.router.services import Services
from acpbridge.router.surroundings import Surroundings
from acpbridge.runtimes.acp import AcpRuntime
from acpbridge.runtimes.inventory import default_agent
from acpbridge.runtimes.python import PythonRuntime
from acpbridge.store.ledger import Ledger
from acpbridge.store.sessionlog import SessionLog
from acpbridge.transport.helpers import kernel

log = structlog.get_logger(__name__)

# The start and the end wait for the audit's disk for so long at most. Seconds.
_TELL_SECONDS = 2.0


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

    def attended(self, key: SessionKey) -> int:
        return 0 if self.router is None else self.router.attended(key)

    def persons_roots(self, key: SessionKey) -> tuple[str, ...] | None:
        return () if self.router is None else self.router.persons_roots(key)

    def decided(self, request: PermissionRequest, decision: Decision) -> None:
        if self.router is not None:
            self.router.decided(request, decision)


@dataclass(frozen=True, slots=True)
class Opened:
    """What is up below the faces."""

    router: Router
    supervisor: Supervisor
    audit: Audit


@asynccontextmanager
async def open_router(
    setup: Setup, log_to: Callable[[Callable[[Any], Any]], None] = logs.to_stderr
) -> AsyncIterator[Opened]:
    """Bring up everything below the faces.

    Args:
        setup: where, and how.
        log_to: sets up where this process logs, given what takes out the secrets.
    """
    base = Base(setup, Redactor(os.environ.items()))
    paths, faults = setup.paths, setup.faults
    log_to(base.redactor.value)
    for notice in setup.notices:
        base.notices.append(notice)
        log.warning("notice", text=notice)
    containment = containment_of(paths.home)
    swept = await _end_the_earlier(base, containment)
    supervisor = Supervisor(
        paths.journal, containment, base.redactor.text, faults, nofile=setup.nofile, swept=swept
    )
    session_log = _session_log(base)
    audit = _audit(base)
    try:
        errands = _errands(base, supervisor)
        async with _ledger(base) as ledger, session_log, supervisor, errands:
            now = base.clock.wall().isoformat(timespec="milliseconds")
            await recover(ledger, audit, paths, now)
            killed.forget(paths.killed, faults)
            sink = _Sink()
            policing = Policing(setup.policy, audit.note)
            await policing.shown()  # the audit has it from the start
            broker = _broker(base, audit, sink, policing)
            services = _services(base, ledger, session_log, supervisor, broker)
            services = replace(services, audited=audit.note, attended=sink.attended)
            around = Surroundings(
                daemon=setup.info,
                config=base.config,
                default_agent=default_agent,
                learn=base.learn,
                notices=lambda: [*_notices(base, ledger, session_log), *supervisor.notices],
                policy=policing.shown,
                plain_environment=lambda: plain_environment(os.environ),
                tool_server=partial(tool_server, paths.home),
            )
            async with Router(services, supervisor, audit, around) as router:
                sink.router, sink.errands = router, errands
                await _tell(audit, base, "daemon_started")
                try:
                    yield Opened(router, supervisor, audit)
                finally:
                    await _tell(audit, base, "daemon_stopped")
    finally:
        audit.close()


async def _tell(audit: Audit, base: Base, kind: str) -> None:
    """Have the audit know since when, and until when, it has all that happened."""
    info = base.setup.info
    fields = {"pid": info.pid, "version": info.version, "epoch": info.epoch}
    with anyio.move_on_after(_TELL_SECONDS, shield=True):
        try:
            await audit.note(kind, {**fields, "torn_bytes": audit.torn_bytes})
        except BridgeError as error:
            log.warning("the audit was not told", kind=kind, code=error.code)


async def _end_the_earlier(base: Base, containment: ShimContainment) -> Swept:
    """End what an earlier daemon left, and say so."""
    paths = base.setup.paths
    if Journal.damaged(paths.journal):
        base.notices.append(without_journal(paths.journal))
        log.warning("the process journal is damaged", path=str(paths.journal))
    swept = await anyio.to_thread.run_sync(sweep, paths.journal, str(paths.home))
    killed_now = {*swept.killed, *await anyio.to_thread.run_sync(containment.sweep)}
    if killed_now:
        ended = f"{len(killed_now)} processes of an earlier daemon were ended"
        base.notices.append(f"{ended}: {', '.join(map(str, sorted(killed_now)))}")
    return swept


def _audit(base: Base) -> Audit:
    path, boot, redact = base.setup.paths.audit, kernel.boot_id(), base.redactor.value
    try:
        return Audit.open(
            path, boot_id=boot, clock=base.clock, redact=redact, faults=base.setup.faults
        )
    except OSError as error:
        hint = f"Free disk space, or make sure that {path} can be written; then run again."
        message = f"The audit {path} cannot be opened: {error.strerror}."
        raise BridgeError("store_full", message, hint=hint) from None


def _ledger(base: Base) -> Ledger:
    return Ledger(base.setup.paths.home, base.setup.faults, base.redactor.value)


def _session_log(base: Base) -> SessionLog:
    return SessionLog(
        base.setup.paths.home,
        base.clock,
        base.setup.info.epoch,
        base.redactor.json_line,
        base.setup.faults,
        on_failure=base.store_failed,
        searcher=base.redactor,
    )


def _errands(base: Base, supervisor: Supervisor) -> Errands:
    return Errands(
        supervisor,
        command=lambda: base.setup.configuration.current().notify.command,
        env=os.environ,
        home=str(base.setup.paths.home),
        redact=base.redactor.text,
        told=base.called,
    )


def _broker(base: Base, audit: Audit, sink: _Sink, policing: Policing) -> PermissionBroker:
    config = base.setup.configuration.current
    grants = Grants(base.clock, lambda: config().limits.grant_seconds)
    return PermissionBroker(
        audit,
        base.clock,
        judge=Judging(policing.current, grants.verdict, sink.persons_roots).judge,
        grants=grants,
        deadline=config().limits.permission_seconds,
        on_asked=sink.asked,
        on_decided=sink.decided,
        faults=base.setup.faults,
    )


def _services(
    base: Base,
    ledger: Ledger,
    session_log: SessionLog,
    supervisor: Supervisor,
    broker: PermissionBroker,
) -> Services:
    config = base.setup.configuration.current
    runtime = AcpRuntime(
        supervisor, config().limits.max_message_bytes, base.setup.faults, base.learn
    )
    own = {name: PythonRuntime(agent) for name, agent in base.setup.agents.items()}
    return Services(
        ledger=ledger,
        log=session_log,
        scribe=Scribe(),
        broker=broker,
        # A Python agent of the daemon is a child process that speaks ACP, like any other.
        runtime=lambda definition: own.get(definition.id, runtime),
        places=Places(
            lambda: config().limits.max_processes,
            lambda: config().limits.max_concurrent_subagents,
        ),
        clock=base.clock,
        ids=RandomIds(),
        faults=base.setup.faults,
        idle_ttl=lambda: config().limits.idle_ttl_seconds,
        redact=base.redactor.value,
        killed_past=lambda key: killed.noted(base.setup.paths.killed).get(key),
        bounds=lambda: bounds(
            config().limits.max_processes_per_session, config().limits.max_rss_mb
        ),
        usage=supervisor.usage,
        stall=lambda: config().limits.stall_seconds,
        announce=lambda: config().limits.announce_seconds,
    )


def _notices(base: Base, ledger: Ledger, session_log: SessionLog) -> list[str]:
    problem = [base.setup.configuration.problem] if base.setup.configuration.problem else []
    return [
        *base.notices,
        *base.trouble,
        *base.uncalled,
        *problem,
        *ledger.notices,
        *session_log.notices,
    ]
