"""How far the message had come by which a session was last sent anything; in memory only.

What an agent has started may send when no turn of it runs: it goes on from the last message all the
same, so that nobody leaves a chain by waiting for the end of a turn. Above is `send`.
"""

from typing import Final

from acpbridge.model.keys import SessionKey
from acpbridge.router.directory import Directory
from acpbridge.router.envelope import Envelope, Way, came_from
from acpbridge.router.session import Session

# Before more are kept, those of sessions that are gone are forgotten.
_MANY: Final = 1024


class Ways:
    """The way that led to each session.

    Args:
        directory: the sessions that there are.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self._last: dict[SessionKey, Way] = {}

    def came(self, envelope: Envelope | None) -> None:
        """Take note of a message that was accepted; None: a person's, with which all begins."""
        if envelope is None:
            return
        if len(self._last) >= _MANY:
            here = {session.key for session in self._directory if not session.closing}
            self._last = {key: way for key, way in self._last.items() if key in here}
        self._last[envelope.target] = (envelope.hop, envelope.visited)

    def leading_to(self, sender: Session, *, external: bool) -> Way:
        """Return how far the message had come that a session goes on from.

        Args:
            sender: who sends the next one.
            external: whether no turn of ours ever runs it.
        """
        if sender.turn is not None or external:
            return came_from(sender.turn)
        return self._last.get(sender.key, (0, ()))
