"""Sessions that are ended together: what was spawned goes before whoever spawned it.

All their turns are cancelled at once; only then, from the deepest up, their processes are ended. A
tree that does not go politely holds up those above it for a moment, and never for good.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import anyio

from acpbridge.model.keys import SessionKey
from acpbridge.router.session import Session

# Whoever has sessions below it waits so long for each level of them. A tree that obeys is gone in
# tens of milliseconds; a kill has five seconds after its grace (G1). Seconds.
LEVEL_WAIT: Final = 1.0


class Family:
    """The order in which sessions are ended.

    Args:
        sessions: all that are.
        above: returns the keys of all that a session lies below.
    """

    def __init__(
        self, sessions: Sequence[Session], above: Mapping[SessionKey, Sequence[SessionKey]]
    ) -> None:
        self._ended = {session.key: anyio.Event() for session in sessions}
        self._above = above
        self._depths = {session.key: session.record.lineage.depth for session in sessions}

    async def below(self, key: SessionKey) -> None:
        """Wait until all that lies below one is ended, or has had its time."""
        below = [one for one in self._ended if key in self._above[one]]
        levels = max((self._depths[one] for one in below), default=0) - self._depths[key]
        with anyio.move_on_after(LEVEL_WAIT * max(levels, 0)):
            for one in below:
                await self._ended[one].wait()

    def ended(self, key: SessionKey) -> None:
        """Take note that one is ended, as far as it could be."""
        self._ended[key].set()
