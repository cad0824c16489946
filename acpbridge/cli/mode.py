"""What a person should know of a session's mode before its agent acts: that nobody may be asked.

From the daemon's own row of the session, which says what is in force, and never from a name.
"""

from collections.abc import Mapping
from typing import Any, Final

from acpbridge.daemon.client import DaemonClient
from acpbridge.errors import BridgeError
from acpbridge.model.display import escape

# Updates that come when a prompt is worked on: by then the mode was set and verified.
_WORK: Final = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "plan")


def at_work(event: Mapping[str, Any]) -> bool:
    """Tell whether an event shows that the agent works on its prompt."""
    if event.get("type") == "permission_asked":
        return True
    update = event.get("update") if event.get("type") == "update" else None
    return isinstance(update, Mapping) and update.get("sessionUpdate") in _WORK


async def mode_warning(client: DaemonClient, key: str) -> str:
    """Return what there is to warn of; "" if the agent asks, or the daemon is gone."""
    try:
        rows = (await client.call("sessions", all=False))["sessions"]
    except BridgeError:
        return ""
    return next((warning_of(row) for row in rows if row.get("key") == key), "")


def warning_of(row: Mapping[str, Any]) -> str:
    """Return what a session's row is to be warned of, "" if nothing is."""
    mode = escape(str(row.get("mode") or ""))
    if row.get("bypass"):
        return f"mode {mode}: nobody is asked before the agent acts"
    if row.get("asks") is False:
        return f"mode {mode} is not the one in which this agent asks: it may act without asking"
    if row.get("asks") is None and row.get("runtime") == "acp":
        named = f"mode {mode} is unknown" if mode else "the agent's mode is unknown"
        return f"{named}: it may act without asking"
    return ""
