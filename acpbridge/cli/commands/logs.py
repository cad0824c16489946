"""`acpbridge logs`: the numbered log of one session, from the stored copy, up to now or onwards."""

import signal
from collections.abc import Awaitable, Callable
from functools import partial

import click

from acpbridge.cli import keys
from acpbridge.cli.root import paths
from acpbridge.cli.spans import Since, read_since
from acpbridge.daemon.paths import Paths
from acpbridge.errors import EXIT_OK


@click.command(
    epilog="\b\nExamples:\n  acpbridge logs 3f2a\n  acpbridge logs --last -f --since 10m\n"
    "  acpbridge logs 3f2a --since 120 --json"
)
@keys.one_key(keys.NEWEST)
@click.option("-f", "--follow", is_flag=True, help="Go on with what comes, until Ctrl-C.")
@click.option(
    "--since",
    callback=read_since,
    metavar="WHEN",
    help="Behind event number 12; or from 10m, 2h, 3d ago; or from 2026-01-31T12:00.",
)
@click.option(
    "--turn", default="", metavar="ID", help="Only this turn; the start of its id is enough."
)
@click.option("--json", "as_json", is_flag=True, help="Print an event a line, as it is stored.")
@click.pass_context
def logs(  # noqa: PLR0913 - one for each option
    ctx: click.Context,
    key: str,
    *,
    last: bool,
    follow: bool,
    since: Since,
    turn: str,
    as_json: bool,
) -> int:
    """Show what happened in a session, with the time of each event.

    Without -f it ends at the end of the log. A session needs no process to be looked at, and
    leaving changes nothing in it. Exit status 0, also after a Ctrl-C that ends -f.
    """
    keys.check(ctx, key, last=last)
    import anyio

    from acpbridge.logs import to_stderr

    to_stderr(quiet=True)
    show = partial(_show, paths(ctx), key, last=last, since=since, follow=follow)
    work = partial(show, turn=turn, as_json=as_json)
    return anyio.run(partial(_until_interrupted, work) if follow else work)


async def _show(  # noqa: PLR0913 - one for each option
    where: Paths,
    key: str,
    *,
    last: bool,
    since: Since,
    follow: bool,
    turn: str,
    as_json: bool,
) -> int:
    import sys

    import anyio

    from acpbridge.cli.output import terminal_width
    from acpbridge.cli.terminal.writer import Writer
    from acpbridge.cli.views.formats import JsonView
    from acpbridge.cli.views.logview import LogView
    from acpbridge.daemon.client import connect

    out = Writer(sys.stdout.fileno())
    view = JsonView(out) if as_json else LogView(out, terminal_width())
    async with connect(where, start=True) as client:
        if last:
            rows = (await client.call("sessions", all=True, newest=keys.LOOKED_AT))["sessions"]
            key = keys.newest(rows, on_record=True)
        span = {"since": since.moment, "live": follow, "stored": True}
        async with client.follow(key, since.after, **span) as events:
            while True:
                try:
                    line = await events.next()
                except anyio.EndOfStream:
                    break
                if not turn or str(line.value.get("turn")).startswith(turn):
                    await view.event(line)
        await view.end()
    return EXIT_OK


async def _until_interrupted(work: Callable[[], Awaitable[int]]) -> int:
    """Do work until it ends or somebody has seen enough, which is no failure."""
    import anyio

    from acpbridge.transport.tasks import background

    code = EXIT_OK
    with anyio.CancelScope() as scope:

        async def leave() -> None:
            with anyio.open_signal_receiver(signal.SIGINT) as signals:
                async for _ in signals:
                    scope.cancel()

        async with background(leave):
            code = await work()
    return code
