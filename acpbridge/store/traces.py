"""What a session's stored events say of its turns and questions: which began, and which are over.

Whole logs are looked through for it, so only lines that may matter are taken apart. Pure; above are
the event file, which hands in what it has, and whoever opens a log that an earlier daemon wrote.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from acpbridge.model.events import SESSION_END, TURN_ENDS

# A line begins with what the bridge says of it; an agent's own words stand behind the type.
_HEAD: Final = re.compile(
    rb'\{"seq":\d+,"epoch":"[^"]*","at":"[^"]*","key":"[^"]*",'
    rb'"turn":(?:null|"([^"]*)"),"type":"(turn_[a-z]+|permission_[a-z]+|session_closed)"'
)
# Searched for one after the other: each kind of line is in order, and no kind needs another's.
_KINDS: Final = (b"turn_", b"permission_", b"session_closed")


@dataclass(slots=True)
class Traces:
    """What was found.

    Attributes:
        seen: the turns that have any event of their own, each once, in order.
        started: those that were begun.
        ended: those that have their last event.
        asked: the questions without a decision, as their events tell of them, by id.
        closed: whether the session's own last event is there.
    """

    seen: dict[str, None] = field(default_factory=dict)
    started: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    asked: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    closed: bool = False

    def take(self, blob: bytes) -> None:
        """Look through lines, later than all before."""
        for kind in _KINDS:
            mark = b'"type":"' + kind
            at = blob.find(mark)
            while at >= 0:
                end = blob.find(b"\n", at)
                end = len(blob) if end < 0 else end
                self._line(blob[blob.rfind(b"\n", 0, at) + 1 : end], kind)
                at = blob.find(mark, end)

    def take_all(self, lines: Iterable[bytes]) -> "Traces":
        """Look through lines one by one; return this."""
        for line in lines:
            self.take(line)
        return self

    def _line(self, line: bytes, wanted: bytes) -> None:
        found = _HEAD.match(line)
        if found is None or not found[2].startswith(wanted):
            return  # an agent's words, in a line of another kind
        turn, kind = (found[1] or b"").decode(), found[2].decode()
        if kind == SESSION_END:
            self.closed = True
        elif kind.startswith("permission_"):
            self._question(kind, line)
        else:
            self._turn(turn, kind)

    def _turn(self, turn: str, kind: str) -> None:
        self.seen.setdefault(turn)
        if kind == "turn_started":
            self.started.add(turn)
        elif kind in TURN_ENDS:
            self.ended.add(turn)

    def _question(self, kind: str, line: bytes) -> None:
        try:
            event = json.loads(line)
            name = str(event["id"])
        except (ValueError, KeyError, RecursionError):
            return
        if kind == "permission_asked":
            self.asked[name] = event
        else:
            self.asked.pop(name, None)
