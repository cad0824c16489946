"""The gate, as a whole: every action, by every role, towards every kind of session."""

from uuid import uuid4

import pytest

from acpbridge.config.tools import AgentToAgent, SessionTools, Tools, Visibility
from acpbridge.errors import BridgeError
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.router.authorize import REACH, Action, Reach, Target, authorize, may, unreachable

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
        Action.DELIVERIES: NOWHERE,
    },
    Role.EDITOR: {
        **dict.fromkeys(Action, EVERYWHERE),
        Action.PRUNE: NOWHERE,
        Action.STOP_DAEMON: NOWHERE,
        Action.GRANTS: NOWHERE,
        Action.DELIVERIES: NOWHERE,
    },
    Role.AGENT: {
        Action.RUN: EVERYWHERE,
        Action.PROMPT: BELOW,
        Action.SEND: LINEAGE,
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
        Action.DELIVERIES: NOWHERE,
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


# ---- How far the configuration lets an agent reach ----

RESEARCH, CODEX = AgentId("research"), AgentId("codex")
MY_MAIN = SessionKey.main(RESEARCH)
MY_CHILD = SessionKey.subagent(RESEARCH, uuid4())

WHOM = {
    "self": lambda me: Target(me),
    "tree child": lambda me: Target(SessionKey.subagent(RESEARCH, uuid4()), (me,)),
    "same agent": lambda me: Target(SessionKey.acp(RESEARCH, uuid4())),
    "same agent, another's child": lambda me: Target(
        SessionKey.subagent(RESEARCH, uuid4()), (SessionKey.main(CODEX),)
    ),
    "other agent": lambda me: Target(SessionKey.main(CODEX)),
    "owned ACP child": lambda me: Target(SessionKey.acp(CODEX, uuid4()), (me,)),
}

AGREED = {
    "off": AgentToAgent(enabled=False, allow=("*",)),
    "on": AgentToAgent(),
    "allow": AgentToAgent(allow=("rese*", "codex")),
    "allow one": AgentToAgent(allow=("codex",)),
}

OWNED = {"self", "tree child", "owned ACP child"}
OF_MINE = {"self", "tree child", "same agent"}
ALL_BUT_OTHERS = set(WHOM) - {"other agent"}

# Whom a main session reaches, and any other one where that is less. Written out by hand.
REACHED: dict[str, tuple[set[str], set[str]]] = {
    "self": ({"self"}, {"self"}),
    "tree": (OWNED | {"same agent"}, OWNED),
    "agent": (OF_MINE, OF_MINE),
    "all": (ALL_BUT_OTHERS, ALL_BUT_OTHERS),
}


@pytest.mark.parametrize("whom", WHOM)
@pytest.mark.parametrize("agreed", AGREED)
@pytest.mark.parametrize("visibility", REACHED)
@pytest.mark.parametrize("me", [MY_MAIN, MY_CHILD], ids=["main", "sub-agent"])
def test_3_3_1_17_visibility_and_agent_to_agent_as_a_whole(
    me: SessionKey, visibility: str, agreed: str, whom: str
) -> None:
    """With ownership looked at last: `False is True` for an owned ACP child where it is off."""
    tools = Tools(
        sessions=SessionTools(visibility=Visibility(visibility)), agent_to_agent=AGREED[agreed]
    )
    found = WHOM[whom](me)
    target = Target(found.key, found.ancestors, tools)
    who = Requester(Role.AGENT, me, client_id="c1")
    reached = REACHED[visibility][0 if me is MY_MAIN else 1]
    everyone = visibility == "all" and agreed == "allow"
    expected = whom in reached or (everyone and whom == "other agent")
    assert may(Action.SEE, who, target) is expected
    assert may(Action.SEND, who, target) is expected
    below = me in target.ancestors
    # What ends or prompts something is of one's own tree, however far one sees.
    for action in (Action.KILL, Action.CANCEL, Action.CLOSE, Action.PROMPT):
        assert may(action, who, target) is (expected and below)
    assert may(Action.LIST_QUESTIONS, who, target) is (expected and (below or whom == "self"))
    assert not may(Action.ANSWER, who, target)
    for role in (Role.OPERATOR, Role.EDITOR, Role.SYSTEM):
        assert may(Action.SEND, Requester(role), target)
    assert not may(Action.SEND, Requester(Role.CHANNEL), target)


def test_case_139_a_refusal_names_both_settings_and_is_the_same_for_whoever_is_asked_for() -> None:
    told = set()
    for whom in ("other agent", "same agent, another's child"):
        with pytest.raises(BridgeError) as caught:
            authorize(Action.SEND, requester(Role.AGENT), WHOM[whom](ME))
        told.add((caught.value.code, caught.value.message, caught.value.hint))
    assert told == {("no_such_session", unreachable().message, unreachable().hint)}
    assert "tools.sessions.visibility" in unreachable().message
    assert "tools.agentToAgent" in unreachable().message
    assert "config.yaml" in unreachable().message
