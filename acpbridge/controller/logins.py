"""A login that an agent asks for when its session is to be opened: once, and only a plain one.

An agent that offers exactly one way which needs neither a terminal nor a person is authenticated
and asked again, once (case 94). What needs a person is theirs: nothing interactive starts here.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio

from acpbridge.controller import refusals
from acpbridge.errors import BridgeError

# A key is checked in a moment. What takes longer waits for a person, and nobody is there. Seconds.
AUTHENTICATE_WAIT: Final = 10.0

# An older sign of a way that needs a terminal.
_TERMINAL: Final = "terminal-auth"

Call = Callable[[str, Mapping[str, Any]], Awaitable[Any]]


async def set_up(
    call: Call, method: str, params: Mapping[str, Any], capabilities: Mapping[str, Any]
) -> Any:
    """Call a method that opens a session; authenticate and call again where that is all it takes.

    Raises:
        BridgeError: what the agent answered; its first refusal, if it could not be authenticated.
    """
    try:
        return await call(method, params)
    except BridgeError as error:
        way = only_way(capabilities)
        if way is None or not refusals.needs_login(error):
            raise
        if not await _authenticated(call, way):
            raise
    return await call(method, params)


def only_way(capabilities: Mapping[str, Any]) -> str | None:
    """Return the one way to log in, if there is no other and it needs no terminal; pure."""
    ways = refusals.auth_methods(capabilities)
    if len(ways) != 1:
        return None
    (way,) = ways
    meta = way.get("_meta")
    terminal = isinstance(meta, dict) and _TERMINAL in meta
    return None if terminal or way.get("type", "agent") != "agent" else way["id"]


async def _authenticated(call: Call, way: str) -> bool:
    try:
        with anyio.move_on_after(AUTHENTICATE_WAIT) as limit:
            await call("authenticate", {"methodId": way})
    except BridgeError as error:
        if error.code == "agent_died":
            raise
        return False
    return not limit.cancelled_caught
