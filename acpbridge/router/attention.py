"""Tells whoever is above a session that it waits for a person: a notice, and no way to answer.

Above is the router, to which the broker says what is asked; below are the sessions' logs. Agents
that the bridge does not run get the same with their completions.
"""

from functools import partial
from typing import Any

from acpbridge.model.display import clip, escape
from acpbridge.model.events import Fact
from acpbridge.model.permission import Question
from acpbridge.router.directory import Directory
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.router.telling import LINE


class Attention:
    """Puts a notice of each question into the logs of all sessions above (case 50).

    Args:
        directory: who is above whom.
        services: logs and tidings.
    """

    def __init__(self, directory: Directory, services: Services) -> None:
        self._directory = directory
        self._services = services

    def asked(self, question: Question) -> None:
        """Tell of a question that was opened; cannot fail."""
        for key in self._directory.line_above(question.request.session):
            session = self._directory.get(key)
            if session is None or session.closed:
                continue
            if self._services.log.knows(key):
                self._notice(session, question)
            else:
                self._services.scribe.put(partial(self._later, session, question))
        self._services.tidings.tell()

    async def _later(self, session: Session, question: Question) -> None:
        await session.open_log()
        self._notice(session, question)

    def _notice(self, session: Session, question: Question) -> None:
        told = attention(question)
        values = {
            "kind": "attention",
            "message": told["text"],
            "sessionKey": told["sessionKey"],
            "question": question.request.id,
        }
        turn = None if session.turn is None else session.turn.run_id
        self._services.log.append(session.key, turn, Fact("notice", values))


def attention(question: Question) -> dict[str, Any]:
    """Return what is told of a question to whoever is above its session; pure."""
    request = question.request
    title = clip(escape(request.ask.subject.title or request.ask.subject.kind), LINE)
    text = f"{request.session} waits for a person: {title}. Only a person can answer."
    return {
        "kind": "attention",
        "sessionKey": str(request.session),
        "runId": request.turn,
        "status": "waits for a person",
        "at": question.asked_at,
        "text": text,
    }
