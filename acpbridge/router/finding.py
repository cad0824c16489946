"""Which session a tool means by its words, and what a session is called beside its key.

Pure but for the directory that it is handed. Above are the tools that look.
"""

from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester
from acpbridge.router.authorize import Action
from acpbridge.router.directory import Directory
from acpbridge.router.look_requests import CURRENT
from acpbridge.router.session import Session


def find(
    directory: Directory, text: str, requester: Requester, action: Action = Action.SEE
) -> Session:
    """Return the session that a tool names; `current` and "" are the requester's own.

    Raises:
        BridgeError: `no_such_session`, `ambiguous_key`, `permission_denied`; `invalid_params` where
            nobody's own session could be meant.
    """
    if text in ("", CURRENT):
        if requester.session is None:
            message = "sessionKey is needed: only an agent is in a session of its own."
            raise BridgeError("invalid_params", message)
        text = str(requester.session)
    return directory.find(text, requester, action)


def session_id(key: SessionKey) -> str | None:
    """Return the unique part of a key, None where the agent and its kind are all there is."""
    return key.parts[0] if key.kind in ("subagent", "acp") and len(key.parts) == 1 else None


def kind_of(key: SessionKey) -> str:
    """Return of which kind a session is, as `sessions_list` tells them apart."""
    if key.kind == "main":
        return "main"
    return "group" if "group" in key.parts[:2] else "other"


def channel_of(key: SessionKey) -> str | None:
    """Return over which channel a session is spoken to, None for none."""
    return None if key.kind in ("main", "subagent", "acp") else key.kind
