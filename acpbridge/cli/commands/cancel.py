"""`acpbridge cancel` and `acpbridge close`: a turn is ended, or a session, politely first.

Quick; neither starts a daemon.
"""

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from acpbridge.cli import keys, options, tables
from acpbridge.cli.options import KILL_LIMIT, LONGEST_GRACE
from acpbridge.cli.output import command_line, print_json, say, terminal_width
from acpbridge.cli.reaching import no_daemon
from acpbridge.cli.root import home, paths
from acpbridge.daemon.quick import Quick, connect
from acpbridge.errors import EXIT_FAILURE, EXIT_OK
from acpbridge.model.display import escape

# How far a cancel had to go, in words.
_HOW: Final = {
    "none": "none ran",
    "cancel": "the agent stopped when it was asked",
    "close": "its session and its input had to be closed",
    "kill": "the agent had to be killed",
}


def _on_one(
    ctx: click.Context, key: str, *, last: bool, work: Callable[[Quick, str], Mapping[str, Any]]
) -> Mapping[str, Any]:
    """Find the one session that is meant, and do the work on it."""
    keys.check(ctx, key, last=last)
    client = connect(paths(ctx))
    if client is None:
        raise no_daemon()
    with client:
        return work(client, keys.meant(client, key, last=last))


@click.command(epilog="\b\nExamples:\n  acpbridge cancel 3f2a\n  acpbridge cancel --last --grace 0")
@keys.one_key(keys.NEWEST_LIVE)
@click.option(
    "--grace",
    type=options.GRACE,
    default=2.0,
    show_default=True,
    metavar="S",
    help="Seconds to wait after each of these steps.",
)
@options.as_json
@click.pass_context
def cancel(ctx: click.Context, key: str, *, last: bool, grace: float, as_json: bool) -> int:
    """Cancel the running turn of a session, and those that wait behind it.

    What the turn's agent has asked of other sessions is cancelled with it; the sessions stay. The
    agent is asked first; if that is not enough its session and its input are closed, and then
    it is killed. Exit status 0 when no turn is left running, however far that had to go. An agent
    may keep a command that its turn has started: it is named, and ends with the session.
    """
    began = time.monotonic()
    receipt = _on_one(
        ctx,
        key,
        last=last,
        work=lambda client, name: client.call(
            "cancel", limit=KILL_LIMIT + 3 * grace, key=name, grace=grace
        ),
    )
    if as_json:
        print_json(receipt)
    else:
        took = round((time.monotonic() - began) * 1000)
        name = escape(receipt["key"])
        how = _HOW.get(receipt["rung"], receipt["rung"])
        text = f"{name}: no turn is left running: {how} ({took} ms)"
        if not receipt["turnEnded"]:
            end = command_line(home(ctx), "kill", name)
            text = f"{name}: the turn STILL RUNS ({took} ms); end it: {end}"
        click.echo("\n".join(tables.hanging(text, terminal_width(), "")))
    # An older daemon says nothing of children, nor of what is left.
    for one in (receipt, *receipt.get("children", ())):
        if one.get("left"):
            pids = ", ".join(map(str, one["left"]))
            end = command_line(home(ctx), "kill", one["key"])
            say(f"what a turn of {escape(one['key'])} started still runs: {pids}; end it: {end}")
    return EXIT_OK if receipt["turnEnded"] else EXIT_FAILURE


@click.command(epilog="\b\nExamples:\n  acpbridge close 3f2a\n  acpbridge close --last --json")
@keys.one_key(keys.NEWEST_LIVE)
@options.as_json
@click.pass_context
def close(ctx: click.Context, key: str, *, last: bool, as_json: bool) -> int:
    """End a session politely, with those that it spawned; a closed session is final."""
    limit = KILL_LIMIT + LONGEST_GRACE
    receipt = _on_one(
        ctx, key, last=last, work=lambda client, name: client.call("close", limit=limit, key=name)
    )
    if as_json:
        print_json(receipt)
    else:
        click.echo(f"{escape(receipt['key'])}: closed")
    return EXIT_OK
