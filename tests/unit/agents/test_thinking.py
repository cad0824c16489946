"""Thoughts in the middle of a text, however the text is cut."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.agents.thinking import Separator, strip_think_blocks

PIECES = st.lists(
    st.sampled_from(
        [
            "<think>",
            "</think>",
            "<THINKING>",
            "</thinking>",
            "<",
            "<thin",
            "k>",
            " word ",
            "/>",
            "é",
        ]
    ),
    max_size=12,
).map("".join)


def separated(pieces: list[str]) -> tuple[str, str]:
    separator = Separator()
    parts = [*(separator.feed(piece) for piece in pieces), separator.end()]
    return "".join(said for said, _ in parts), "".join(thought for _, thought in parts)


@given(PIECES, st.lists(st.integers(0, 60), max_size=5))
def test_0_5_where_a_text_is_cut_changes_nothing(text: str, cuts: list[int]) -> None:
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in pairwise(places)]
    assert separated(pieces) == separated([text])
    assert strip_think_blocks(text) == separated([text])[0].strip()


def test_what_cannot_become_a_tag_is_passed_on_at_once() -> None:
    separator = Separator()
    assert separator.feed("a < b") == ("a < b", "")
    assert separator.feed(" then <th") == (" then ", "")
    assert separator.feed("ink>x") == ("", "x")
    assert separator.feed("</think>y") == ("y", "")
    assert separator.feed("<thin") == ("", "")
    assert separator.end() == ("<thin", "")


@pytest.mark.parametrize("text", ["<think>a<think>b</think>c</think>d", "</think>d", "d"])
def test_blocks_may_be_nested_and_ends_may_stand_alone(text: str) -> None:
    assert strip_think_blocks(text) == "d"
