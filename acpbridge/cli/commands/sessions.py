"""`acpbridge sessions`: the list, `prune` and `export`. Quick but for `export`, which streams."""

import os
from pathlib import Path
from typing import Any, Final

import click

from acpbridge.cli import keys, moments, options, tables
from acpbridge.cli.output import on_terminal, print_json, say, terminal_width
from acpbridge.cli.reaching import connect_or_start
from acpbridge.cli.root import paths
from acpbridge.cli.spans import read_duration
from acpbridge.errors import EXIT_FAILURE, EXIT_OK
from acpbridge.model.sessions import LIVE_STATES, SessionState

# Events are deleted in steps between which the agents' own are written. Seconds.
PRUNE_LIMIT: Final = 600.0

STATES: Final = [state.value for state in SessionState if state not in LIVE_STATES]


@click.group(
    invoke_without_command=True,
    epilog="\b\nExamples:\n  acpbridge sessions\n  acpbridge sessions --all --cwd . --limit 5\n"
    "  acpbridge sessions prune --older-than 30d --dry-run\n"
    "  acpbridge sessions export 3f2a --output session.jsonl",
)
@click.option("--all", "everything", is_flag=True, help="Also those that have no process.")
@click.option("--agent", metavar="ID", help="Only those of this agent.")
@click.option("--cwd", metavar="DIR", help="Only those that work in this directory.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Only the N newest.")
@options.as_json
@click.pass_context
def sessions(
    ctx: click.Context,
    *,
    everything: bool,
    agent: str | None,
    cwd: str | None,
    limit: int | None,
    as_json: bool,
) -> int:
    """List the sessions that live; starts the daemon if none runs."""
    if ctx.invoked_subcommand is not None:
        return EXIT_OK
    where = "" if cwd is None else os.path.normpath(Path(cwd).expanduser().absolute())
    with connect_or_start(paths(ctx)) as client:
        found = client.call("sessions", all=everything, agent=agent or "", cwd=where, newest=limit)
    if as_json:
        print_json({"sessions": found["sessions"]})
    else:
        click.echo(tables.sessions_text(found["sessions"], moments.now(), terminal_width()))
        if not found["sessions"] and not everything:
            say("those without a process are listed by: acpbridge sessions --all", dim=True)
    return EXIT_OK


def _states(ctx: click.Context, param: click.Parameter, value: str | None) -> list[str] | None:
    """Return the states of a list with commas."""
    if value is None:
        return None
    words = [word.strip() for word in value.split(",")]
    wrong = [word for word in words if word not in STATES]
    if wrong:
        message = f"{wrong[0]!r} is none of: {', '.join(STATES)}."
        raise click.BadParameter(message, ctx, param)
    return words


@sessions.command(
    epilog="\b\nExamples:\n  acpbridge sessions prune --state closed\n"
    "  acpbridge sessions prune --older-than 30d --keep 10 --yes --json"
)
@click.option(
    "--older-than",
    callback=read_duration,
    metavar="AGE",
    help="Not used for so long: 12h, 30d, 4w.",
)
@click.option("--keep", type=click.IntRange(min=0), metavar="N", help="All but the N used last.")
@click.option(
    "--state",
    "states",
    metavar="A,B",
    callback=_states,
    help=f"Only those in these states: {', '.join(STATES)}.",
)
@click.option("--dry-run", is_flag=True, help="Show what would be deleted, and delete nothing.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@options.as_json
@click.pass_context
def prune(  # noqa: PLR0913 - one for each option
    ctx: click.Context,
    *,
    older_than: float | None,
    keep: int | None,
    states: list[str] | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> int:
    """Delete sessions that have no process, with their logs, for good.

    What is given must all be true of a session. One that has a process, or a turn to run, or
    below which anything lives, is never deleted.
    """
    if older_than is None and keep is None and states is None:
        raise click.UsageError("Give at least one of: --older-than, --keep, --state.", ctx)
    if not (dry_run or yes or on_terminal()):
        raise click.UsageError("Nobody can be asked here: give --yes or --dry-run.", ctx)
    with connect_or_start(paths(ctx)) as client:
        wanted: dict[str, Any] = {"olderThan": older_than, "keep": keep, "states": states}
        if not yes:
            shown = client.call("prune", limit=PRUNE_LIMIT, dryRun=True, **wanted)
            if dry_run or not shown["pruned"]:
                return _print_pruned(shown, as_json=as_json)
            say(tables.pruned_text(shown["pruned"], moments.now(), terminal_width(2)))
            many = len(shown["pruned"])
            if not click.confirm(f"Delete these {many} sessions and their logs?", err=True):
                say("nothing was deleted")
                return EXIT_FAILURE
            # What was shown is deleted and nothing else, whatever came to fit meanwhile.
            wanted = {"keys": [row["key"] for row in shown["pruned"]]}
        done = client.call("prune", limit=PRUNE_LIMIT, dryRun=dry_run, **wanted)
    return _print_pruned(done, as_json=as_json)


def _print_pruned(receipt: Any, *, as_json: bool) -> int:
    if as_json:
        print_json(receipt)
        return EXIT_OK
    if receipt["pruned"]:
        click.echo(tables.pruned_text(receipt["pruned"], moments.now(), terminal_width()))
    number = len(receipt["pruned"])
    say(f"{number} would be deleted" if receipt["dryRun"] else f"{number} deleted")
    return EXIT_OK


@sessions.command(
    epilog="\b\nExamples:\n  acpbridge sessions export 3f2a > session.jsonl\n"
    "  acpbridge sessions export --last --format md --output session.md"
)
@keys.one_key(keys.NEWEST)
@click.option("--output", metavar="FILE", help="A file of the owner's alone (default: stdout).")
@click.option(
    "--format",
    "shape",
    type=click.Choice(["jsonl", "md"]),
    default="jsonl",
    show_default=True,
    help="jsonl: the record and each event, a line each. md: to be read.",
)
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.pass_context
def export(
    ctx: click.Context, key: str, *, last: bool, output: str | None, shape: str, force: bool
) -> int:
    """Write all that is on record of a session, without secrets.

    The stored copy has no secrets that acpbridge knew; those of your own environment are taken
    out as well.
    """
    keys.check(ctx, key, last=last)
    if force and output is None:
        raise click.UsageError("--force goes with --output.", ctx)
    from acpbridge.cli.export import export_to

    target = None if output is None else Path(output).expanduser().absolute()
    return export_to(paths(ctx), key, last=last, shape=shape, target=target, force=force)
