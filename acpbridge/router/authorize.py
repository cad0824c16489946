"""The one gate: may this requester do this to that session? Pure, and total over actions and roles.

A peer inside a supervised tree is an agent: it sees itself and what it spawned, may start, stop
and cancel below itself, and never answers a question, its own least of all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester, Role


class Action(StrEnum):
    """What can be asked of the router."""

    RUN = "run"
    PROMPT = "prompt"
    SEE = "see"
    CANCEL = "cancel"
    CLOSE = "close"
    KILL = "kill"
    LIST_QUESTIONS = "list questions"
    ANSWER = "answer questions"
    ALLOW_BY_RULE = "run with --on-permission allow"
    CHOOSE = "choose options, modes or MCP servers of an agent"
    RESTART = "restart"
    PRUNE = "delete sessions"
    STOP_DAEMON = "stop the daemon"
    GRANTS = "list or revoke grants"
    DELIVERIES = "list or change deliveries"


class Reach(StrEnum):
    """How far a role may go with an action."""

    ALL = "all"
    LINEAGE = "lineage"  # itself and its descendants
    BELOW = "below"  # its descendants only
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Target:
    """A session with its ancestors, nearest first; None for what belongs to no session."""

    key: SessionKey | None = None
    ancestors: tuple[SessionKey, ...] = ()


_ALL: Final = dict.fromkeys(Action, Reach.ALL)

REACH: Final[Mapping[Role, Mapping[Action, Reach]]] = {
    Role.OPERATOR: _ALL,
    Role.SYSTEM: {
        **_ALL,
        Action.ANSWER: Reach.NONE,
        Action.ALLOW_BY_RULE: Reach.NONE,
        Action.GRANTS: Reach.NONE,
        Action.DELIVERIES: Reach.NONE,
    },
    Role.EDITOR: {
        **_ALL,
        Action.PRUNE: Reach.NONE,
        Action.STOP_DAEMON: Reach.NONE,
        Action.GRANTS: Reach.NONE,
        Action.DELIVERIES: Reach.NONE,
    },
    Role.AGENT: {
        Action.RUN: Reach.ALL,  # as a child of its own; depth and number are bounded
        Action.PROMPT: Reach.BELOW,
        Action.SEE: Reach.LINEAGE,
        Action.CANCEL: Reach.BELOW,
        Action.CLOSE: Reach.BELOW,
        Action.KILL: Reach.BELOW,
        Action.LIST_QUESTIONS: Reach.LINEAGE,
        Action.ANSWER: Reach.NONE,
        Action.ALLOW_BY_RULE: Reach.NONE,
        Action.CHOOSE: Reach.NONE,
        Action.RESTART: Reach.NONE,  # what fails again and again is a human's to look at (G11)
        Action.PRUNE: Reach.NONE,
        Action.STOP_DAEMON: Reach.NONE,
        Action.GRANTS: Reach.NONE,
        Action.DELIVERIES: Reach.NONE,
    },
    Role.CHANNEL: dict.fromkeys(Action, Reach.NONE),
}


def may(action: Action, requester: Requester, target: Target) -> bool:
    """Tell whether the requester may do it."""
    reach = REACH[requester.role][action]
    if reach is Reach.ALL:
        return True
    if reach is Reach.NONE or requester.session is None or target.key is None:
        return False
    below = requester.session in target.ancestors
    return below or (reach is Reach.LINEAGE and target.key == requester.session)


def authorize(action: Action, requester: Requester, target: Target) -> None:
    """Pass, or refuse.

    Raises:
        BridgeError: `permission_denied`, or `no_such_session` for what the requester may not see.
    """
    if may(action, requester, target):
        return
    if target.key is not None and not may(Action.SEE, requester, target):
        raise BridgeError("no_such_session", f"There is no session {target.key} here.")
    who = f"an agent ({requester.session})" if requester.session else f"a {requester.role}"
    message = f"{who[0].upper()}{who[1:]} may not {action}."
    raise BridgeError("permission_denied", message)
