"""`acpbridge permissions grants` and `revoke`: what was allowed for longer than once."""

import click

from acpbridge.cli import moments, options
from acpbridge.cli.output import command_line, lines, print_json, say
from acpbridge.cli.reaching import connect_or_start
from acpbridge.cli.root import home, paths
from acpbridge.errors import EXIT_OK


@click.command(
    short_help="List what was allowed for longer than once.",
    epilog="\b\nExamples:\n  acpbridge permissions grants\n  acpbridge permissions grants --json",
)
@options.as_json
@click.pass_context
def grants(ctx: click.Context, *, as_json: bool) -> int:
    """List the grants that are in force: what a person allowed always, in one session.

    A grant covers exactly one command, or one tool on exactly these paths. It ends with its session
    or its agent, when it expires, or by `permissions revoke`, and it never outlives the daemon.
    """
    with connect_or_start(paths(ctx)) as client:
        found = client.call("grants")["grants"]
    if as_json:
        print_json({"grants": found})
        return EXIT_OK
    if not found:
        click.echo("no grant")
        return EXIT_OK
    now = moments.now()
    for grant in found:
        left = moments.time_left(grant["expiresAt"], now) or "a moment"
        uses = f"used {grant['uses']} times" if grant["uses"] != 1 else "used once"
        click.echo(f"{_line(grant['id'])}: {_line(grant['scope'])}")
        click.echo(f"  {_line(grant['sessionKey'])}, {uses}, by {_line(grant['by'])}, for {left}")
    say(f"end one with: {command_line(home(ctx), 'permissions', 'revoke', 'ID')}")
    return EXIT_OK


@click.command(
    short_help="End grants.",
    epilog="\b\nExamples:\n  acpbridge permissions revoke 1a2b3c4d",
)
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@options.as_json
@click.pass_context
def revoke(ctx: click.Context, *, ids: tuple[str, ...], as_json: bool) -> int:
    """End grants at once: what they covered is asked again.

    Exit status 4 if one of them is not in force; all the others are ended.
    """
    with connect_or_start(paths(ctx)) as client:
        revoked = client.call("revoke", ids=list(ids))["revoked"]
    if as_json:
        print_json({"revoked": revoked})
    else:
        for grant in revoked:
            click.echo(f"revoked {_line(grant['id'])}: {_line(grant['scope'])}")
    return EXIT_OK


def _line(value: object) -> str:
    return " ".join(lines(str(value)))
