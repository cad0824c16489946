"""`acpbridge tree`: who started whom, and how each stands. Quick; starts a daemon if need be."""

import click

from acpbridge.cli import families, moments, options
from acpbridge.cli.output import print_json, say, terminal_width
from acpbridge.cli.reaching import connect_or_start
from acpbridge.cli.root import paths
from acpbridge.errors import EXIT_OK


@click.command(
    epilog="\b\nExamples:\n  acpbridge tree\n  acpbridge tree 3f2a\n  acpbridge tree --all --json"
)
@click.argument("key", required=False, default="")
@click.option("--all", "everything", is_flag=True, help="Also families that have ended.")
@options.as_json
@click.pass_context
def tree(ctx: click.Context, key: str, *, everything: bool, as_json: bool) -> int:
    """Show who started whom: each session below the one whose agent started it.

    A family is shown whole as long as anything of it is active. KEY, or any unique part of one,
    shows that session and what lies below it, whether it is active or not.
    """
    with connect_or_start(paths(ctx)) as client:
        found = client.call("tool/tree", key=key, all=everything)
    if as_json:
        print_json(found)
        return EXIT_OK
    click.echo(families.tree_text(found["families"], moments.now(), terminal_width()))
    if not found["families"] and not everything:
        say("those that have ended are shown by: acpbridge tree --all", dim=True)
    return EXIT_OK
