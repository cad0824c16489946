"""`acpbridge doctor`: whether the bridge and the agents could work, and what to do if not."""

import os
from typing import TYPE_CHECKING

import click

from acpbridge.cli import options, tables
from acpbridge.cli.output import STDERR_LINES, lines, print_json, say, terminal_width
from acpbridge.cli.root import here, paths

if TYPE_CHECKING:
    from acpbridge.checking.report import Check
    from acpbridge.config.snapshot import Config
    from acpbridge.runtimes.inventory import Listed

_COLOURS = {"ok": "green", "failed": "red", "skipped": "yellow"}


@click.command(
    epilog="\b\nExamples:\n  acpbridge doctor\n  acpbridge doctor codex\n  acpbridge doctor --json"
)
@click.argument("agent", required=False, default="")
@options.as_json
@click.pass_context
def doctor(ctx: click.Context, agent: str, *, as_json: bool) -> int:
    """Check the bridge and AGENT, or all agents that are configured or installed.

    Each agent is started as a run would start it, but without the daemon, and opens one session in
    an empty temporary directory: that tells of a missing login and of the mode in which a person is
    asked. It gets no prompt. Then session, process and directory are removed. Without AGENT nothing
    is downloaded.

    Exit status: 0 all that was checked is usable, 2 the configuration is wrong, 4 no such agent,
    6 an agent is missing or does not start, 7 one needs a login, 8 the daemon cannot be reached.
    """
    from acpbridge.checking import bridge
    from acpbridge.checking.agents import check_agents
    from acpbridge.checking.report import exit_status
    from acpbridge.checking.trial import Caller

    found = paths(ctx)
    of_config, config = bridge.check_config(found)
    checks = [bridge.check_versions(), of_config, bridge.check_policy(found)]
    checks += [bridge.check_home(found), bridge.check_daemon(found)]
    if config is not None:
        caller = Caller(os.environ, config.limits, fetch=bool(agent))
        checks += check_agents(_chosen(agent, config), caller)
    if as_json:
        print_json({"checks": [check.to_json() for check in checks]})
    else:
        for check in checks:
            _show(check)
    return exit_status(checks)


def _chosen(agent: str, config: "Config") -> "list[Listed]":
    """Return the one that is named, else those that are configured or installed, else the demo."""
    from acpbridge.router.routes import find_agent
    from acpbridge.runtimes import inventory

    if agent:
        definition = find_agent(agent, config)
        configured = definition.id in config.agents
        look = inventory.look(definition, os.environ, here(), configured=configured, default=False)
        return [look]
    everyone = inventory.inventory(config, os.environ, here())
    found = [a for a in everyone if a.configured or a.launch == inventory.INSTALLED]
    return found or [a for a in everyone if a.default]


def _show(check: "Check") -> None:
    head = click.style(f"{check.status:7}", fg=_COLOURS[check.status])
    first, *more = lines(check.message)
    for row in tables.hanging(f"{head} {lines(check.id)[0]}: {first}", terminal_width(), ""):
        click.echo(row)
    for line in more:
        click.echo(f"        {line}")
    stderr = "" if check.error is None else check.error.data.get("stderr")
    if isinstance(stderr, str) and stderr.strip():
        click.echo("        its stderr:")
        for line in lines(stderr.strip())[-STDERR_LINES:]:
            click.echo(f"          {line}")
    for warning in check.facts.get("warnings", ()):
        say(f"warning: {' '.join(lines(str(warning)))}", fg="yellow")
    if check.next:
        click.echo(f"        next: {' '.join(lines(check.next))}")
