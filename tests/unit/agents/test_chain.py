"""The chain of calls inside a run: three long, without circles (0-13, 0-14, 7.4)."""

import pytest

from acpbridge.agents.chain import MAX_SUBAGENT_DEPTH, CallChain
from acpbridge.config.snapshot import Limits
from acpbridge.errors import BridgeError


def test_0_13_a_chain_begins_with_main() -> None:
    assert CallChain().entries == ("main",)


def test_0_13_a_call_makes_a_new_chain_and_leaves_the_callers_as_it_was() -> None:
    chain = CallChain()
    child = chain.spawn("reviewer")
    assert child.entries == ("main", "main/reviewer")
    assert chain.entries == ("main",)
    assert child.path == "main/reviewer"


def test_0_13_a_chain_of_three_cannot_call_on() -> None:
    chain = CallChain().spawn("a").spawn("b")
    assert len(chain.entries) == MAX_SUBAGENT_DEPTH == 3
    with pytest.raises(BridgeError, match="3 long already") as caught:
        chain.spawn("c")
    assert caught.value.code == "subagent_policy"
    assert caught.value.data["chain"] == ["main", "main/a", "main/a/b"]


def test_0_13_the_depth_of_sessions_is_another_count() -> None:
    # Raised or not, it changes nothing about chains.
    assert Limits(max_depth=5).max_depth > MAX_SUBAGENT_DEPTH
    with pytest.raises(BridgeError):
        CallChain().spawn("a").spawn("b").spawn("c")


@pytest.mark.parametrize("name", ["main", "reviewer", "Reviewer", "primary"])
def test_0_14_a_name_that_is_in_the_chain_is_refused(name: str) -> None:
    chain = CallChain().spawn("reviewer")
    with pytest.raises(BridgeError, match="circular SubAgent call") as caught:
        chain.spawn(name)
    assert caught.value.code == "subagent_policy"
    assert "main -> reviewer" in caught.value.message


def test_0_14_a_new_name_passes_also_below_another() -> None:
    assert CallChain().spawn("reviewer").spawn("tester").names() == ("main", "reviewer", "tester")


def test_0_14_a_name_that_is_none_is_refused() -> None:
    with pytest.raises(BridgeError) as caught:
        CallChain().spawn("//")
    assert caught.value.code == "no_such_agent"
