"""Names of agents and sessions: parsing and printing are inverse, and nothing else passes."""

import re
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.errors import BridgeError
from acpbridge.model.keys import MAIN, RESERVED, AgentId, SessionKey, agent_id, is_agent_id

UUID = "3f2a8c1e-0d4b-4c6a-9e57-1b2c3d4e5f60"
IDS = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,63}", fullmatch=True).map(AgentId)
FOREIGN = st.text(min_size=1)
KEYS = st.one_of(
    st.builds(SessionKey.main, IDS),
    st.builds(SessionKey.subagent, IDS, st.uuids(version=4)),
    st.builds(SessionKey.acp, IDS, st.uuids(version=4)),
    st.builds(lambda i, a, h: SessionKey(i, "acp", ("binding", a, h)), IDS, FOREIGN, FOREIGN),
    st.builds(
        lambda i, channel, parts: SessionKey(i, channel, tuple(parts)),
        IDS,
        FOREIGN.filter(lambda text: text not in RESERVED),
        st.lists(FOREIGN, min_size=2, max_size=5),
    ),
)


@given(KEYS)
def test_parse_is_the_inverse_of_str(key: SessionKey) -> None:
    assert SessionKey.parse(str(key)) == key


@given(KEYS, KEYS)
def test_different_keys_print_differently(one: SessionKey, other: SessionKey) -> None:
    assert (str(one) == str(other)) == (one == other)


@given(st.text() | st.text("agent:min%3A-/").map("agent:".__add__))
def test_any_text_is_a_key_that_prints_the_same_or_an_error(text: str) -> None:
    try:
        key = SessionKey.parse(text)
    except BridgeError as error:
        code = error.code
    else:
        assert str(key) == text
        return
    assert code == "no_such_session"


def test_the_three_forms_are_printed_as_they_are_written_down() -> None:
    assert str(SessionKey.main(MAIN)) == "agent:main:main"
    assert str(SessionKey.acp(AgentId("codex"), uuid.UUID(UUID))) == f"agent:codex:acp:{UUID}"
    assert str(SessionKey.subagent(MAIN, uuid.UUID(UUID))) == f"agent:main:subagent:{UUID}"


def test_foreign_parts_are_encoded_where_they_hold_marks_of_the_scheme() -> None:
    key = SessionKey(MAIN, "slack", ("direct", "T1/U:2 100%"))
    assert str(key) == "agent:main:slack:direct:T1%2FU%3A2 100%25"
    assert SessionKey.parse(str(key)).parts == ("direct", "T1/U:2 100%")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "agent",
        "agent:",
        "agent:main",
        "agent:main:",
        "main:main",
        "Agent:main:main",
        "agent::main",
        "agent:Main:main",
        "agent:-x:main",
        "agent:a/b:main",
        "agent:" + "a" * 65 + ":main",
        "agent:main:main:x",
        "agent:main:acp",
        "agent:main:acp:",
        "agent:main:acp:3f2a",
        f"agent:main:acp:{UUID.upper()}",
        f"agent:main:acp:{UUID.replace('-', '')}",
        f"agent:main:acp:{{{UUID}}}",
        f"agent:main:acp:{UUID}:x",
        f"agent:main:acp:{UUID[:14]}1{UUID[15:]}",
        f"agent:main:subagent:{UUID[:19]}c{UUID[20:]}",
        "agent:main:acp:binding:a",
        "agent:main:acp:binding:a:",
        "agent:main:direct:a:b",
        "agent:main:slack:direct",
        "agent:main:slack::b",
        "agent:main:slack:direct:a%2fb",
        "agent:main:slack:direct:%41",
        "agent:main:slack:direct:100%",
        "agent:main:slack:direct:a/b",
        " agent:main:main",
        "agent:main:main\n",
    ],
)
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(BridgeError) as caught:
        SessionKey.parse(text)
    assert caught.value.code == "no_such_session"


def test_the_short_name_is_what_a_person_types() -> None:
    assert SessionKey.parse(f"agent:codex:acp:{UUID}").short == UUID[:8]
    assert SessionKey.main(MAIN).short == "main"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("codex", "codex"),
        ("Claude Code", "claude-code"),
        ("  My  Agent! ", "my-agent"),
        ("--x--", "x"),
        ("_x_", "x_"),
        ("a_b", "a_b"),
        ("é", None),
        ("", None),
        ("---", None),
        ("___", None),
        ("primary", "main"),
        ("PRIMARY", "main"),
        ("main", "main"),
        ("a" * 70, "a" * 64),
        ("a" * 63 + "-b", "a" * 63),
        ("7", "7"),
    ],
)
def test_an_agent_id_is_normalised(text: str, name: str | None) -> None:
    if name is not None:
        assert agent_id(text) == name
        return
    with pytest.raises(BridgeError) as caught:
        agent_id(text)
    assert caught.value.code == "no_such_agent"


@given(st.text() | st.text("aZ0_- "))
def test_a_normalised_id_is_canonical_and_stays_as_it_is(text: str) -> None:
    try:
        name = agent_id(text)
    except BridgeError:
        return
    assert is_agent_id(name)
    assert agent_id(name) == name
    assert re.fullmatch(r"[a-z0-9][a-z0-9_-]{0,63}", name)


@given(IDS.filter(lambda name: not name.endswith("-") and name != "primary"))
def test_a_canonical_id_is_not_changed(name: AgentId) -> None:
    assert agent_id(name) == name


@pytest.mark.parametrize("text", ["Codex", "a b", "", "-a", "a" * 65, "a\n"])
def test_only_the_canonical_spelling_is_an_id(text: str) -> None:
    assert not is_agent_id(text)
