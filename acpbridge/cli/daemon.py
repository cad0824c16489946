"""`acpbridge daemon`: run, start, stop, status."""

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Final

import click

from acpbridge.cli import tables
from acpbridge.cli.output import fail, print_json
from acpbridge.cli.root import paths
from acpbridge.daemon import frozen
from acpbridge.daemon.paths import Paths
from acpbridge.daemon.quick import connect
from acpbridge.errors import EXIT_OK, BridgeError

# A polite stop ends every tree within eight seconds; the rest is a margin. Seconds.
STOP_LIMIT: Final = 12.0


@click.group()
def daemon() -> None:
    """Start, stop and look at the daemon.

    Most commands start it when they need it; it runs until it is told to stop.
    """


@daemon.command()
@click.option(
    "--config", "config_path", metavar="FILE", help="Configuration file (default: config.yaml)."
)
@click.option("--ready-fd", type=int, hidden=True)
@click.pass_context
def run(ctx: click.Context, config_path: str | None, ready_fd: int | None) -> None:
    """Run the daemon in the foreground, until it is told to stop; its log goes to stderr."""
    import anyio

    from acpbridge.app import run_daemon

    found = paths(ctx)
    if config_path is not None:
        found = type(found)(found.home, Path(config_path).absolute())

    def tell(word: object) -> None:
        if ready_fd is not None:
            os.write(ready_fd, json.dumps(word).encode())
            os.close(ready_fd)

    try:
        anyio.run(partial(run_daemon, found, lambda: tell({"ready": os.getpid()})))
        code = 0
    except BridgeError as error:
        tell({"error": error.to_json()})
        code = fail(error)
    sys.stdout.flush()
    sys.stderr.flush()
    # A worker thread that a full disk holds must not keep the process alive.
    os._exit(code)


@daemon.command()
@click.pass_context
def start(ctx: click.Context) -> int:
    """Start the daemon in the background; does nothing if it runs."""
    found = paths(ctx)
    client = connect(found)
    if client is not None:
        with client:
            click.echo(f"the daemon runs already (pid {client.pid})")
        return EXIT_OK
    from acpbridge.cli.starting import start as start_daemon

    click.echo(f"the daemon runs (pid {start_daemon(found)})")
    return EXIT_OK


@daemon.command()
@click.option(
    "--force",
    is_flag=True,
    help="End it at once, and kill it if it is frozen; its process trees die with it.",
)
@click.pass_context
def stop(ctx: click.Context, *, force: bool) -> int:
    """Stop the daemon: turns are cancelled, every process tree is ended, and it is gone.

    Sessions stay on record and can be taken up again.
    """
    found = paths(ctx)
    if force:
        return _stop_by_force(found)
    client = connect(found)
    if client is None:
        click.echo("no daemon")
        return EXIT_OK
    with client:
        try:
            client.call("stop", force=False)
        except BridgeError as error:
            # An idle daemon may be gone before its answer is.
            if error.code != "connection_closed":
                raise
        if not frozen.wait_stopped(found, STOP_LIMIT):
            message = f"The daemon (pid {client.pid}) has not stopped in {STOP_LIMIT:g} s."
            raise BridgeError("daemon_frozen", message)
    click.echo("stopped")
    return EXIT_OK


def _stop_by_force(found: Paths) -> int:
    known = frozen.daemon_of(found)
    left = frozen.stop_by_force(found)
    if left:
        raise BridgeError("survivors", f"Processes are left: {', '.join(map(str, left))}.")
    if not frozen.wait_stopped(found, STOP_LIMIT):
        raise BridgeError("daemon_running", "Another daemon was started meanwhile.")
    click.echo("no daemon" if known is None else f"stopped (pid {known.pid} was killed)")
    return EXIT_OK


@daemon.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.pass_context
def status(ctx: click.Context, *, as_json: bool) -> int:
    """Show whether the daemon runs, and where."""
    client = connect(paths(ctx))
    shown = None
    if client is not None:
        with client:
            shown = client.call("status", key="")["daemon"]
    if as_json:
        print_json({"daemon": shown})
    else:
        click.echo("\n".join(tables.daemon_lines(shown, tables.now())))
    return EXIT_OK
