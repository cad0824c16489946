"""From what a person types to a key, and up and down the lineage."""

from uuid import UUID, uuid4

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.config.snapshot import Config
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.router import routes

ONE = SessionKey.acp(AgentId("codex"), UUID("3f2a0000-0000-4000-8000-000000000001"))
TWO = SessionKey.acp(AgentId("codex"), UUID("4f2b0000-0000-4000-8000-000000000002"))
MAIN = SessionKey.main(AgentId("codex"))
KEYS = [ONE, TWO, MAIN]


@pytest.mark.parametrize(
    ("text", "key"),
    [(str(ONE), ONE), ("3f2a", ONE), ("0002", TWO), ("main", MAIN), (str(MAIN), MAIN)],
)
def test_a_key_or_any_unique_part_of_it_is_found(text: str, key: SessionKey) -> None:
    assert routes.find_session(text, KEYS) == key


@pytest.mark.parametrize("text", ["", "zzz", "3F2A", f"{ONE}x"])
def test_what_fits_nothing_is_no_session(text: str) -> None:
    with pytest.raises(BridgeError) as caught:
        routes.find_session(text, KEYS)
    assert caught.value.code == "no_such_session"


def test_what_fits_several_is_ambiguous_and_they_are_named() -> None:
    with pytest.raises(BridgeError) as caught:
        routes.find_session("codex:acp", KEYS)
    assert caught.value.code == "ambiguous_key"
    assert str(ONE) in caught.value.message
    assert str(TWO) in caught.value.message


def test_of_many_that_fit_it_is_said_how_many_are_not_named() -> None:
    keys = [SessionKey.acp(AgentId("many"), uuid4()) for _ in range(routes.NAMED + 3)]
    with pytest.raises(BridgeError) as caught:
        routes.find_session("many", keys)
    assert caught.value.message.startswith("'many' fits 13 sessions: ")
    assert caught.value.message.endswith(" and 3 more.")


def test_a_whole_key_wins_over_a_longer_one_that_holds_it() -> None:
    longer = SessionKey.parse(f"{MAIN}line:direct:peer")
    assert routes.find_session(str(MAIN), [longer, MAIN]) == MAIN


def test_an_agent_is_configured_or_of_the_catalogue_or_the_demo() -> None:
    mine = AgentDefinition(id=AgentId("codex"), name="mine")
    config = Config(agents={mine.id: mine})
    assert routes.find_agent("codex", config) is mine
    assert routes.find_agent("claude", config).id == "claude"
    assert routes.find_agent("demo", config).id == "demo"
    with pytest.raises(BridgeError) as caught:
        routes.find_agent("nope", config)
    assert caught.value.code == "no_such_agent"
    assert "codex" in caught.value.message


@given(st.data(), st.integers(1, 12))
def test_ancestors_and_descendants_are_inverse(data: st.DataObject, size: int) -> None:
    keys = [SessionKey.acp(AgentId("a"), uuid4()) for _ in range(size)]
    parents: dict[SessionKey, SessionKey | None] = {}
    for n, key in enumerate(keys):
        parents[key] = data.draw(st.sampled_from([None, *keys[:n]]))
    for key in keys:
        above = routes.ancestors(key, parents)
        assert len(set(above)) == len(above)
        assert key not in above
        below = routes.descendants(key, parents)
        assert set(below) == {other for other in keys if key in routes.ancestors(other, parents)}
        assert len(set(below)) == len(below)


def test_a_cycle_in_damaged_records_ends() -> None:
    parents: dict[SessionKey, SessionKey | None] = {ONE: TWO, TWO: ONE}
    assert set(routes.ancestors(ONE, parents)) == {ONE, TWO}
    assert routes.descendants(ONE, parents) == [TWO]
