"""`acpbridge restart`: a new process for the same session, and the proof that it answers."""

from typing import Final

import click

from acpbridge.cli import keys, options
from acpbridge.cli.caller import environment
from acpbridge.cli.output import print_json, say
from acpbridge.cli.reaching import connect_or_start
from acpbridge.cli.root import paths
from acpbridge.cli.tables import shown
from acpbridge.errors import EXIT_OK

# A turn's ladder, a polite end, the wait for a place, a cold start and its session. Seconds.
RESTART_LIMIT: Final = 900.0


@click.command(
    epilog="\b\nExamples:\n  acpbridge restart 3f2a\n  acpbridge restart --last --force --json"
)
@keys.one_key(keys.NEWEST)
@click.option("--force", is_flag=True, help="Cancel the turn that runs, and those behind it.")
@click.option(
    "--fresh", is_flag=True, help="Begin anew if the agent cannot take up the conversation."
)
@options.as_json
@click.pass_context
def restart(
    ctx: click.Context, key: str, *, last: bool, force: bool, fresh: bool, as_json: bool
) -> int:
    """Give a session a new process; a session that was refused after failures is tried again.

    The old process is ended politely with all that it started, sessions first. It is done once the
    new agent has answered and its session is open; it then waits for a prompt as long as any other.
    If the agent cannot take up the earlier conversation, nothing is begun anew without --fresh.

    Exit status: 0 it answers, 1 a turn runs (cancel it, or --force) or the session is closed,
    4 no such session, or its conversation cannot be taken up, 6 the agent could not be started,
    7 it needs a login.
    """
    keys.check(ctx, key, last=last)
    with connect_or_start(paths(ctx)) as client:
        name = keys.meant(client, key, last=last, on_record=True)
        receipt = client.call(
            "restart", limit=RESTART_LIMIT, key=name, env=environment(), force=force, fresh=fresh
        )
    if as_json:
        print_json(receipt)
        return EXIT_OK
    ended = ", ".join(map(str, receipt["was"])) or "no process"
    mode = shown(receipt["mode"] or "unknown")
    click.echo(
        f"{shown(receipt['key'])}: pid {receipt['pid']} answers in {receipt['tookMs']} ms,"
        f" mode {mode}; ended: {ended}"
    )
    if receipt["contextLost"]:
        say("warning: the agent could not take up its session: its context is lost", fg="yellow")
    return EXIT_OK
