"""Who may come in when there is no room: descriptors are short, or too many clients are there.

A daemon that is out of descriptors must still be looked at and still end what runs (G28). So some
are kept in reserve: when the last one is gone they are given up, and the few clients that come in
by them may do only what `NARROW` lists. Anything else is refused with `capacity`, and one who does
nothing makes way for the next. The reserve is taken back when a client leaves. Above is the server.
"""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Final

import anyio
import structlog

from acpbridge.errors import BridgeError
from acpbridge.transport.child import descriptor_limit

log = structlog.get_logger(__name__)

# Clients at once: 100 turns each have one, and a person a few more.
MAX_CLIENTS: Final = 512

# So many of this process's descriptors are for the helpers, the store and the reserve. Of the
# others clients get a half, the rest is the agents', five each; but some clients always.
_TAKEN: Final = 44
_FEWEST: Final = 4

# A client of the narrow way takes one, a look at all processes one more, a signal another. Each
# client has as long as any call takes. Seconds.
RESERVED: Final = 12
NARROW_AT_ONCE: Final = 6
NARROW_SECONDS: Final = 60.0

# One that asks for nothing is let go when another one waits: a hundred of them, whom some program
# has forgotten, are out of the way in less time than a command waits for its hello. Seconds.
IDLE: Final = 0.05
LOOK_PAUSE: Final = 0.01

# What is served in any need: looking, ending, denying.
NARROW: Final = frozenset(
    {"hello", "status", "sessions", "matching", "kill", "cancel", "close", "stop"}
    | {"questions", "answer", "grants", "revoke"}
)

_FULL: Final = (
    "The daemon has no room for another client: too many are connected, or it is out of file "
    "descriptors."
)
_HINT: Final = "Close other clients, or raise the daemon's limit of open files (ulimit -n)."


class Slot:
    """One client that came in by the narrow way; a full one as soon as there is room again.

    Args:
        crowded: whether there is still no room.
    """

    def __init__(self, crowded: Callable[[], bool]) -> None:
        self._crowded = crowded
        self.scope = anyio.CancelScope(deadline=anyio.current_time() + NARROW_SECONDS)
        self._calls = 0
        self._since = anyio.current_time()

    @contextmanager
    def serving(self, method: str) -> Iterator[None]:
        """Serve one call, if it is one for the narrow way.

        Raises:
            BridgeError: `capacity`.
        """
        if method not in NARROW and self._crowded():
            raise BridgeError("capacity", _FULL, hint=_HINT)
        if method not in NARROW:
            self.scope.deadline = math.inf
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            self._since = anyio.current_time()

    def idle(self) -> bool:
        """Whether it makes way for another one."""
        return not self._calls and anyio.current_time() - self._since > IDLE


class Doorway:
    """Counts who is in, and keeps descriptors for those who must come in.

    Attributes:
        clients: that are in.
        most: how many come in by the broad way.
    """

    def __init__(self) -> None:
        self.clients = 0
        self.most = max(_FEWEST, min(MAX_CLIENTS, (descriptor_limit() - _TAKEN) // 2))
        self._reserve: list[int] = []
        self._slots: list[Slot] = []
        self._short = False
        self.restock()

    @property
    def crowded(self) -> bool:
        """Whether the newest client comes in by the narrow way."""
        return self._short or self.clients > self.most

    async def enter(self) -> Slot | None:
        """Count a client in, whom `left` must follow; return its slot if it must be narrow."""
        self.clients += 1
        if not self.crowded:
            return None
        while len(self._slots) >= NARROW_AT_ONCE:
            for slot in self._slots:
                if slot.idle():
                    slot.scope.cancel()
            await anyio.sleep(LOOK_PAUSE)
        slot = Slot(lambda: self.crowded)
        self._slots.append(slot)
        return slot

    def left(self, slot: Slot | None) -> None:
        """Take note that a client is gone."""
        self.clients -= 1
        if slot is not None:
            self._slots.remove(slot)
        self.restock()

    def give_up(self, error: Exception) -> None:
        """Give up the reserve: nobody could be taken in."""
        if not self._short:
            log.warning("no client can be taken now", error=str(error))
        self._short = True
        self.close()

    def restock(self) -> None:
        """Take the reserve back, if there is room for it again."""
        with suppress(OSError):
            while len(self._reserve) < min(RESERVED, descriptor_limit() // 8):
                self._reserve.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            if self._short:
                log.info("clients can be taken again")
            self._short = False
            return
        if self._short:
            self.close()  # they are needed by whoever is in, or comes next

    def close(self) -> None:
        """Close the reserve."""
        while self._reserve:
            os.close(self._reserve.pop())
