"""What a person should know of a session's mode before its agent acts: that nobody may be asked.

From the daemon's own row of the session, which says what is in force, and never from a name.
"""

from collections.abc import Mapping
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from acpbridge.cli.terminal.screen import Screen
from acpbridge.cli.views.reading import update_of
from acpbridge.daemon.client import DaemonClient
from acpbridge.errors import BridgeError
from acpbridge.model.display import escape
from acpbridge.model.events import TURN_ENDS

# Updates that come when a prompt is worked on: by then the mode was set and verified.
_WORK: Final = ("agent_message_chunk", "agent_thought_chunk", "tool_call", "plan")

# For the answer; the daemon looks at the kernel for it. Seconds.
PATIENCE: Final = 1.0


def at_work(event: Mapping[str, Any]) -> bool:
    """Tell whether an event shows that the agent works on its prompt."""
    if event.get("type") == "permission_asked":
        return True
    return update_of(event).get("sessionUpdate") in _WORK


class ModeWarning:
    """Warns once in a run, when its agent begins to work.

    It is asked for beside the events and waited for a little: who waits for an answer here without
    a bound reads no events meanwhile, and behind too many of them no answer comes.

    Args:
        client: knows the session.
        key: of the session.
        screen: shows the warning.
        tasks: to ask in.
    """

    def __init__(self, client: DaemonClient, key: str, screen: Screen, tasks: TaskGroup) -> None:
        self._client = client
        self._key = key
        self._screen = screen
        self._tasks = tasks
        self._asked = False
        self._told = anyio.Event()

    async def before(self, event: Mapping[str, Any]) -> None:
        """Look at an event that is about to be shown, or that ends the turn."""
        if at_work(event) and not self._asked:
            self._asked = True
            self._tasks.start_soon(self._tell)
        elif event.get("type") not in TURN_ENDS:
            return
        if self._asked:
            with anyio.move_on_after(PATIENCE):
                await self._told.wait()

    async def _tell(self) -> None:
        try:
            rows = (await self._client.call("status", key=self._key))["sessions"]
        except BridgeError:
            rows = []
        for row in rows:
            if row.get("key") == self._key and (text := warning_of(row)):
                await self._screen.say(f"warning: {text}", fg="yellow")
        self._told.set()


def warning_of(row: Mapping[str, Any]) -> str:
    """Return what a session's row is to be warned of, "" if nothing is."""
    mode = escape(str(row.get("mode") or ""))
    if row.get("bypass"):
        return f"mode {mode}: nobody is asked before the agent acts"
    if row.get("asks") is False:
        return f"mode {mode} is not the one in which this agent asks: it may act without asking"
    if row.get("asks") is None and row.get("runtime") == "acp":
        where = f"mode {mode}" if mode else "this agent"
        return f"whether {where} asks is unknown: it may act without asking"
    return ""
