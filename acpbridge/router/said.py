"""What an agent said in one turn, from the stored and redacted copy of its session's log.

A completion is made of it, and so is the answer to whoever sent a message and waits. Above are
those two; below is the log. What tools gave out is never taken for what the agent said.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from acpbridge.model.events import TURN_ENDS
from acpbridge.model.keys import SessionKey
from acpbridge.store.sessionlog import SessionLog

# Events that are looked through at first, from the end; a longer turn is read from further back.
WINDOW: Final = 512
WIDER: Final = 8

# Denied permissions of a turn that are named.
DENIALS: Final = 10

# As in the traces of a log: what the bridge says of a line stands before the agent's own words.
_HEAD: Final = re.compile(
    rb'\{"seq":\d+,"epoch":"[^"]*","at":"[^"]*","key":"[^"]*",'
    rb'"turn":(?:null|"([^"]*)"),"type":"([a-z_]+)"'
)
_WANTED: Final = frozenset({b"update", b"permission_decided"})
# Of a tool call: it is over.
_OVER: Final = frozenset({"completed", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class Said:
    """One turn as its log tells it.

    Attributes:
        text: the last message that the agent made visible; "" if there is none.
        denied: what was denied in it, with the reason, each in words.
        open_tools: tool calls that it announced and that did not end.
        cost: what the agent said that its session has cost so far, `{amount, currency}`.
    """

    text: str = ""
    denied: tuple[str, ...] = ()
    open_tools: int = 0
    cost: Mapping[str, Any] | None = None


async def final_text(log: SessionLog, key: SessionKey, run_id: str) -> str:
    """Return the last message that an agent made visible in a turn, redacted; "" if none.

    Args:
        log: knows the session: whoever opens it has put in what an earlier daemon could not.
        key: of the session.
        run_id: of the turn.

    Raises:
        BridgeError: `store_full` or `internal`, when the log cannot be read.
    """
    return (await said_in(log, key, run_id)).text


async def said_in(log: SessionLog, key: SessionKey, run_id: str) -> Said:
    """Return what there is to say of a turn; see `final_text`."""
    width, last = WINDOW, log.last_seq(key)
    while True:
        lines, whole = await _lines(log, key, run_id, max(0, last - width))
        if whole or width >= last:
            return read_turn(lines)
        width *= WIDER


async def _lines(
    log: SessionLog, key: SessionKey, run_id: str, after: int
) -> tuple[list[tuple[bytes, bytes]], bool]:
    """Return the lines of a turn with their types, and whether its beginning is among them."""
    found: list[tuple[bytes, bytes]] = []
    whole, turn = False, run_id.encode()
    async with log.follow(key, after, live=False, stored=True) as follower:
        while lines := await follower.read():
            for line in lines:
                head = _HEAD.match(line)
                if head is None or head[1] != turn:
                    continue
                whole = whole or head[2] in (b"turn_queued", b"turn_started")
                if head[2] in _WANTED:
                    found.append((head[2], line))
                if head[2].decode() in TURN_ENDS:
                    return found, whole
    return found, whole


def read_turn(lines: Iterable[tuple[bytes, bytes]]) -> Said:
    """Return what the lines of one turn say, in their order; pure.

    Args:
        lines: each with its type.
    """
    messages = _Messages()
    denied: dict[str, None] = {}
    tools: dict[str, bool] = {}
    cost: Mapping[str, Any] | None = None
    for kind, line in lines:
        event = json.loads(line)
        if kind == b"permission_decided":
            if event.get("effect") == "deny":
                denied[f"{event.get('title')} ({event.get('reason')})"] = None
            continue
        update = event.get("update")
        if not isinstance(update, Mapping):
            continue
        word = update.get("sessionUpdate")
        if word == "agent_message_chunk":
            messages.add(update)
        elif word in ("tool_call", "tool_call_update"):
            messages.end()
            tools[str(update.get("toolCallId"))] = update.get("status") in _OVER
        elif word == "usage_update" and isinstance(update.get("cost"), Mapping):
            cost = update["cost"]
    still = sum(not over for over in tools.values())
    return Said(messages.last, tuple(denied)[:DENIALS], still, cost)


class _Messages:
    """The messages of a turn: what is said between two tool calls is one, unless it has names."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._name: object = None
        self._last = ""

    def add(self, update: Mapping[str, Any]) -> None:
        if update.get("messageId") != self._name:
            self.end()
            self._name = update.get("messageId")
        content = update.get("content")
        text = content.get("text") if isinstance(content, Mapping) else None
        if isinstance(text, str):
            self._parts.append(text)

    def end(self) -> None:
        text = "".join(self._parts).strip()
        self._parts = []
        self._last = text or self._last

    @property
    def last(self) -> str:
        self.end()
        return self._last
