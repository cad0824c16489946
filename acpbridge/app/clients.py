"""The control socket, on which clients come to what was opened."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing

from acpbridge.app.opening import Opened
from acpbridge.app.setup import Setup
from acpbridge.daemon.duties import Duties
from acpbridge.daemon.server import Server
from acpbridge.daemon.standing import keep_listening
from acpbridge.transport import unix
from acpbridge.transport.tasks import background


@asynccontextmanager
async def serve_clients(
    setup: Setup,
    opened: Opened,
    stop: Callable[[bool], None],
    stopping: Callable[[], bool] = lambda: False,
    mine: Callable[[], bool] = lambda: False,
) -> AsyncIterator[Server]:
    """Serve clients on the control socket beside the body.

    Args:
        setup: with which it was opened.
        opened: what they come to.
        stop: what their wish to stop the daemon comes to; True: at once.
        stopping: whether it is on its way out.
        mine: whether a socket that was removed may be bound again.
    """
    current, socket = setup.configuration.current, setup.paths.socket

    async def denied(pid: int, uid: int) -> None:
        await opened.audit.note("denied_connect", {"pid": pid, "uid": uid})

    duties = Duties(
        owner_of=opened.supervisor.owner_of,
        vanished=opened.router.vanished,
        stop=stop,
        denied=denied,
        limit=current().limits.max_message_bytes,
        stopping=stopping,
        notify=lambda: current().notify.terminal,
        claimed=opened.router.claimed,
        faults=setup.faults,
    )
    server = Server(opened.router, duties)
    with closing(server):
        listener = await unix.listen(socket)
        async with (
            listener,
            background(lambda: keep_listening(socket, listener, server.listen, mine)),
        ):
            yield server
