"""Rendering events in bulk: what does not change from one to the next is rendered once.

The shape of a line is the model's alone: a template is cut from a line that the model rendered.
"""

import re

from acpbridge.model.events import Event, Fact, Stamp, render
from acpbridge.model.keys import SessionKey
from acpbridge.model.ports import Clock

# Stands for the time in a template: no JSON text contains the byte itself.
_MARK = "\0"

# The time stands third in a line, after the number and the epoch.
_TIME = re.compile(rb'"at":"([^"]*)"')
_HEAD = 512

# How exact the time of an event is, in seconds; within it the text is not made anew.
_TICK = 0.001


def time_of(line: bytes) -> str:
    """Return the time of a rendered event, "" if it has none."""
    found = _TIME.search(line, 0, _HEAD)
    return "" if found is None else found[1].decode()


class Timestamps:
    """The wall-clock time as text, made at most once in a millisecond."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until = float("-inf")
        self._text = ""

    def now(self) -> str:
        """Return the time as ISO 8601, UTC, in milliseconds."""
        now = self._clock.monotonic()
        if now >= self._until:
            self._until = now + _TICK
            wall = self._clock.wall().isoformat(timespec="milliseconds")
            self._text = wall.replace("+00:00", "Z")
        return self._text


class Template:
    """Renders the events of one session that share their turn and type.

    Args:
        epoch: of the log.
        key: the session.
        turn: id of the turn under way.
        kind: the type of the events.
    """

    __slots__ = ("_after", "_before")

    def __init__(self, epoch: str, key: SessionKey, turn: str | None, kind: str) -> None:
        line = render(Fact(kind), Stamp(0, epoch, _MARK, key, turn))
        before, after = line.split(_MARK.encode())
        self._before = before.replace(b"%", b"%%").replace(b'"seq":0', b'"seq":%d', 1)
        self._after = after[:-1]

    def render(self, event: Event, seq: int, at: str) -> bytes:
        """Return what the model renders for the event, with line ends in its JSON as spaces."""
        fields = event.fields()
        if b"\n" in fields:  # only between tokens: within a string JSON does not allow it
            fields = fields.replace(b"\n", b" ")
        comma = b"," if fields else b""
        return b"%s%s%s%s%s}" % (self._before % seq, at.encode(), self._after, comma, fields)
