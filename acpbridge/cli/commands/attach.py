"""`acpbridge attach`: follow a session, type to it, answer its questions, and leave it running."""

import click

from acpbridge.cli.root import home, paths


@click.command(
    epilog="\b\nExamples:\n  acpbridge attach 3f2a\n  acpbridge attach --last --read-only\n"
    "  acpbridge attach 3f2a --json | jq .type"
)
@click.argument("key", required=False, default="")
@click.option("--last", is_flag=True, help="The session that was started last.")
@click.option("--json", "as_json", is_flag=True, help="An event a line; nothing is typed or asked.")
@click.option("--read-only", is_flag=True, help="Only look: nothing is typed, answered or ended.")
@click.pass_context
def attach(ctx: click.Context, key: str, *, last: bool, as_json: bool, read_only: bool) -> int:
    """Follow a session from its last turn on, type prompts, answer its questions.

    KEY is a session's key or any unique part of one. Enter sends a prompt; while a turn runs it
    waits in the session's queue. A pasted text is one prompt, whatever its lines. /help lists what
    else can be typed: /cancel, /close, /kill, /questions, /detach; a prompt that begins with // is
    sent with one /. Ctrl-D or /detach leaves the session running, and all that was typed. Ctrl-C
    cancels the running turn; a second one, or one without a turn, detaches. Without a terminal the
    session is only followed, until it is closed.

    Exit status 0 when detached or when the session is closed, 4 if there is none, 8 when the daemon
    is gone.
    """
    if bool(key) == last:
        raise click.UsageError("Give either KEY or --last.", ctx)
    import anyio

    from acpbridge import logs
    from acpbridge.cli.attached import Attached, Wanted

    logs.to_stderr(quiet=True)
    wanted = Wanted(key, as_json=as_json, read_only=read_only)
    return anyio.run(Attached(paths(ctx), home(ctx), wanted).run)
