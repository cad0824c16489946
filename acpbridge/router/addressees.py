"""Which session a message is for: by key, else by label, else an agent's main one; never several.

Above is `send`. What the sender may not reach is, for it, not there (case 139).
"""

from acpbridge.errors import BridgeError
from acpbridge.model.display import clip, escape
from acpbridge.model.keys import AgentId, SessionKey, agent_id
from acpbridge.model.requesters import Requester, Role
from acpbridge.router.authorize import Action, unreachable
from acpbridge.router.directory import Directory
from acpbridge.router.routes import NAMED
from acpbridge.router.send_requests import SendRequest
from acpbridge.router.session import Session


class Addressees:
    """Finds them.

    Args:
        directory: the sessions that there are.
    """

    def __init__(self, directory: Directory) -> None:
        self._directory = directory

    def choose(self, request: SendRequest, requester: Requester) -> Session:
        """Return the one session that a message is for.

        Raises:
            BridgeError: `invalid_params`, `no_such_session`, `ambiguous_key`.
        """
        if request.session_key:
            return self._by_key(request.session_key, requester)
        if request.label:
            return self._by_label(request, requester)
        if request.agent_id:
            return self._main_of(request.agent_id, requester)
        hint = "Ask the user which session is meant, or list them with sessions_list."
        message = "Nobody is named: give sessionKey, label or agentId."
        raise BridgeError("invalid_params", message, hint=hint)

    def _by_key(self, text: str, requester: Requester) -> Session:
        if requester.role is not Role.AGENT:
            return self._directory.find(text, requester, Action.SEND)
        found = [
            session
            for session in self._reachable(requester)
            if text == str(session.key) or text in session.key.parts[:1]
        ]
        return self._only(found, text, requester)

    def _by_label(self, request: SendRequest, requester: Requester) -> Session:
        agent = _agent(request.agent_id, requester) if request.agent_id else ""
        found = [
            session
            for session in self._reachable(requester)
            if session.record.label == request.label
            and agent in ("", session.key.agent)
            and not session.closing
        ]
        return self._only(found, request.label, requester)

    def _main_of(self, name: str, requester: Requester) -> Session:
        key = SessionKey.main(_agent(name, requester))
        found = [session for session in self._reachable(requester) if session.key == key]
        return self._only(found, str(key), requester)

    def _reachable(self, requester: Requester) -> list[Session]:
        may = self._directory.may
        return [s for s in self._directory if may(Action.SEND, requester, s.key)]

    def _only(self, found: list[Session], text: str, requester: Requester) -> Session:
        if len(found) == 1:
            return found[0]
        shown = clip(escape(text), 200)
        if found:
            keys = sorted(session.key for session in found)
            names = ", ".join(map(str, keys[:NAMED]))
            more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
            message = f"{shown} fits {len(found)} sessions: {names}{more}."
            hint = "Give one of these keys as sessionKey; ask the user which, if it is not clear."
            raise BridgeError("ambiguous_key", message, hint=hint)
        if requester.role is Role.AGENT:
            raise unreachable()
        raise BridgeError("no_such_session", f"No session is {shown}.")


def _agent(name: str, requester: Requester) -> AgentId:
    """Return the id that is meant; to an agent a word that is none is like one of nobody's."""
    try:
        return agent_id(name)
    except BridgeError:
        if requester.role is Role.AGENT:
            raise unreachable() from None
        raise
