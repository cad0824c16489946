"""`acpbridge login`: an agent's own login, on this terminal."""

import os
from pathlib import Path

import click

from acpbridge.cli.output import say
from acpbridge.cli.root import here, paths
from acpbridge.errors import EXIT_OK, BridgeError


@click.command(
    epilog="\b\nExamples:\n  acpbridge login codex\n  acpbridge login claude --method claudeai"
)
@click.argument("agent")
@click.option("--method", default="", metavar="NAME", help="Which login, where there are several.")
@click.pass_context
def login(ctx: click.Context, agent: str, *, method: str) -> int:
    """Run AGENT's own login on this terminal; acpbridge sees nothing of what is typed.

    Exit status: 0 the login ended well, 7 it did not, or only a person knows how to log in there.
    """
    from acpbridge.config.environment import HOME, MARK
    from acpbridge.daemon.configfile import ConfigFile
    from acpbridge.router.routes import find_agent
    from acpbridge.runtimes.logins import login_command
    from acpbridge.transport.foreground import run_in_foreground

    if os.environ.get(MARK):
        raise BridgeError("permission_denied", "No login is made from inside a supervised agent.")
    definition = find_agent(agent, ConfigFile(paths(ctx).config).first())
    facts = definition.facts
    if facts.no_login:
        say(f"{definition.id} needs no login")
        return EXIT_OK
    # The person could type it all the same: nothing of their environment is kept from it, for a
    # login may open a browser.
    env = {**os.environ, **facts.env_set, **definition.env_set}
    env.pop(HOME, None)
    # What a launcher finds in the current directory may be anybody's.
    home = env.get("HOME") or "/"
    command = login_command(definition, method, env, here())
    say(f"running: {' '.join((Path(command.argv[0]).name, *command.argv[1:]))}")
    try:
        status = run_in_foreground(command.argv, env, home)
    except OSError as error:
        message = f"{command.argv[0]} cannot be run: {error.strerror}."
        raise BridgeError("start_failed", message, hint=facts.install_hint or None) from None
    if status == 0:
        return EXIT_OK
    message = f"The login of {definition.id} did not succeed (exit status {status})."
    raise BridgeError("auth_required", message, hint=facts.login_hint or None)
