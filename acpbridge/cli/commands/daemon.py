"""`acpbridge daemon`: run, start, stop, restart, status, logs, install, uninstall."""

import json
import os
import sys
from functools import partial
from pathlib import Path

import click

from acpbridge.cli import moments, options, tables
from acpbridge.cli.commands.daemon_install import install, uninstall
from acpbridge.cli.commands.daemon_log import logs
from acpbridge.cli.commands.stopping import restart, stop
from acpbridge.cli.output import fail, print_json
from acpbridge.cli.root import paths
from acpbridge.daemon.quick import connect
from acpbridge.errors import EXIT_DAEMON, EXIT_OK, BridgeError


@click.group(
    epilog="\b\nExamples:\n  acpbridge daemon status\n  acpbridge daemon restart\n"
    "  acpbridge daemon logs -f"
)
def daemon() -> None:
    """Start, stop and look at the daemon.

    Most commands start it when they need it. It runs until it is told to stop, or until it was idle
    for as long as daemon.idleExitSeconds in config.yaml says.
    """


for command in (stop, restart, logs, install, uninstall):
    daemon.add_command(command)


@daemon.command(
    short_help="Run the daemon in the foreground.",
    epilog="\b\nExamples:\n  acpbridge daemon run\n  acpbridge --home ~/.bridge daemon run "
    "2>> bridge.log",
)
@click.option(
    "--config", "config_path", metavar="FILE", help="Configuration file (default: config.yaml)."
)
@click.option(
    "--ready-fd", type=int, hidden=True, help="Of a detached start: where to say that it is ready."
)
@click.pass_context
def run(ctx: click.Context, config_path: str | None, ready_fd: int | None) -> None:
    """Run the daemon in the foreground, until it is told to stop; its log goes to stderr.

    TERM and INT end it with all its agents within ten seconds, a second one at once.
    """
    import anyio

    from acpbridge.app.daemon import run_daemon

    found = paths(ctx)
    if config_path is not None:
        found = type(found)(found.home, Path(config_path).absolute())

    def tell(word: object) -> None:
        if ready_fd is not None:
            os.write(ready_fd, json.dumps(word).encode())
            os.close(ready_fd)

    log_file = None if ready_fd is None else found.log
    try:
        anyio.run(partial(run_daemon, found, lambda: tell({"ready": os.getpid()}), log_file))
        code = 0
    except BridgeError as error:
        tell({"error": error.to_json()})
        code = fail(error)
    sys.stdout.flush()
    sys.stderr.flush()
    # A worker thread that a full disk holds must not keep the process alive.
    os._exit(code)


@daemon.command(epilog="\b\nExamples:\n  acpbridge daemon start\n  acpbridge daemon start --json")
@options.as_json
@click.pass_context
def start(ctx: click.Context, *, as_json: bool) -> int:
    """Start the daemon in the background; does nothing if it runs."""
    found = paths(ctx)
    client = connect(found)
    if client is not None:
        client.close()
    running = 0 if client is None or client.stopping else client.pid
    if running:
        pid = running
    else:
        from acpbridge.cli.starting import start as start_daemon

        pid = start_daemon(found)
    if as_json:
        print_json({"pid": pid, "started": not running})
    else:
        click.echo(f"the daemon runs{' already' if running else ''} (pid {pid})")
    return EXIT_OK


@daemon.command(epilog="\b\nExamples:\n  acpbridge daemon status\n  acpbridge daemon status --json")
@options.as_json
@click.pass_context
def status(ctx: click.Context, *, as_json: bool) -> int:
    """Show whether the daemon runs, and where. Exit status 8 if it does not."""
    client = connect(paths(ctx))
    shown = None
    if client is not None:
        with client:
            shown = client.call("status", key="")["daemon"]
    if as_json:
        print_json({"daemon": shown})
    else:
        click.echo("\n".join(tables.daemon_lines(shown, moments.now())))
    return EXIT_DAEMON if shown is None else EXIT_OK
