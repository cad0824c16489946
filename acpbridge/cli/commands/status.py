"""`acpbridge status`: what runs, from the kernel, now. Quick; starts no daemon."""

import os
from typing import Any

import click

from acpbridge.cli import moments, options, tables
from acpbridge.cli.output import command_line, print_json, say, terminal_width
from acpbridge.cli.reaching import no_daemon
from acpbridge.cli.root import home, paths
from acpbridge.daemon.paths import Paths
from acpbridge.daemon.quick import connect
from acpbridge.errors import EXIT_DAEMON, EXIT_OK


@click.command(epilog="\b\nExamples:\n  acpbridge status\n  acpbridge status 3f2a --json")
@click.argument("key", required=False, default="")
@options.as_json
@click.pass_context
def status(ctx: click.Context, key: str, *, as_json: bool) -> int:
    """Show the daemon, the sessions that live, and their whole process trees.

    KEY, or any unique part of one, shows that session only, live or not. What is shown of processes
    is read from the kernel at the time of the call. Exit status 8 where no daemon runs.

    A turn that was silent for two minutes while it waits for the model gets a warning; one whose
    tool runs, or that has a question open, does not: it says so, and for how long.
    """
    found = paths(ctx)
    client = connect(found)
    if client is None:
        if key:
            raise no_daemon()
        shown = _nothing(found)
        questions: list[Any] = []
    else:
        with client:
            shown = client.call("status", key=key)
            questions = [] if as_json else client.call("questions")["permissions"]
    if as_json:
        print_json(shown)
    else:
        click.echo(tables.status_text(shown, questions, terminal_width()))
        if client is None:
            say(f"what is on record: {command_line(home(ctx), 'sessions', '--all')}")
        keys_shown = {row["key"] for row in shown["sessions"]}
        if any({q["sessionKey"], *q.get("above", ())} & keys_shown for q in questions):
            say(f"see and answer questions: {command_line(home(ctx), 'permissions', '--watch')}")
    return EXIT_DAEMON if client is None else EXIT_OK


def _nothing(found: Paths) -> dict[str, Any]:
    left: list[dict[str, Any]] = []
    warnings: list[str] = []
    if os.path.lexists(found.journal):
        # Needed only where a daemon has been.
        from acpbridge.controller.journal import Journal, without_journal
        from acpbridge.daemon.frozen import left_over

        left = left_over(found)
        if Journal.damaged(found.journal):
            warnings.append(without_journal(found.journal))
    return {
        "daemon": None,
        "sessions": [],
        "unowned": left,
        "pendingPermissions": 0,
        "policy": None,
        "warnings": warnings,
        "observedAt": moments.now(),
    }
