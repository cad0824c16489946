"""A daemon in the place it took: its lock is that of its state directory, its socket can be found.

Somebody may remove or replace the directory under a daemon, and a cleaner of old files its socket.
Without the lock it is not the daemon any more: the next one has started or can, so it leaves. A
socket that is gone is bound again. Above is the composition root.
"""

import functools
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import anyio
import structlog
from anyio.abc import SocketListener

from acpbridge.daemon.lock import DaemonLock
from acpbridge.daemon.obstacles import socket_put_aside
from acpbridge.errors import BridgeError
from acpbridge.transport import unix

log = structlog.get_logger(__name__)

# Between two looks: the kernel tells of neither. A command waits five times as long. Seconds.
PACE: Final = 1.0

Listen = Callable[[SocketListener], Awaitable[None]]


async def leave_when_displaced(lock: DaemonLock, leave: Callable[[], None]) -> None:
    """Begin the end when the lock's file is not the one that is held."""
    while lock.in_place():  # noqa: ASYNC110 - the kernel tells of no such event
        await anyio.sleep(PACE)
    log.error("the state directory was removed or replaced: this daemon leaves")
    leave()


async def keep_listening(
    path: Path, listener: SocketListener, listen: Listen, mine: Callable[[], bool]
) -> None:
    """Serve a socket that was bound, and bind it again whenever its file is not there.

    Args:
        path: of the socket.
        listener: bound to it; it is closed in the end.
        listen: takes clients until it is cancelled.
        mine: whether this process may bind the socket again.
    """
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(functools.partial(_serve, listener, listen))
        bound = _file(path)
        trouble = ""
        while True:
            await anyio.sleep(PACE)
            # It may have been gone before it was looked at for the first time.
            if (bound is not None and _file(path) == bound) or not mine():
                continue
            try:
                for told in socket_put_aside(path):
                    log.warning("notice", text=told)
                again = await unix.listen(path)
            except BridgeError as error:
                if error.message != trouble:
                    log.warning("the socket cannot be bound again", error=error.message)
                trouble = error.message
                continue
            trouble = ""
            log.warning("the socket was gone and is bound again", path=str(path))
            bound = _file(path)
            tasks.start_soon(functools.partial(_serve, again, listen))
            await listener.aclose()  # nobody can come by it any more; who came is served on
            listener = again


async def _serve(listener: SocketListener, listen: Listen) -> None:
    # Those who came by the old one are served on.
    async with listener:
        await listen(listener)


def _file(path: Path) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
