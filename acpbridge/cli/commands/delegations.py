"""`acpbridge delegations`: the work that agents have handed to one another, and `cancel`."""

from typing import Any

import click

from acpbridge.cli import moments, options
from acpbridge.cli.output import command_line, print_json, say, terminal_width
from acpbridge.cli.reaching import connect_or_start
from acpbridge.cli.root import home, paths
from acpbridge.cli.tables import hanging, shown
from acpbridge.errors import EXIT_FAILURE, EXIT_OK
from acpbridge.model.display import clip

# Of a task, where it only names a piece of work. Characters.
TASK = 200


@click.group(
    invoke_without_command=True,
    epilog="\b\nExamples:\n  acpbridge delegations\n  acpbridge delegations --all --json\n"
    "  acpbridge delegations cancel 1a2b3c4d-0000-4000-8000-000000000000",
)
@click.option("--all", "everything", is_flag=True, help="Also what has ended under this daemon.")
@options.as_json
@click.pass_context
def delegations(ctx: click.Context, *, everything: bool, as_json: bool) -> int:
    """List the work that agents have handed to others in the background.

    Each piece waits for its agent, is worked on, or its answer is being told to the session that
    had asked. What is under way outlives the daemon; the next one goes on with it.
    """
    if ctx.invoked_subcommand is not None:
        if everything or as_json:
            word = "--json" if as_json else "--all"
            raise click.UsageError(f"{word} goes behind {ctx.invoked_subcommand}.", ctx)
        return EXIT_OK
    with connect_or_start(paths(ctx)) as client:
        rows = client.call("tool/delegations", everything=everything)["delegations"]
    if as_json:
        print_json({"delegations": rows})
        return EXIT_OK
    if not rows:
        click.echo("no delegated work")
        return EXIT_OK
    for line in text(rows, terminal_width()):
        click.echo(line)
    say(f"end one with: {command_line(home(ctx), 'delegations', 'cancel', 'ID')}")
    return EXIT_OK


@delegations.command(
    short_help="End a piece of delegated work.",
    epilog="\b\nExamples:\n  acpbridge delegations cancel 1a2b3c4d-0000-4000-8000-000000000000",
)
@click.argument("id", metavar="ID")
@options.as_json
@click.pass_context
def cancel(ctx: click.Context, *, id: str, as_json: bool) -> int:
    """End a piece of delegated work, whether it waits or is worked on; its session is told.

    Exit status 1 if it has ended by itself, 4 if there is none of this id.
    """
    with connect_or_start(paths(ctx)) as client:
        told = client.call("tool/delegations", cancel=id)
    (row,) = (row for row in told["delegations"] if row["id"] == id)
    if as_json:
        print_json({"cancelled": told["cancelled"], "delegation": row})
    elif told["cancelled"]:
        click.echo(f"cancelled {shown(id)}")
    else:
        say(f"nothing to cancel: it is {shown(row['status'])}")
    return EXIT_OK if told["cancelled"] else EXIT_FAILURE


def text(rows: list[dict[str, Any]], width: int) -> list[str]:
    """Return the work as lines of a terminal, 0 columns for none."""
    out: list[str] = []
    for row in rows:
        age = moments.whole_seconds(row["ageSeconds"])
        out.append(f"{shown(row['id'])}: {shown(row['status'])}, {age}")
        where = "" if row["targetSessionKey"] is None else f" in {shown(row['targetSessionKey'])}"
        out += hanging(f"by {shown(row['targetAgentId'])}{where}", width)
        out += hanging(f"for {shown(row['sourceSessionKey'])}", width)
        out += hanging(f"task: {clip(shown(row['task']), TASK)}", width)
        if row["error"]:
            out += hanging(f"error: {clip(shown(row['error']), TASK)}", width)
    return out
