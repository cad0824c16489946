"""Runs the daemon of a state directory, from its lock to its last breath."""

import gc
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import anyio
import structlog

from acpbridge import logs
from acpbridge.app.clients import serve_clients
from acpbridge.app.opening import open_router
from acpbridge.app.setup import STOP_LIMIT, Setup, daemon_info
from acpbridge.daemon import standing
from acpbridge.daemon.arming import faults_from
from acpbridge.daemon.configfile import ConfigFile
from acpbridge.daemon.lifetime import Lifetime
from acpbridge.daemon.lock import DaemonLock
from acpbridge.daemon.manager import READY, STOPPING, Manager
from acpbridge.daemon.obstacles import close_to_others, put_aside
from acpbridge.daemon.paths import Paths, make_private
from acpbridge.daemon.policyfile import PolicyFile
from acpbridge.model.faults import Faults
from acpbridge.router.router import Router
from acpbridge.transport import unix
from acpbridge.transport.child import raise_descriptor_limit
from acpbridge.transport.tasks import background

log = structlog.get_logger(__name__)


async def run_daemon(paths: Paths, ready: Callable[[], None], log_file: Path | None = None) -> None:
    """Run the daemon of a state directory until it is told to stop.

    Args:
        paths: of the state directory.
        ready: called once clients can connect.
        log_file: where a detached daemon logs; without one it logs to stderr.

    Raises:
        BridgeError: `daemon_running`, `not_our_socket`, `state_directory`, `config_error`.
    """
    manager = Manager.taken_from(os.environ, os.getpid())
    faults, notices = faults_from(os.environ)
    make_private(paths.home)
    lock = DaemonLock(paths.lock, faults=faults)
    lock.acquire()
    setup = _setup(paths, faults, [*notices, *put_aside(paths), *close_to_others(paths)])
    log_to = logs.to_stderr if log_file is None else partial(logs.to_file, log_file, faults=faults)
    lifetime = Lifetime(detached=log_file is not None)
    async with open_router(setup, log_to) as opened:
        serving = serve_clients(setup, opened, lifetime.stop, lifetime.stopping, lock.in_place)
        async with serving as server:

            async def leave_when_idle() -> None:
                await lifetime.leave_when_idle(
                    lambda: setup.configuration.current().daemon.idle_exit_seconds,
                    server.idle_since,
                    opened.router.busy,
                )

            async def leave_when_displaced() -> None:
                await standing.leave_when_displaced(lock, lambda: lifetime.stop(False))  # noqa: FBT003

            duties = (leave_when_idle, leave_when_displaced, manager.keep_telling)
            async with background(lifetime.obey_signals, *duties):
                # What is there by now stays: to look through it for garbage took 0.1 s each time,
                # for which everybody waited.
                gc.freeze()
                ready()
                manager.tell(READY)
                log.info("ready", pid=setup.info.pid, home=setup.info.home)
                await lifetime.over()
                log.info("stopping")
                manager.tell(STOPPING)
                await _stop(opened.router)
        if lock.in_place():  # else the socket is another daemon's
            unix.remove(paths.socket)
    log.info("stopped")


def _setup(paths: Paths, faults: Faults, notices: Sequence[str]) -> Setup:
    configuration = ConfigFile(paths.config)
    configuration.first()
    policy = PolicyFile.first(paths)
    make_private(paths.socket.parent)
    nofile = raise_descriptor_limit()
    info = daemon_info(paths)
    return Setup(paths, configuration, policy, info, faults, nofile=nofile, notices=notices)


async def _stop(router: Router) -> None:
    with anyio.move_on_after(STOP_LIMIT, shield=True) as patience:
        await router.stop()
    if patience.cancelled_caught:
        log.warning("the stop was cut short", seconds=STOP_LIMIT)
