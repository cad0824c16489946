"""The numbered feed of questions: what is open, then each that is asked and what it came to.

A watcher is a cursor over the latest changes and holds nothing but its position; one that falls too
far behind is told again what is open. It sees the questions of those sessions that its requester
may see, and no others. Questions themselves are kept by the broker, and only looked up here.
"""

import json
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import anyio

from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import Decision, PermissionRequest, Question
from acpbridge.model.requesters import Requester

# Changes that a watcher may be behind. A change is some hundred bytes.
REMEMBERED: Final = 1024

# As much is handed out at once, or one line. Bytes.
PIECE: Final = 256 * 1024

# A decision names its question by id; of the title so much is enough to recognise it. Characters.
TITLE: Final = 200


@dataclass(frozen=True, slots=True)
class _Change:
    """One change; `decided` is None where a question was asked."""

    revision: int
    session: SessionKey
    question: str
    decided: bytes | None = None


class QuestionFeed:
    """The changes, and who watches them.

    Args:
        questions: returns those that are open.
        may_see: whether somebody may see the questions of a session.
        now: the wall-clock time.
        shown: a question as people see it.
    """

    def __init__(
        self,
        questions: Callable[[], list[Question]],
        may_see: Callable[[Requester, SessionKey], bool],
        now: Callable[[], str],
        shown: Callable[[Question], dict[str, Any]] = Question.to_json,
    ) -> None:
        self._questions = questions
        self._may_see = may_see
        self._now = now
        self._shown = shown
        self._changes: deque[_Change] = deque(maxlen=REMEMBERED)
        self._news = anyio.Event()
        self.revision = 0

    def asked(self, question: Question) -> None:
        """A question is open. Cannot block and cannot fail."""
        self._add(question.request)

    def decided(
        self,
        request: PermissionRequest,
        decision: Decision,
        more: Mapping[str, bool] = MappingProxyType({}),
    ) -> None:
        """A question came to something, with what else is told of it. Cannot block or fail."""
        values = {
            "revision": self.revision + 1,
            "at": self._now(),
            "key": str(request.session),
            "turn": request.turn,
            "type": "permission_decided",
            "id": request.id,
            "title": request.ask.subject.title[:TITLE],
            **decision.to_json(),
            **more,
        }
        self._add(request, _line(values))

    def _add(self, request: PermissionRequest, decided: bytes | None = None) -> None:
        self.revision += 1
        self._changes.append(_Change(self.revision, request.session, request.id, decided))
        self._news.set()
        self._news = anyio.Event()

    async def news(self) -> None:
        """Wait for the next change."""
        await self._news.wait()

    def sees(self, requester: Requester, key: SessionKey) -> bool:
        """Tell whether somebody may see the questions of a session."""
        return self._may_see(requester, key)

    def open_now(self, sees: Callable[[SessionKey], bool]) -> list[bytes]:
        """Return the names of what is open, then each question, of sessions that are seen."""
        found = [q for q in self._questions() if sees(q.request.session)]
        head = {
            "revision": self.revision,
            "at": self._now(),
            "type": "open_questions",
            "ids": [question.request.id for question in found],
        }
        return [_line(head), *(self._asked(question, self.revision) for question in found)]

    def since(self, revision: int, sees: Callable[[SessionKey], bool]) -> list[bytes] | None:
        """Return what changed after a revision; None if that is not remembered any more."""
        if revision < self.revision - len(self._changes):
            return None
        still = {question.request.id: question for question in self._questions()}
        out = []
        for change in self._changes:
            if change.revision <= revision or not sees(change.session):
                continue
            if change.decided is not None:
                out.append(change.decided)
            elif change.question in still:  # else its decision is, or will be, all there is to say
                out.append(self._asked(still[change.question], change.revision))
        return out

    def _asked(self, question: Question, revision: int) -> bytes:
        values = {
            "revision": revision,
            "at": question.asked_at,
            "key": str(question.request.session),
            "turn": question.request.turn,
            "type": "permission_asked",
            **self._shown(question),
        }
        return _line(values)


class QuestionWatcher:
    """A cursor over the feed for one requester; see `Following`.

    Args:
        feed: what it reads.
        requester: whose it is.
        wanted: of which sessions it is to tell, of those that the requester may see.
    """

    def __init__(
        self,
        feed: QuestionFeed,
        requester: Requester,
        wanted: Callable[[SessionKey], bool] = lambda _key: True,
    ) -> None:
        self._feed = feed
        self._requester = requester
        self._wanted = wanted
        self._revision = -1
        self._held: deque[bytes] = deque()

    async def read(self) -> list[bytes]:
        """Return the next lines, at least one; waits for it."""
        while not self._held:
            changed = None
            if self._revision >= 0:
                if self._revision == self._feed.revision:
                    await self._feed.news()
                changed = self._feed.since(self._revision, self._sees)
            self._held.extend(self._feed.open_now(self._sees) if changed is None else changed)
            self._revision = self._feed.revision
        out = [self._held.popleft()]
        size = len(out[0])
        while self._held and size + len(self._held[0]) <= PIECE:
            out.append(self._held.popleft())
            size += len(out[-1])
        return out

    async def aclose(self) -> None:
        """Let go of it: it is known to nobody."""

    def _sees(self, key: SessionKey) -> bool:
        return self._wanted(key) and self._feed.sees(self._requester, key)


def _line(values: dict[str, Any]) -> bytes:
    return json.dumps(values, separators=(",", ":")).encode()
