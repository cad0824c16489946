"""The daemon's router as a client has it: what is given up here is given up there."""

from typing import Any

import anyio

from acpbridge.daemon.client import DaemonClient
from acpbridge.daemon.remote import RemoteRouter
from acpbridge.protocol.jsonrpc import Call, Notification
from acpbridge.router.send_requests import SendRequest
from acpbridge.transport.connection import Connection
from acpbridge.transport.memory import memory_pair
from tests.unit.router.world import OPERATOR


class Waiting:
    """Serves calls that take for ever, and notes which begin and which are taken back."""

    def __init__(self) -> None:
        self.begun = anyio.Event()
        self.ended = anyio.Event()
        self.params: Any = None

    def on_notification(self, notification: Notification) -> None:
        """There is none."""

    async def room(self) -> None:
        """There is always some."""

    async def on_call(self, call: Call) -> Any:
        self.params = call.params
        self.begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.ended.set()


async def test_a_tools_wait_that_is_cancelled_is_taken_back_from_the_daemon() -> None:
    """Without `retract`: the daemon waits on, for as long as the call had said."""
    here, there = memory_pair()
    client, daemon = DaemonClient(), Waiting()
    client.connection = Connection(here, here, client)
    with anyio.fail_after(10):
        async with client.connection, Connection(there, there, daemon):
            async with anyio.create_task_group() as tasks:
                request = SendRequest(message="x", timeout_seconds=86400)
                tasks.start_soon(RemoteRouter(client).tool, request, OPERATOR)
                await daemon.begun.wait()
                assert not daemon.ended.is_set()
                tasks.cancel_scope.cancel()
            await daemon.ended.wait()
    assert daemon.params == {"message": "x", "timeoutSeconds": 86400}
    await here.aclose_both()
    await there.aclose_both()
