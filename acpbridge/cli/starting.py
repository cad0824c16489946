"""Starts the daemon for a command that needs one. Imported only then: it is slow."""

import anyio

from acpbridge import logs
from acpbridge.daemon.client import connect
from acpbridge.daemon.paths import Paths


def start(paths: Paths) -> int:
    """Start the daemon unless it runs, wait until it is ready, and return its pid.

    Raises:
        BridgeError: what kept it from starting, or from being reached.
    """
    logs.to_stderr(quiet=True)
    return anyio.run(_start, paths)


async def _start(paths: Paths) -> int:
    async with connect(paths, start=True) as client:
        return int(client.hello.get("pid") or 0)
