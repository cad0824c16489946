"""Where an agent's login comes from, and the command of its own that makes one.

It looks at names in the environment and at whether files are there; it reads no secret, and what
only a prompt would tell stays unknown.
"""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from acpbridge.config.environment import child_environment
from acpbridge.config.recognise import better_command
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.runtimes.command import LAUNCHERS, Command, command_for

UNKNOWN: Final = "unknown"
NOT_NEEDED: Final = "not needed"


def login_source(definition: AgentDefinition, caller: Mapping[str, str]) -> str:
    """Return `env:NAME`, `file:PATH`, `not needed`, or `unknown`.

    Args:
        definition: of the agent.
        caller: the environment of whoever would run it.
    """
    facts = definition.facts
    if facts.no_login:
        return NOT_NEEDED
    env = child_environment(definition, caller, home="", mark="")
    for name in facts.secret_names:
        if env.get(name):
            return f"env:{name}"
    for name in facts.login_files:
        first, _, rest = name.partition("/")
        place, below = (first[1:], rest) if first.startswith("$") else ("HOME", name)
        if env.get(place) and Path(env[place], below).is_file():
            return f"file:{Path(env[place], below)}"
    return UNKNOWN


def login_command(
    definition: AgentDefinition, method: str, env: Mapping[str, str], cwd: str
) -> Command:
    """Return the command by which a person logs in to an agent.

    Args:
        definition: of the agent.
        method: a way of its facts; "" where there is only one.
        env: in which the program is looked for.
        cwd: where it would start.

    Raises:
        BridgeError: `auth_required` with its hint where no command is known, `usage` for a wrong
            way, `agent_not_found`.
    """
    facts = definition.facts
    if not facts.logins:
        message = f"acpbridge knows no command that logs in to {definition.id}."
        raise BridgeError("auth_required", message, hint=facts.login_hint or None)
    chosen = method or (next(iter(facts.logins)) if len(facts.logins) == 1 else "")
    if chosen not in facts.logins:
        ways = " or ".join(f"--method {name}" for name in facts.logins)
        what = f"There is no login {method!r}" if method else "There are several logins"
        raise BridgeError("usage", f"{what} for {definition.id}.", hint=f"Give {ways}.")
    # The program alone: the arguments by which it speaks ACP are none of its login's.
    program = replace(definition, command=_program(definition), facts=replace(facts, args=()))
    found = command_for(program, env, cwd)
    return replace(found, argv=(*found.argv, *facts.logins[chosen]))


def _program(definition: AgentDefinition) -> tuple[str, ...]:
    command = definition.command
    if not command or better_command(command, definition.facts.wrong_commands) is not None:
        return ()
    return command if command[0].rpartition("/")[2] in {*LAUNCHERS, "node", "env"} else command[:1]
