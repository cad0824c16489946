"""What happens in a session, as one union; the log numbers it and every face follows it.

An update keeps the agent's own bytes. `render` makes the one line that is stored, followed and
printed: `{"seq", "epoch", "at", "key", "turn", "type", ...}`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

from acpbridge.model.keys import SessionKey


@dataclass(frozen=True, slots=True)
class Update:
    """A `session/update` of the agent.

    Attributes:
        raw: the bytes of its `update` object.
        kind: its `sessionUpdate` word.
        late: whether it is of a turn that is over, so that it belongs to none.
    """

    type: ClassVar[str] = "update"
    raw: bytes
    kind: str = ""
    late: bool = False

    def fields(self) -> bytes:
        """Return the fields of the line after `type`, as JSON members."""
        return b'"update":' + self.raw


@dataclass(frozen=True, slots=True)
class Fact:
    """Any other thing that happened: a type in snake_case and JSON fields of its own.

    The types are `turn_queued, turn_started, turn_ended, turn_failed, permission_asked,
    permission_decided, process_started, process_exited, mode_changed, session_closed,
    child_spawned, announce, notice, stderr, file_read, file_written`.
    """

    type: str
    values: Mapping[str, Any] = field(default_factory=dict)

    def fields(self) -> bytes:
        """Return the fields of the line after `type`, as JSON members."""
        return json.dumps(self.values, separators=(",", ":")).encode()[1:-1]


Event = Update | Fact

# The types of which a turn has exactly one, its last.
TURN_ENDS: Final = frozenset({"turn_ended", "turn_failed"})

# The type of a closed session's last event.
SESSION_END: Final = "session_closed"


@dataclass(frozen=True, slots=True)
class Stamp:
    """What the log adds to an event.

    Attributes:
        seq: number in the session, from 1, without a gap.
        epoch: of the daemon's start, so that a number is never used for something else.
        at: ISO 8601, UTC.
        key: the session.
        turn: id of the turn under way, None outside any.
    """

    seq: int
    epoch: str
    at: str
    key: SessionKey
    turn: str | None


def render(event: Event, stamp: Stamp) -> bytes:
    """Return the event as one line of JSON, without a line end."""
    turn = b"null" if stamp.turn is None else json.dumps(stamp.turn).encode()
    head = b'{"seq":%d,"epoch":%s,"at":"%s","key":%s,"turn":%s,"type":"%s"' % (
        stamp.seq,
        json.dumps(stamp.epoch).encode(),
        stamp.at.encode(),
        json.dumps(str(stamp.key)).encode(),
        turn,
        event.type.encode(),
    )
    fields = event.fields()
    return head + (b"," + fields if fields else b"") + b"}"
