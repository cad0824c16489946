"""Which program to start for an agent: as configured, as installed, or fetched by a launcher."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from acpbridge.config.recognise import better_command
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, AgentFacts, RuntimeKind
from acpbridge.transport.program import resolve_program

# Programs that download what they start, where it is not there yet.
LAUNCHERS: Final = frozenset({"npx", "bunx", "uvx"})

# How a start that failed may have had to do with the download.
_OF_THE_START: Final = frozenset({"start_timeout", "start_failed"})

# What any interpreter can run, of whatever version and with whatever installed.
START: Final = str(Path(__file__).parents[1] / "serving" / "start.py")


@dataclass(frozen=True, slots=True)
class Command:
    """An argv with its program resolved.

    Attributes:
        argv: program and arguments.
        launcher: the name of what may have to download the agent first, "" if nothing has to.
    """

    argv: tuple[str, ...]
    launcher: str = ""

    @property
    def cold(self) -> bool:
        """Whether the agent may have to be downloaded first."""
        return bool(self.launcher)

    def explain(self, error: BridgeError) -> BridgeError:
        """Return an error of the start that says what launched it, where something did."""
        if not self.launcher or error.code not in _OF_THE_START:
            return error
        message = f"{error.message} It was started through {self.launcher}, which may download it."
        hint = error.hint
        if hint == error.kind.hint:
            tries = "see whether it can be fetched at all"
            slow = "if it is only slow, raise limits.coldStartSeconds"
            hint = f"Run `{_words(self.argv, self.launcher)}` by hand to {tries}; {slow}."
        return BridgeError(error.code, message, hint=hint, data=error.data)


def command_for(definition: AgentDefinition, env: Mapping[str, str], cwd: str) -> Command:
    """Return the command of an agent: its own, else an installed binary, else npx or uvx.

    Raises:
        BridgeError: `agent_not_found`, saying what was looked for and what to install.
    """
    if definition.kind is RuntimeKind.PYTHON:
        python = _resolve(definition.python or sys.executable, env, cwd, definition)
        return Command((python, START, definition.entry))
    if definition.command:
        program, *rest = definition.command
        return Command((_resolve(program, env, cwd, definition), *rest), _launcher(program))
    facts = definition.facts
    for binary in facts.binaries:
        found = _find(binary, env, cwd)
        if found is not None:
            return Command((found, *facts.args))
    fetched = fetched_by(facts)
    launcher = None if fetched is None else _find(fetched[0], env, cwd)
    if fetched is None or launcher is None:
        raise _missing(definition)
    return Command((launcher, *fetched[1:], *facts.args), fetched[0])


def fetched_by(facts: AgentFacts) -> tuple[str, ...] | None:
    """Return the words that fetch an agent and start it, without its arguments; None: no way."""
    if facts.npx_package:
        return ("npx", "-y", f"{facts.npx_package}@{facts.npx_version}")
    return ("uvx", facts.uvx_package) if facts.uvx_package else None


def _find(program: str, env: Mapping[str, str], cwd: str) -> str | None:
    try:
        return resolve_program(program, env, cwd)
    except BridgeError:
        return None


def _resolve(program: str, env: Mapping[str, str], cwd: str, definition: AgentDefinition) -> str:
    try:
        return resolve_program(program, env, cwd)
    except BridgeError as error:
        facts = definition.facts
        better = better_command(definition.command, facts.wrong_commands)
        right = [] if better is None else [f"The command that speaks ACP is: {better}."]
        hint = " ".join([*right, *filter(None, [facts.install_hint])])
        raise BridgeError(error.code, error.message, hint=hint or None, data=error.data) from None


def _missing(definition: AgentDefinition) -> BridgeError:
    facts, name = definition.facts, definition.id
    if not facts.binaries and fetched_by(facts) is None:
        message = f"There is no known program for the agent {name}."
        hint = (
            "Give the command with which it speaks ACP in config.yaml: "
            f"agents: {{list: [{{id: {name}, runtime: {{command: [PROGRAM, ARGUMENT]}}}}]}}"
        )
        return BridgeError("agent_not_found", message, hint=hint)
    fetched = fetched_by(facts)
    looked = [*facts.binaries, *([] if fetched is None else [fetched[0]])]
    message = f"The agent {name} is not installed: {' or '.join(looked)} is not on the PATH."
    return BridgeError("agent_not_found", message, hint=facts.install_hint or None)


def _launcher(program: str) -> str:
    name = program.rpartition("/")[2]
    return name if name in LAUNCHERS else ""


def _words(argv: tuple[str, ...], launcher: str) -> str:
    return " ".join((launcher, *argv[1:]))
