"""What a session is to be told with its next turn, without being woken for it. In memory only.

Messages of other sessions (`sessions_send` with mode `notify`), and what became of sessions that it
watches: of each of these only the latest news. Told once, in order, behind the prompt, as data.
Above are `send` and `watching`, which put it here, and the host of a turn, which takes it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.router.errands import UNHEARD
from acpbridge.router.turns import Turn

# Notes that wait for one session, and their text: more are refused. A person reads as many at most.
MOST: Final = 32
SIZE: Final = 256 * 1024

# The text of all notes together, in characters.
SIZE_OF_ALL: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Note:
    """One of them.

    Attributes:
        id: of it; a second one with the same id takes its place.
        text: as the agent reads it.
        provenance: where it comes from.
        before: how many it has taken the place of.
    """

    id: str
    text: str
    provenance: Mapping[str, Any]
    before: int = 0

    @property
    def block(self) -> dict[str, str]:
        """What the agent reads, as a block of a prompt."""
        more = f" (and {self.before} changes before)" if self.before else ""
        return {"type": "text", "text": self.text + more}


@dataclass(slots=True)
class _Kept:
    """What waits for one session, and what its last prompt carried."""

    waiting: dict[str, Note] = field(default_factory=dict)
    carried: list[Note] = field(default_factory=list)
    by: Turn | None = None


class Notes:
    """What sessions were not told yet."""

    def __init__(self) -> None:
        self._kept: dict[SessionKey, _Kept] = {}

    def add(self, session: SessionKey, note: Note) -> None:
        """Keep a note for a session.

        Raises:
            BridgeError: `busy`, when too much waits for it already.
        """
        kept = self._kept.get(session)
        before = {} if kept is None else kept.waiting
        others = [one for one in before.values() if one.id != note.id]
        full = len(others) >= MOST or _size([*others, note]) > max(SIZE, len(note.text))
        if full or self._size() + len(note.text) > SIZE_OF_ALL:
            message = f"{len(before)} notes wait for {session} already; it was not told yet."
            hint = "Send it with mode followup: that begins a turn."
            raise BridgeError("busy", message, hint=hint)
        if kept is None:
            kept = self._kept.setdefault(session, _Kept())
        old = kept.waiting.get(note.id)
        kept.waiting[note.id] = note if old is None else replace(note, before=old.before + 1)

    def behind(
        self, session: SessionKey, turn: Turn, content: Sequence[Mapping[str, Any]]
    ) -> tuple[tuple[Mapping[str, Any], ...], list[Note]]:
        """Return a prompt with what its session is to be told, and the notes that are news."""
        kept = self._kept.get(session)
        if kept is None:
            return tuple(content), []
        news: list[Note] = []
        if kept.by is not turn:
            before = kept.carried if _unheard(kept.by) else []
            kept.by, kept.carried = turn, [*before, *kept.waiting.values()]
            kept.waiting, news = {}, kept.carried
        return (*content, *(note.block for note in kept.carried)), news

    def over(self, session: SessionKey, turn: Turn) -> None:
        """Let go of what a turn has carried that has ended."""
        kept = self._kept.get(session)
        if kept is not None and kept.by is turn and not _unheard(turn):
            kept.by, kept.carried = None, []
            if not kept.waiting:
                del self._kept[session]

    def forget(self, session: SessionKey) -> None:
        """Drop what a session was to be told."""
        self._kept.pop(session, None)

    def _size(self) -> int:
        return sum(_size([*k.waiting.values(), *k.carried]) for k in self._kept.values())


def _size(notes: Sequence[Note]) -> int:
    return sum(len(note.text) for note in notes)


def _unheard(turn: Turn | None) -> bool:
    return turn is not None and turn.error is not None and turn.error.code in UNHEARD
