"""Counts the requests of an agent that cannot be read: the last of too many ends it (row 11).

Nothing else is held against an agent: noise, unknown methods and stray answers are only ignored.
Above is the client side of a connection, which says what is malformed.
"""

from collections.abc import Callable
from typing import Final

from acpbridge.errors import BridgeError
from acpbridge.model.events import Fact
from acpbridge.runtimes.base import SessionHost

# A program with a fault sends a few; one that sends more looks for a request that gets through.
MOST: Final = 20


class Malformed:
    """The malformed requests of one process of a session.

    Args:
        host: told of each by a notice.

    Attributes:
        count: how many there were.
        give_up: called once, with the reason, when there were too many.
    """

    def __init__(self, host: SessionHost) -> None:
        self._host = host
        self.count = 0
        self.give_up: Callable[[str], None] = lambda _why: None

    def take(self, reason: str) -> None:
        """Take in one more request that was refused for its form."""
        self.count += 1
        if self.count > MOST:
            return
        message = f"A malformed request of the agent was refused ({self.count} of {MOST}): {reason}"
        values = {"kind": "malformed_request", "count": self.count, "message": message}
        self._host.emit(Fact("notice", values))
        if self.count == MOST:
            self.give_up(f"it sent {MOST} malformed requests, the last of them: {reason}")

    def check(self) -> None:
        """Serve nothing more once there were too many.

        Raises:
            BridgeError: `invalid_message`.
        """
        if self.count >= MOST:
            raise BridgeError("invalid_message", f"{MOST} requests were malformed: none is served.")
