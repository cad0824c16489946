"""`acpbridge config`: what the configuration file comes to."""

import os
from pathlib import Path

import click

from acpbridge.cli import options
from acpbridge.cli.output import fail, lines, print_json, say
from acpbridge.cli.root import paths
from acpbridge.errors import EXIT_OK


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

    Exit status: 0 it loads, 2 it does not.
    """
    from acpbridge.checking.bridge import check_config
    from acpbridge.checking.report import exit_status
    from acpbridge.redact import Redactor

    found = paths(ctx)
    if file is not None:
        if not file.exists():
            raise click.UsageError(f"There is no file {file}.", ctx)
        found = type(found)(found.home, file.absolute())
    result, loaded = check_config(found)
    if as_json:
        print_json({"checks": [result.to_json()]})
    elif result.error is not None:
        fail(result.error)
    else:
        click.echo(" ".join(lines(result.message)))
        redactor = Redactor(os.environ.items())
        for agent in () if loaded is None else loaded.agents.values():
            what = redactor.text(" ".join(agent.command)) or agent.entry or "as the catalogue says"
            mark = " (default)" if loaded is not None and agent is loaded.default else ""
            click.echo(f"  {agent.id}{mark}: {' '.join(lines(what))}")
        for warning in result.facts["warnings"]:
            say(f"warning: {' '.join(lines(warning))}", fg="yellow")
    return EXIT_OK if result.error is None else exit_status([result])
