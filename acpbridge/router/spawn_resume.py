"""Which conversations of an agent a spawn may take up: those that the one who asks has begun.

Above is `spawn`; whether the agent still has the conversation, it says itself when it is opened.
"""

from acpbridge.errors import BridgeError
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.router.directory import Directory
from acpbridge.router.session import Session


def check_resume(
    directory: Directory, session_id: str, agent: AgentId, requester: Requester
) -> Session | None:
    """Return the session that has a conversation on record, None where a person names one.

    Args:
        directory: the sessions that there are.
        session_id: the agent's own id.
        agent: whose it must be.
        requester: who asks; it must be its own session's, or that of one that it has spawned.

    Raises:
        BridgeError: `resume_forbidden`, also for one that is not known here; `busy` while its
            session is at work.
    """
    held = [s for s in directory if s.key.agent == agent and _holds(s, session_id)]
    if requester.role is not Role.OPERATOR:
        held = [s for s in held if requester.session in _owners(s)]
        if not held:
            message = f"resumeSessionId: no conversation {session_id!r} of {agent} was begun here."
            raise BridgeError("resume_forbidden", message)
    working = next((s for s in held if s.active), None)
    if working is not None:
        message = f"resumeSessionId: {working.key} holds that conversation and is at work."
        hint = f"Send to it: sessions_send with sessionKey {working.key}."
        raise BridgeError("busy", message, hint=hint)
    return held[-1] if held else None


def _holds(session: Session, session_id: str) -> bool:
    record = session.record
    return session_id in (record.agent_session_id, *record.former_session_ids)


def _owners(session: Session) -> tuple[SessionKey | None, ...]:
    return session.key, session.record.lineage.parent
