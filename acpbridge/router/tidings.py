"""Wakes whoever delivers completions. Values only: every session is handed the same one.

Above are the host of a turn and those who accept runs, which say what happened; the announcing
waits here.
"""

import anyio

from acpbridge.model.keys import SessionKey


class Tidings:
    """What happened since somebody looked last.

    Attributes:
        news: set with the next thing that happens; another one takes its place then.
        awaited: keys of sessions that hear of something once they are given other work.
        over: whether nobody is to be told of anything any more: the daemon ends.
    """

    def __init__(self) -> None:
        self.news = anyio.Event()
        self.awaited: frozenset[str] = frozenset()
        self.over = False
        self._prompted: set[SessionKey] = set()

    def tell(self) -> None:
        """Say that something of a completion, or of a question, is other than it was."""
        self.news.set()
        self.news = anyio.Event()

    def prompted(self, key: SessionKey) -> None:
        """Say that a session was given work that is no completion."""
        if str(key) in self.awaited:
            self._prompted.add(key)
            self.tell()

    def take_prompted(self) -> set[SessionKey]:
        """Return the sessions that were given work since the last call."""
        taken, self._prompted = self._prompted, set()
        return taken
