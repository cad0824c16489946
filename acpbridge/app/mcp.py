"""The composition root of `acpbridge mcp`: the session tools on stdio, over the daemon.

The daemon is reached when something is wanted of it, and anew when it is gone. It is never started
from inside a supervised tree, however little of its environment the agent has handed on.
"""

import os
from collections.abc import Mapping
from typing import Any

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus

from acpbridge import __version__, logs
from acpbridge.app.toolserver import TOKEN
from acpbridge.config.environment import MARK
from acpbridge.controller import census
from acpbridge.daemon.client import DaemonClient, connect
from acpbridge.daemon.paths import Paths
from acpbridge.daemon.remote import RemoteRouter
from acpbridge.daemon.wire import HELLO, WIRE_VERSION
from acpbridge.edge.stdio import Stdio, claim_stdio
from acpbridge.errors import BridgeError
from acpbridge.router.api import RouterApi
from acpbridge.tools.mcp import Face
from acpbridge.tools.registry import Caller
from acpbridge.transport.tasks import background

log = structlog.get_logger(__name__)


def serve_tools(paths: Paths, key: str, caller: Caller, stdio: Stdio | None = None) -> None:
    """Serve the session tools on standard input and output until the input ends.

    Args:
        paths: of the state directory.
        key: under which a client that the bridge does not run is known.
        caller: of whoever started this.
        stdio: claimed already; None: claimed now.
    """
    logs.to_stderr(quiet=True)
    anyio.run(_serve, paths, key, caller, claim_stdio() if stdio is None else stdio)


async def _serve(paths: Paths, key: str, caller: Caller, stdio: Stdio) -> None:
    async with background() as tasks:
        link = Link(paths, _claim(key, caller.cwd, os.environ), tasks)
        await Face(link.router, caller).serve(stdio.receive, stdio.send)


def _claim(key: str, cwd: str, env: Mapping[str, str]) -> dict[str, str]:
    token = env.get(TOKEN)
    return {"token": token} if token else {"as": key, "cwd": cwd}


class Link:
    """The way to the daemon, made when it is needed.

    Args:
        paths: of the state directory.
        claim: what is said at the hello of who this is.
        tasks: in which a connection is held.
    """

    def __init__(self, paths: Paths, claim: Mapping[str, str], tasks: TaskGroup) -> None:
        self._paths = paths
        self._claim = claim
        self._tasks = tasks
        self._making = anyio.Lock()
        self._client: DaemonClient | None = None

    async def router(self) -> RouterApi:
        """Return the daemon's router; reach it first, if it is not.

        Raises:
            BridgeError: what keeps it from being reached, or from taking us for who we are.
        """
        async with self._making:
            client = self._client
            if client is None or client.connection.closed.is_set():
                client = self._client = await self._tasks.start(self._hold)
            return RemoteRouter(client)

    async def _hold(self, *, task_status: TaskStatus[DaemonClient]) -> None:
        held = False
        try:
            inside = await anyio.to_thread.run_sync(_inside_a_tree)
            async with connect(self._paths, start=not inside) as client:
                await self._introduce(client, inside=inside)
                held = True
                task_status.started(client)
                await client.connection.closed.wait()
        except BridgeError as error:
            if not held:
                raise
            log.info("the daemon is gone", error=error.message)

    async def _introduce(self, client: DaemonClient, *, inside: bool) -> None:
        """Say who this is, and make sure that it was taken for no more than that."""
        told = await client.call(HELLO, version=__version__, wire=WIRE_VERSION, **self._claim)
        known: Any = told.get("role"), told.get("session")
        wanted = self._claim.get("as")
        if known[0] != "agent" or (not inside and wanted is not None and known[1] != wanted):
            message = f"The daemon took this for {known[0]} {known[1] or ''}, not for {wanted}."
            raise BridgeError("daemon_version", message)
        # A longer one would be lost, and its call never answered.
        client.connection.send_no_longer_than(told["takes"])


def _inside_a_tree() -> bool:
    """Tell whether a supervised agent is anywhere above this process. Blocks."""
    if os.environ.get(TOKEN) or os.environ.get(MARK):
        return True
    return any(census.marker(pid, MARK) for pid, _ in census.ancestors(os.getpid()))
