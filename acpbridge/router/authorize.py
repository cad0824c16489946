"""The one gate: may this requester do this to that session? Pure, and total over actions and roles.

A peer inside a supervised tree is an agent: it sees what the configuration lets it (`tools`), may
start, stop and cancel below itself, and never answers a question, its own least of all.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from fnmatch import fnmatchcase
from itertools import takewhile
from typing import Final

from acpbridge.config.tools import NO_TOOLS, AgentToAgent, Tools, Visibility
from acpbridge.errors import BridgeError
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.requesters import Requester, Role


class Action(StrEnum):
    """What can be asked of the router."""

    RUN = "run"
    PROMPT = "prompt"
    SEND = "send a message"
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
    VISIBLE = "visible"  # what the configuration lets an agent see
    LINEAGE = "lineage"  # of that, itself and its descendants
    BELOW = "below"  # of that, its descendants only
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Target:
    """A session, or None for what belongs to no session.

    Attributes:
        key: of it.
        ancestors: who spawned it, the nearest first; from stored lineage, never from what one says.
        tools: how far agents reach, by the configuration in force.
    """

    key: SessionKey | None = None
    ancestors: tuple[SessionKey, ...] = ()
    tools: Tools = NO_TOOLS


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
        Action.SEND: Reach.VISIBLE,
        Action.SEE: Reach.VISIBLE,
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
    me, key = requester.session, target.key
    if reach is Reach.NONE or me is None or key is None or not _visible(me, key, target):
        return False
    below = me in target.ancestors
    return reach is Reach.VISIBLE or below or (reach is Reach.LINEAGE and key == me)


def _visible(me: SessionKey, key: SessionKey, target: Target) -> bool:
    """Tell whether one session reaches another; what it owns comes before what is agreed on."""
    mode = target.tools.sessions.visibility
    if key == me or mode is Visibility.SELF:
        return key == me
    if me in target.ancestors and mode in (Visibility.TREE, Visibility.ALL):
        return True
    if mode is Visibility.ALL:
        return key.agent == me.agent or agree(target.tools.agent_to_agent, me.agent, key.agent)
    nearer = takewhile(lambda above: above != me, target.ancestors)
    of_mine = all(one.agent == me.agent for one in (key, *nearer))
    return of_mine and (mode is Visibility.AGENT or me.kind == "main")


def agree(rules: AgentToAgent, one: AgentId, other: AgentId) -> bool:
    """Tell whether sessions of two different agents may have to do with one another."""
    allowed = [any(fnmatchcase(name, glob) for glob in rules.allow) for name in (one, other)]
    return rules.enabled and all(allowed)


def unreachable() -> BridgeError:
    """Return the one answer to an agent for a session that it may not see, or that is not there."""
    message = (
        "No such session can be reached from here. How far an agent reaches, is set by"
        " tools.sessions.visibility (self, tree, agent or all) and, between agents, by"
        " tools.agentToAgent (enabled, allow) in config.yaml."
    )
    hint = (
        "Take a key from sessions_list; for more, the user can write in config.yaml:"
        " tools: {sessions: {visibility: all}, agentToAgent: {allow: [names of both agents]}}."
    )
    return BridgeError("no_such_session", message, hint=hint)


def authorize(action: Action, requester: Requester, target: Target) -> None:
    """Pass, or refuse.

    Raises:
        BridgeError: `permission_denied`, or `no_such_session` for what the requester may not see.
    """
    if may(action, requester, target):
        return
    if target.key is not None and not may(Action.SEE, requester, target):
        if requester.role is Role.AGENT:
            raise unreachable()
        raise BridgeError("no_such_session", f"There is no session {target.key} here.")
    who = f"an agent ({requester.session})" if requester.session else f"a {requester.role}"
    message = f"{who[0].upper()}{who[1:]} may not {action}."
    raise BridgeError("permission_denied", message)
