"""`acpbridge daemon`: run, start, stop, status."""

import json
import os
import sys
from functools import partial
from pathlib import Path

import click

from acpbridge.cli.root import fail, paths
from acpbridge.errors import BridgeError


@click.group()
def daemon() -> None:
    """Start, stop and look at the daemon."""


@daemon.command()
@click.option("--config", "config_path", metavar="FILE", help="Configuration file.")
@click.option("--ready-fd", type=int, hidden=True)
@click.pass_context
def run(ctx: click.Context, config_path: str | None, ready_fd: int | None) -> None:
    """Run the daemon in the foreground."""
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
