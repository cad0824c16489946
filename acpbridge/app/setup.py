"""What a composition is given, and the little state that all its parts share."""

import os
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

import structlog

from acpbridge import __version__
from acpbridge.config import catalogue
from acpbridge.config.snapshot import Config
from acpbridge.controller.containment import containment_of
from acpbridge.daemon.configfile import ConfigFile
from acpbridge.daemon.paths import Paths
from acpbridge.daemon.policyfile import PolicyFile
from acpbridge.daemon.system import SystemClock
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.faults import Faults, no_faults
from acpbridge.model.keys import AgentId
from acpbridge.redact import Redactor
from acpbridge.router.view import DaemonInfo
from acpbridge.runtimes.python import Agent

log = structlog.get_logger(__name__)

# A clean stop has this long to end every tree; what is left then dies with the channels. Seconds.
STOP_LIMIT: Final = 8.0


@dataclass(frozen=True, slots=True)
class Setup:
    """What differs between the daemon and a program that embeds a bridge.

    Attributes:
        paths: of the state directory, which is locked already.
        configuration: read already.
        policy: read already.
        info: what status says of the daemon.
        faults: named points for tests.
        agents: that are code of this process; never the daemon's.
        nofile: the agents' soft limit of open files, where this process raised its own.
        notices: what an operator should know already.
    """

    paths: Paths
    configuration: ConfigFile
    policy: PolicyFile
    info: DaemonInfo
    faults: Faults = no_faults
    agents: Mapping[AgentId, Agent] = field(default_factory=dict)
    nofile: int | None = None
    notices: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Base:
    """What everything that is wired here shares.

    Attributes:
        setup: what was given.
        redactor: knows the secrets.
        notices: what an operator should know, for as long as this process runs.
        trouble: the store's, while it cannot write; empty otherwise.
        uncalled: how calling a person failed last; empty otherwise.
    """

    setup: Setup
    redactor: Redactor
    clock: SystemClock = field(default_factory=SystemClock)
    notices: list[str] = field(default_factory=list)
    trouble: list[str] = field(default_factory=list)
    uncalled: list[str] = field(default_factory=list)

    def config(self) -> Config:
        """Return what is in force now; agents that are code of this process come first."""
        config = self.setup.configuration.current()
        own = {name: _in_process(name) for name in self.setup.agents}
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
