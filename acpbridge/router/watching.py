"""Who wants to know what becomes of a session, and what they are told. Values only, in memory.

A watcher gets one note per session that it watches, with the latest news of it, for its next turn;
nobody is woken, and nobody is told of what he did himself. Whoever spawned a session watches it
without asking: its ends are announced, and that a person speaks to it is told here. Above are the
host of a turn and the end of a session, which say what happened; below are the `notes`.
"""

from collections.abc import Mapping
from typing import Any, Final

from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.model.messages import PromptRequest
from acpbridge.model.requesters import Role
from acpbridge.model.sessions import Outcome
from acpbridge.router.notes import Note, Notes

# Sessions that one session watches, and that watch one: more are refused.
MOST: Final = 64

SPOKEN_TO: Final = {"type": "human_direct_message"}

HEAD: Final = "[From acpbridge, not part of the prompt. News of a session that you watch:]"


class Watching:
    """The watchers.

    Args:
        notes: keep what they are to be told.
    """

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._watchers: dict[SessionKey, dict[SessionKey, None]] = {}

    def watch(self, watcher: SessionKey, target: SessionKey) -> None:
        """Have a session told of another one, from now on.

        Raises:
            BridgeError: `busy`, when it watches too many, or too many watch that one.
        """
        mine = self._watchers.get(target, {})
        watched = sum(watcher in others for others in self._watchers.values())
        if watcher not in mine and (len(mine) >= MOST or watched >= MOST):
            hint = "Send it without watch: the end of the run is announced all the same."
            raise BridgeError("busy", f"{MOST} sessions are watched already.", hint=hint)
        self._watchers.setdefault(target, {})[watcher] = None

    def changed(
        self,
        key: SessionKey,
        news: Mapping[str, Any],
        *,
        by: str = "",
        parent: SessionKey | None = None,
    ) -> None:
        """Keep what has become of a session for those who watch it. Cannot fail.

        Args:
            key: of the session.
            news: `type`, and what else there is to say of it.
            by: key of the session that made it so, which knows.
            parent: whoever is told although it did not ask.
        """
        watchers = dict(self._watchers.get(key, {}))
        if parent is not None:
            watchers[parent] = None
        said = ", ".join(f"{name} {value}" for name, value in news.items() if name != "type")
        text = f"{HEAD}\n- {key}: {news['type']}{f' ({said})' if said else ''}"
        for watcher in watchers:
            if str(watcher) != by:
                self._tell(watcher, key, text)

    def _tell(self, watcher: SessionKey, key: SessionKey, text: str) -> None:
        provenance = {
            "kind": "internal_system",
            "sourceSessionKey": str(key),
            "targetSessionKey": str(watcher),
            "sourceTool": "sessions_send",
        }
        try:
            self._notes.add(watcher, Note(f"watch:{key}", text, provenance))
        except BridgeError:
            return  # too much waits for it already: what is news is not lost with that

    def forget(self, key: SessionKey) -> None:
        """Have nobody watch a session that is ended, and let it watch nobody."""
        self._watchers.pop(key, None)
        for target, watchers in list(self._watchers.items()):
            watchers.pop(key, None)
            if not watchers:
                del self._watchers[target]


def by_person(request: PromptRequest) -> bool:
    """Tell whether a person has written a prompt."""
    return request.requester.role in (Role.OPERATOR, Role.EDITOR, Role.CHANNEL)


def asker(request: PromptRequest) -> str:
    """Return the key of the session that has asked for a prompt, "" where none has."""
    return str(request.provenance.get("sourceSessionKey") or request.requester.session or "")


def news_of(run_id: str, outcome: Outcome) -> dict[str, Any]:
    """Return what there is to say of a run that has ended."""
    kind = "run_completed" if outcome is Outcome.COMPLETED else "run_failed"
    return {"type": kind, "run": run_id, "outcome": outcome}
