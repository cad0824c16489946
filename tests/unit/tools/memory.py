"""An MCP client and the session tools in one process, over memory, with a router behind them."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from mcp import ClientSession

from acpbridge.model.requesters import Requester
from acpbridge.router.api import RouterApi
from acpbridge.router.claiming import Claim
from acpbridge.tools.mcp import Face
from acpbridge.tools.registry import Caller
from acpbridge.tools.wire import messages
from acpbridge.transport.memory import memory_pair
from acpbridge.transport.tasks import background
from tests.unit.router.world import OPERATOR, World

MAIN = "agent:main:main"


async def external(w: World, key: str = MAIN) -> Requester:
    """Return a client that the bridge does not run."""
    return await w.router.claimed(OPERATOR, Claim(key=key, cwd=w.cwd))


@asynccontextmanager
async def talking(
    reach: Callable[[], Awaitable[RouterApi]],
    who: Requester,
    caller: Caller = Caller(),  # noqa: B008 - frozen
    pace: float = 5.0,
) -> AsyncIterator[tuple[ClientSession, list[Any]]]:
    """Have a client talk to a face; yield it with what it is notified of."""
    here, there = memory_pair()
    face = Face(reach, caller, who, pace)
    heard: list[Any] = []

    async def hear(message: Any) -> None:
        heard.append(message)

    try:
        async with (
            background(lambda: face.serve(there, there)),
            messages(here, here) as (incoming, outgoing),
            ClientSession(incoming, outgoing, message_handler=hear) as session,
        ):
            await session.initialize()
            yield session, heard
    finally:
        await here.aclose_both()
        await there.aclose_both()


@asynccontextmanager
async def client(
    w: World, who: Requester, pace: float = 5.0, **env: str
) -> AsyncIterator[tuple[ClientSession, list[Any]]]:
    """Have a client talk to the router of a world."""

    async def reach() -> RouterApi:
        return w.router

    async with talking(reach, who, Caller(w.cwd, env), pace) as found:
        yield found
