"""Which program to start for an agent: as configured, as installed, or fetched by npx."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from acpbridge.config.catalogue import better_command
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.transport.child import resolve_program

# What any interpreter can run, of whatever version and with whatever installed.
START: Final = str(Path(__file__).parents[1] / "serving" / "start.py")


@dataclass(frozen=True, slots=True)
class Command:
    """An argv with its program resolved; `cold` if it may have to be downloaded first."""

    argv: tuple[str, ...]
    cold: bool = False


def command_for(definition: AgentDefinition, env: Mapping[str, str], cwd: str) -> Command:
    """Return the command of an agent: its own, else an installed binary, else npx.

    Raises:
        BridgeError: `agent_not_found`, saying what was looked for and what to install.
    """
    if definition.kind is RuntimeKind.PYTHON:
        python = _resolve(definition.python or sys.executable, env, cwd, definition)
        return Command((python, START, definition.entry))
    if definition.command:
        program, *rest = definition.command
        return Command((_resolve(program, env, cwd, definition), *rest), _is_npx(program))
    facts = definition.facts
    for binary in facts.binaries:
        try:
            return Command((resolve_program(binary, env, cwd), *facts.args))
        except BridgeError:
            continue
    if facts.npx_package:
        try:
            npx = resolve_program("npx", env, cwd)
        except BridgeError:
            raise _missing(definition) from None
        package = f"{facts.npx_package}@{facts.npx_version}"
        return Command((npx, "-y", package, *facts.args), cold=True)
    raise _missing(definition)


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
    names = " or ".join(definition.facts.binaries) or "no known program"
    message = f"The agent {definition.id} is not installed: {names} is not on the PATH."
    return BridgeError("agent_not_found", message, hint=definition.facts.install_hint or None)


def _is_npx(program: str) -> bool:
    return program.rpartition("/")[2] == "npx"
