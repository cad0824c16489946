"""`acpbridge config`: what the configuration file comes to."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from acpbridge.cli import options
from acpbridge.cli.output import fail, lines, print_json, say
from acpbridge.cli.root import paths

if TYPE_CHECKING:
    from acpbridge.config.snapshot import Config


@click.group(epilog="\b\nExample:\n  acpbridge config check")
def config() -> None:
    """Look at the configuration."""


@config.command(
    short_help="Load a configuration and say what is in it.",
    epilog="\b\nExamples:\n  acpbridge config check\n  acpbridge config check ./config.yaml --json",
)
@click.argument("file", required=False, type=click.Path(dir_okay=False, path_type=Path))
@options.as_json
@click.pass_context
def check(ctx: click.Context, file: Path | None, *, as_json: bool) -> int:
    """Load FILE, or the configuration in use, and say what is in it or what is wrong with it.

    So it does with the policy.yaml beside it. Exit status: 0 both load, 2 one does not.
    """
    from acpbridge.checking.bridge import check_config, check_policy
    from acpbridge.checking.report import exit_status

    found = paths(ctx)
    if file is not None:
        if not file.exists():
            raise click.UsageError(f"There is no file {file}.", ctx)
        found = type(found)(found.home, file.absolute())
    of_config, loaded = check_config(found)
    checks = [of_config, check_policy(found)]
    if as_json:
        print_json({"checks": [check.to_json() for check in checks]})
        return exit_status(checks)
    for check in checks:
        if check.error is not None:
            fail(check.error)
            continue
        click.echo(" ".join(lines(check.message)))
        if check is of_config and loaded is not None:
            _show(loaded)
    return exit_status(checks)


def _show(config: "Config") -> None:
    """Say what is in a configuration, and what is doubtful in it."""
    from acpbridge.redact import Redactor

    redactor = Redactor(os.environ.items())
    for agent in config.agents.values():
        what = redactor.text(" ".join(agent.command)) or agent.entry or "as the catalogue says"
        mark = " (default)" if agent is config.default else ""
        click.echo(f"  {agent.id}{mark}: {' '.join(lines(what))}")
    for warning in config.warnings:
        say(f"warning: {' '.join(lines(warning))}", fg="yellow")
