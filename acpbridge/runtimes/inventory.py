"""Which agents there are on this machine: configured, known, and the demo; and what each would run.

Above are the commands that list and check agents, and the choice of the default. It looks for
programs and files, and starts nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from acpbridge.config import catalogue, recognise
from acpbridge.config.environment import child_environment
from acpbridge.config.snapshot import Config
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.permissions import policy
from acpbridge.runtimes.command import Command, command_for, fetched_by
from acpbridge.runtimes.logins import NOT_NEEDED, UNKNOWN, login_source

# How an agent would be launched, beside the names of launchers.
PYTHON: Final = "python"
CONFIGURED: Final = "configured"
INSTALLED: Final = "installed"
MISSING: Final = "missing"


@dataclass(frozen=True, slots=True)
class Listed:
    """One agent as it could be run now.

    Attributes:
        definition: of the agent.
        configured: whether it is an entry of the configuration.
        default: whether it runs when none is named.
        command: what would run; None: nothing could.
        problem: why nothing could.
        login: where its login comes from.
    """

    definition: AgentDefinition
    configured: bool
    default: bool
    command: Command | None
    problem: BridgeError | None
    login: str

    @property
    def launch(self) -> str:
        """How it would be launched: a word of this module, the name of a launcher, or `unknown`."""
        definition = self.definition
        if self.command is None:
            known = definition.command or definition.facts.binaries or fetched_by(definition.facts)
            return MISSING if known else UNKNOWN
        if self.command.launcher:
            return self.command.launcher
        if definition.kind is RuntimeKind.PYTHON:
            return PYTHON
        return CONFIGURED if definition.command else INSTALLED

    def to_json(self) -> dict[str, Any]:
        """Return the row of `agents`."""
        definition, problem = self.definition, self.problem
        return {
            "id": definition.id,
            "aliases": aliases_of(definition),
            "description": definition.description or definition.facts.description,
            "configured": self.configured,
            "default": self.default,
            "runtime": definition.kind,
            "launch": self.launch,
            "command": None if self.command is None else list(self.command.argv),
            "cold": self.command is not None and self.command.cold,
            "missing": None
            if problem is None
            else {"message": problem.message, "hint": problem.hint},
            "mode": definition.wanted_mode,
            "asks": asks(definition),
            "login": self.login,
        }


def asks(definition: AgentDefinition, mode: str | None = None) -> bool | None:
    """Tell whether a person is asked in a mode, else in the wanted one; None: nobody knows."""
    mode = mode or definition.wanted_mode
    facts = definition.facts
    if mode is not None and (mode in facts.bypass_modes or policy.names_bypass(mode)):
        return False
    if mode is None or facts.asking_mode is None:
        return None
    return mode == facts.asking_mode


def aliases_of(definition: AgentDefinition) -> list[str]:
    """Return the other names of a catalogue agent."""
    return [alias for alias, name in catalogue.ALIASES.items() if name == definition.id]


def look(
    definition: AgentDefinition,
    caller: Mapping[str, str],
    cwd: str,
    *,
    configured: bool,
    default: bool,
) -> Listed:
    """Return an agent as whoever has this environment would run it in this directory."""
    env = child_environment(definition, caller, home="", mark="")
    command, problem = None, None
    try:
        command = command_for(definition, env, definition.workspace or cwd)
    except BridgeError as error:
        problem = error
    login = login_source(definition, caller)
    return Listed(definition, configured, default, command, problem, login)


def inventory(config: Config, caller: Mapping[str, str], cwd: str) -> list[Listed]:
    """Return all agents: the configured ones, then the catalogue's, then the demo."""
    chosen = (config.default or default_agent(caller, cwd)).id
    definitions = dict(config.agents)
    for name in (*catalogue.CATALOGUE, catalogue.DEMO.id):
        found = recognise.entry(name)
        if found is not None:
            definitions.setdefault(found.id, found)
    return [
        look(d, caller, cwd, configured=d.id in config.agents, default=d.id == chosen)
        for d in definitions.values()
    ]


def default_agent(env: Mapping[str, str], cwd: str) -> AgentDefinition:
    """Return the first catalogue agent that is installed and logged in, else the demo."""
    for name in catalogue.CATALOGUE:
        definition = recognise.entry(name)
        if definition is None or login_source(definition, env) in (UNKNOWN, NOT_NEEDED):
            continue
        try:
            if not command_for(definition, env, cwd).cold:
                return definition
        except BridgeError:
            continue
    return catalogue.DEMO
