"""`acpbridge runs`: what was asked and what came of it, and the completions that are stuck."""

from typing import Any

import click

from acpbridge.cli import families, moments, options
from acpbridge.cli.output import print_json, say, terminal_width
from acpbridge.cli.reaching import connect_or_start
from acpbridge.cli.root import paths
from acpbridge.errors import EXIT_OK


class _Runs(click.Group):
    """A group that takes a key where no command of it is named."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        named = next((word for word in args if word in self.commands), None)
        if named is None:
            ctx.allow_interspersed_args = True  # a key may stand before the options
        elif args[0] == named:
            args = ["", *args]
        else:
            raise click.UsageError(f"What is for {named} goes behind it.", ctx)
        return super().parse_args(ctx, args)


@click.group(
    cls=_Runs,
    invoke_without_command=True,
    subcommand_metavar="[COMMAND]",
    epilog="\b\nExamples:\n  acpbridge runs\n  acpbridge runs 3f2a --json\n"
    "  acpbridge runs --all --limit 20\n  acpbridge runs deliveries",
)
@click.argument("key", required=False, default="")
@click.option("--all", "everything", is_flag=True, help="Also those that ended a day ago or more.")
@click.option(
    "--limit",
    type=click.IntRange(min=1, max=1000),
    default=100,
    show_default=True,
    metavar="N",
    help="Only the N accepted last.",
)
@options.as_json
@click.pass_context
def runs(ctx: click.Context, key: str, *, everything: bool, limit: int, as_json: bool) -> int:
    """List runs with how they ended, the one accepted last at the end.

    KEY, or any unique part of one, lists all runs of that session and of those below it. DELIVERY
    says how far the completion of a run has come that another agent is to hear of.
    """
    if ctx.invoked_subcommand is not None:
        return EXIT_OK
    with connect_or_start(paths(ctx)) as client:
        found = client.call("tool/runs", key=key, all=everything, newest=limit)
    if as_json:
        print_json(found)
        return EXIT_OK
    click.echo(families.runs_text(found["runs"], moments.now(), terminal_width()))
    if not found["runs"] and not (everything or key):
        say("those that ended earlier are listed by: acpbridge runs --all", dim=True)
    return EXIT_OK


@runs.command(
    short_help="List completions to come and those that are stuck.",
    epilog="\b\nExamples:\n  acpbridge runs deliveries\n  acpbridge runs deliveries --all --json",
)
@click.option("--all", "everything", is_flag=True, help="Also those that are over.")
@options.as_json
@click.pass_context
def deliveries(ctx: click.Context, *, everything: bool, as_json: bool) -> int:
    """List completions that another agent has still to hear of, and those that are stuck.

    One that is `blocked` is not tried again by itself: `runs retry` has it told again, `runs
    dismiss` gives it up.
    """
    return _deliveries(ctx, "list", (), everything=everything, as_json=as_json)


@runs.command(
    short_help="Have completions told again that are stuck.",
    epilog="\b\nExample:\n  acpbridge runs retry announce:1a2b3c4d-0000-4000-8000-000000000000",
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@options.as_json
@click.pass_context
def retry(ctx: click.Context, ids: tuple[str, ...], *, as_json: bool) -> int:
    """Have completions told again that are stuck; what was heard already is heard twice."""
    return _deliveries(ctx, "retry", ids, everything=False, as_json=as_json)


@runs.command(
    epilog="\b\nExample:\n  acpbridge runs dismiss announce:1a2b3c4d-0000-4000-8000-000000000000"
)
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@options.as_json
@click.pass_context
def dismiss(ctx: click.Context, ids: tuple[str, ...], *, as_json: bool) -> int:
    """Give completions up: nobody is told of them any more."""
    return _deliveries(ctx, "dismiss", ids, everything=False, as_json=as_json)


def _deliveries(
    ctx: click.Context, action: str, ids: tuple[str, ...], *, everything: bool, as_json: bool
) -> int:
    wanted: dict[str, Any] = {"action": action, "ids": list(ids), "everything": everything}
    with connect_or_start(paths(ctx)) as client:
        found = client.call("tool/deliveries", **wanted)
    if as_json:
        print_json(found)
    else:
        rows = found["deliveries"]
        click.echo(families.deliveries_text(rows, moments.now(), terminal_width()))
    return EXIT_OK
