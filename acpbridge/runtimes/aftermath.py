"""What an agent still says and asks of a turn that was cancelled: never taken for the next one's.

The protocol names no turn in an update, so time tells them apart, and the ids of tool calls. After
a turn that was cancelled the next prompt waits until the agent is quiet; what comes till then, and
what is said of the cancelled turn's tool calls for ever after, belongs to no turn (case 31).
"""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

import anyio

from acpbridge.protocol.acp import LONGEST_ID, update_kind

# The pieces of a stream that runs out come a few tens of milliseconds apart. Seconds.
QUIET: Final = 0.25

# An agent that never is quiet keeps nobody from prompting it. Seconds.
QUIET_LIMIT: Final = 2.0

# Ids of tool calls that are remembered, of the turn and of those before it: more than any has.
REMEMBERED: Final = 512

# What an agent may tell at any time: it proves no work on a prompt.
OF_NO_TURN: Final = frozenset(
    {
        "available_commands_update",
        "config_option_update",
        "current_mode_update",
        "session_info_update",
        "usage_update",
    }
)


class Aftermath:
    """Tells what belongs to a cancelled turn of one session."""

    def __init__(self) -> None:
        self._calls: OrderedDict[str, None] = OrderedDict()
        self._past: OrderedDict[str, None] = OrderedDict()
        self._last: float | None = None

    def begin_turn(self) -> None:
        """From now on what is said is said of the new turn."""
        self._calls.clear()
        self._last = None

    def end_turn(self, *, cancelled: bool) -> None:
        """Take a turn as over; if it was cancelled, there may be more of it to come."""
        if not cancelled:
            return
        self._last = anyio.current_time()
        for call in self._calls:
            _remember(self._past, call)

    async def over(self) -> None:
        """Wait until the agent is quiet, if its last turn was cancelled; but not for ever."""
        with anyio.move_on_after(QUIET_LIMIT):
            # The moment moves on meanwhile.
            while self._last is not None and (left := self._left(QUIET)) > 0:  # noqa: ASYNC110
                await anyio.sleep(left)

    def is_late(self, params: Mapping[str, Any]) -> bool:
        """Take in a `session/update`, and tell whether it is of a turn that is over."""
        kind, call = update_kind(params), params["update"].get("toolCallId")
        late = self._last is not None
        if late and kind not in OF_NO_TURN:
            self._last = anyio.current_time()
        if not isinstance(call, str) or len(call) > LONGEST_ID:
            return late
        if kind == "tool_call" and not late:
            self._past.pop(call, None)  # announced anew: some agents count from one in every turn
        if late:
            _remember(self._past, call)
        elif call not in self._past:
            _remember(self._calls, call)
        return call in self._past

    def is_late_question(self, call: str) -> bool:
        """Tell whether a question about a tool call is of a turn that is over."""
        return call in self._past or (self._last is not None and self._left(QUIET_LIMIT) > 0)

    def _left(self, seconds: float) -> float:
        """Return how much of a time is left since the agent was last heard."""
        assert self._last is not None
        return self._last + seconds - anyio.current_time()


def _remember(calls: OrderedDict[str, None], call: str) -> None:
    """Take in the id of a tool call; the oldest is forgotten for it."""
    calls[call] = None
    while len(calls) > REMEMBERED:
        calls.popitem(last=False)
