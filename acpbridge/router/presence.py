"""Which sessions a person looks at right now: at a terminal, where a question is asked at once.

It only decides whether somebody has to be called; it lets nobody do anything. A client says so of
itself, and is believed if it is a person's.
"""

from collections.abc import Sequence

from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester, Role


class Presence:
    """The clients at which a person sits."""

    def __init__(self) -> None:
        self._looking: dict[str, str] = {}

    def attend(self, key: str, requester: Requester) -> None:
        """Take note that a client asks its person what a session asks; "" for all sessions."""
        if requester.role is Role.OPERATOR and requester.client_id:
            self._looking[requester.client_id] = key

    def leave(self, client_id: str) -> None:
        """A client is gone."""
        self._looking.pop(client_id, None)

    def attended(self, key: SessionKey, above: Sequence[SessionKey] = ()) -> int:
        """Return at how many clients a person is asked what this session asks.

        Args:
            key: of the session.
            above: those that it was started below: who follows one of them is asked too.
        """
        keys = {"", *map(str, (key, *above))}
        return sum(seen in keys for seen in self._looking.values())
