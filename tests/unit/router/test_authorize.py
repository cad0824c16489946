"""The gate, as a whole: every action, by every role, towards every kind of session."""

from uuid import uuid4

import pytest

from acpbridge.errors import BridgeError
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.router.authorize import REACH, Action, Reach, Target, authorize, may

ME, OTHER, TOP = (SessionKey.acp(AgentId(name), uuid4()) for name in ("me", "other", "top"))

RELATIONS = {
    "none": Target(),
    "self": Target(ME, (TOP,)),
    "child": Target(OTHER, (ME, TOP)),
    "grandchild": Target(OTHER, (TOP, ME)),
    "parent": Target(TOP),
    "sibling": Target(OTHER, (TOP,)),
    "stranger": Target(OTHER),
}

EVERYWHERE = frozenset(RELATIONS)
NOWHERE = frozenset[str]()
BELOW = frozenset({"child", "grandchild"})
LINEAGE = BELOW | {"self"}

# Written out by hand, apart from the code's own table.
ALLOWED: dict[Role, dict[Action, frozenset[str]]] = {
    Role.OPERATOR: dict.fromkeys(Action, EVERYWHERE),
    Role.SYSTEM: {
        **dict.fromkeys(Action, EVERYWHERE),
        Action.ANSWER: NOWHERE,
        Action.ALLOW_BY_RULE: NOWHERE,
        Action.GRANTS: NOWHERE,
    },
    Role.EDITOR: {
        **dict.fromkeys(Action, EVERYWHERE),
        Action.PRUNE: NOWHERE,
        Action.STOP_DAEMON: NOWHERE,
        Action.GRANTS: NOWHERE,
    },
    Role.AGENT: {
        Action.RUN: EVERYWHERE,
        Action.PROMPT: BELOW,
        Action.SEE: LINEAGE,
        Action.CANCEL: BELOW,
        Action.CLOSE: BELOW,
        Action.KILL: BELOW,
        Action.LIST_QUESTIONS: LINEAGE,
        Action.ANSWER: NOWHERE,
        Action.ALLOW_BY_RULE: NOWHERE,
        Action.RESTART: NOWHERE,
        Action.PRUNE: NOWHERE,
        Action.CHOOSE: NOWHERE,
        Action.STOP_DAEMON: NOWHERE,
        Action.GRANTS: NOWHERE,
    },
    Role.CHANNEL: dict.fromkeys(Action, NOWHERE),
}


def requester(role: Role) -> Requester:
    return Requester(role, ME if role is Role.AGENT else None, client_id="c1")


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("action", Action)
@pytest.mark.parametrize("role", Role)
def test_the_whole_table(role: Role, action: Action, relation: str) -> None:
    target = RELATIONS[relation]
    allowed = relation in ALLOWED[role][action]
    assert may(action, requester(role), target) is allowed
    if allowed:
        authorize(action, requester(role), target)
        return
    with pytest.raises(BridgeError) as caught:
        authorize(action, requester(role), target)
    hidden = target.key is not None and relation not in ALLOWED[role][Action.SEE]
    assert caught.value.code == ("no_such_session" if hidden else "permission_denied")


def test_the_table_is_total() -> None:
    assert set(REACH) == set(Role)
    assert all(set(row) == set(Action) for row in REACH.values())


@pytest.mark.parametrize("action", Action)
def test_row_24_an_agent_never_answers_and_one_of_no_session_reaches_nothing(
    action: Action,
) -> None:
    assert REACH[Role.AGENT][Action.ANSWER] is Reach.NONE
    nobody = Requester(Role.AGENT)
    found = [name for name, target in RELATIONS.items() if may(action, nobody, target)]
    assert found == (list(RELATIONS) if action is Action.RUN else [])


def test_a_refusal_names_who_and_what() -> None:
    with pytest.raises(BridgeError, match=rf"An agent \({ME}\) may not cancel\."):
        authorize(Action.CANCEL, requester(Role.AGENT), RELATIONS["self"])
    with pytest.raises(BridgeError, match="A channel may not run"):
        authorize(Action.RUN, requester(Role.CHANNEL), Target())
