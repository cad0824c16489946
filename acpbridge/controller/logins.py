"""A login that an agent asks for when its session is to be opened: once, and only a plain one.

An agent that offers exactly one way, or the one that its definition names, is authenticated and
asked again, once (case 94). A way that needs a terminal is a person's: nothing interactive starts
here.
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
    call: Call,
    method: str,
    params: Mapping[str, Any],
    capabilities: Mapping[str, Any],
    wanted: str = "",
) -> Any:
    """Call a method that opens a session; authenticate and call again where that is all it takes.

    Args:
        call: sends a request and returns its result.
        method: to call.
        params: of it.
        capabilities: the agent's `initialize` result.
        wanted: the id of the way to authenticate, "" for the only one there is.

    Raises:
        BridgeError: what the agent answered; its first refusal, if it could not be authenticated.
    """
    try:
        return await call(method, params)
    except BridgeError as error:
        way = plain_way(capabilities, wanted)
        if way is None or not refusals.needs_login(error):
            raise
        if not await _authenticated(call, way):
            raise
    return await call(method, params)


def plain_way(capabilities: Mapping[str, Any], wanted: str = "") -> str | None:
    """Return the wanted way to log in, else the only one, if it needs no terminal; pure."""
    ways = refusals.auth_methods(capabilities)
    if wanted:
        ways = [way for way in ways if way["id"] == wanted]
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
