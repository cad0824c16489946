"""Which session waits in a send for which other one, so that none waits for itself. Values only.

A wait that would close a ring is refused before anything is sent; whoever asks is told the ring by
the names of the agents.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey


class Waits:
    """The waits under way.

    Args:
        others: returns for what else a session waits: runs without which its turn does not go on.
    """

    def __init__(self, others: Callable[[SessionKey], Collection[SessionKey]]) -> None:
        self._others = others
        self._waits: list[tuple[SessionKey, SessionKey]] = []

    def check(self, me: SessionKey, target: SessionKey) -> None:
        """Check that a session may wait for another one.

        Raises:
            BridgeError: `send_loop`, naming the ring.
        """
        ring = self._way(target, me)
        if ring is None:
            return
        if len(ring) == 1:
            message = "A session that waits for itself waits for ever."
        else:
            names = " -> ".join(key.agent for key in (me, *ring))
            message = f"Each would wait for the next, and nobody would answer: {names}."
        hint = "Send it with timeoutSeconds 0: the reply comes when there is one."
        raise BridgeError("send_loop", message, hint=hint)

    @contextmanager
    def waiting(self, me: SessionKey, target: SessionKey) -> Iterator[None]:
        """Have a session wait for another one."""
        wait = (me, target)
        self._waits.append(wait)
        try:
            yield
        finally:
            self._waits.remove(wait)

    def _way(self, start: SessionKey, end: SessionKey) -> tuple[SessionKey, ...] | None:
        """Return by whom one session waits for another, both included; None if it does not."""
        came: dict[SessionKey, SessionKey | None] = {start: None}
        todo = deque([start])
        while todo:
            here = todo.popleft()
            if here == end:
                return _line(here, came)
            for after in (*(b for a, b in self._waits if a == here), *self._others(here)):
                if after not in came:
                    came[after] = here
                    todo.append(after)
        return None


def _line(end: SessionKey, came: dict[SessionKey, SessionKey | None]) -> tuple[SessionKey, ...]:
    line, here = [end], came[end]
    while here is not None:
        line.append(here)
        here = came[here]
    return tuple(reversed(line))
