"""`acpbridge send`: a message to a session that exists, and what comes back in time."""

import os
import sys
from typing import Any, Final

import click

from acpbridge.cli import options
from acpbridge.cli.caller import directory, environment
from acpbridge.cli.keys import short
from acpbridge.cli.output import fail, lines, print_json, say
from acpbridge.cli.reaching import connect_or_start
from acpbridge.cli.root import paths
from acpbridge.cli.tables import shown
from acpbridge.errors import (
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    EXIT_OK,
    EXIT_TIMEOUT,
    TABLE,
    BridgeError,
)
from acpbridge.model.display import visible

MODES: Final = ("notify", "steer", "followup", "resume")

# Seconds that are waited for the reply, unless told.
WAIT: Final = 30

# Beyond the wait, for the daemon to take the message and to read the reply. Seconds.
MORE: Final = 60.0


@click.command(
    epilog="\b\nExamples:\n  acpbridge send 3f2a 'And now the tests'\n"
    "  acpbridge send research:main 'Three sources on X' --wait 120 --json\n"
    "  acpbridge send 3f2a 'The build is green again' --mode notify"
)
@click.argument("key")
@click.argument("text")
@click.option(
    "--wait",
    type=click.IntRange(0, 86400),
    default=WAIT,
    show_default=True,
    metavar="S",
    help="Seconds to wait for the reply; the turn goes on after them. 0: not at all.",
)
@click.option(
    "--mode",
    type=click.Choice(MODES),
    help="notify: told with its next turn, nothing is started. steer: only into a turn that runs. "
    "followup: begins a turn, or waits for one to end (what happens without --mode). resume: a "
    "Python agent that paused goes on.",
)
@options.as_json
@click.pass_context
def send(
    ctx: click.Context, key: str, text: str, *, wait: int, mode: str | None, as_json: bool
) -> int:
    """Send a message to a session that exists, and print the reply.

    KEY is a session's, or any unique part of one; TEXT is the message, or - to read it from
    standard input. The session's process is started if it has none. Nobody is asked here what its
    agent asks: see acpbridge permissions.

    Exit status: 0 it has replied, or the wait is over and it works on, 1 the turn failed, 3 it ran
    out of time, 4 no such session, 6 the agent is missing or died, 130 the turn was cancelled.
    """
    if not key.strip():
        raise click.UsageError("KEY is blank.", ctx)
    message = _text(ctx, text)
    chosen = {} if mode is None else {"mode": mode}
    with connect_or_start(paths(ctx)) as client:
        told = client.call(
            "tool/send",
            limit=wait + MORE,
            message=message,
            sessionKey=key,
            timeoutSeconds=wait,
            env=environment(),
            callerCwd=directory(),
            **chosen,
        )
    if as_json:
        print_json(told)
    else:
        _show(told)
    return _code(told)


def _text(ctx: click.Context, given: str) -> str:
    if given == "-":
        text = b"" if sys.stdin is None else sys.stdin.buffer.read()
    else:
        text = os.fsencode(given)
    message = text.decode("utf-8", "replace")
    if not message.strip():
        raise click.UsageError("The message is blank.", ctx)
    return message


def _show(told: dict[str, Any]) -> None:
    status, key = told["status"], shown(told["sessionKey"])
    if status == "ok":
        click.echo(visible(told["reply"]))
    elif status == "accepted":
        click.echo(f"{key} {shown(told['runId'])}")
        say(told.get("message") or f"it works on it; follow it: acpbridge logs -f {short(key)}")
    elif status == "queued":
        click.echo(f"{key} {shown(told['notificationId'])}")
        say("the session is told with its next turn")
    else:
        said = told.get("error") or told.get("message") or "the turn was cancelled"
        if status == "error" and told.get("errorCode") in TABLE:
            fail(BridgeError(told["errorCode"], said))
            return
        for line in lines(f"{key}: {said}"):
            say(line)


def _code(told: dict[str, Any]) -> int:
    status = told["status"]
    if status == "error":
        kind = TABLE.get(told.get("errorCode", ""))
        return EXIT_FAILURE if kind is None else kind.exit
    return {"cancelled": EXIT_INTERRUPTED, "timeout": EXIT_TIMEOUT}.get(status, EXIT_OK)
