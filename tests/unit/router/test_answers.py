"""What was said in a call, and who is spoken to in a text."""

from typing import Any

import pytest

from acpbridge.router.answers import extract_call_response, first_user_text, last_user_index
from acpbridge.router.mentions import Mentions, find_mentions

PARTS = [
    {"type": "thinking", "text": "hm"},
    {"type": "text", "text": "one, "},
    {"type": "image", "data": "x"},
    {"type": "text", "text": "two"},
]
CALLS = {"role": "assistant", "content": [{"type": "tool_use", "name": "read", "input": {}}]}
ASKED = {"role": "user", "content": "well?"}


@pytest.mark.parametrize(
    ("result", "text"),
    [
        ({"response": " plain \n"}, "plain"),
        ({"messages": [ASKED, {"role": "assistant", "content": "text"}]}, "text"),
        ({"messages": [ASKED, {"type": "ai", "content": PARTS}]}, "one, two"),
        ({"messages": [ASKED, {"role": "assistant", "content": "first"}, CALLS]}, "first"),
        ({"messages": [ASKED, CALLS, {"role": "tool", "content": "secret"}]}, ""),
        ({"messages": [{"role": "assistant", "content": "old"}, ASKED, CALLS]}, ""),
        ({"messages": [{"role": "assistant", "content": "old"}, ASKED]}, ""),
        ({"messages": []}, ""),
        ({"messages": None}, ""),
        ({"messages": ["odd", 7, {"role": "assistant"}]}, ""),
        ({"messages": [{"role": "assistant", "content": ["a", {"type": "text"}, 7]}]}, "a"),
        ({}, ""),
        ({"response": 7}, ""),
    ],
)
def test_4_21_the_last_visible_words_of_a_call_are_its_response(
    result: dict[str, Any], text: str
) -> None:
    assert extract_call_response(result) == text


@pytest.mark.parametrize(
    ("messages", "text", "last"),
    [
        ([ASKED, {"role": "user", "content": "again"}], "well?", 1),
        ([{"role": "system", "content": "s"}, {"type": "human", "content": PARTS}], "one, two", 1),
        ([{"role": "assistant", "content": "hello"}], "", 1),
        ([{"role": "user", "content": ""}, ASKED], "well?", 1),
        ([CALLS], "", 1),
        ([], "", 0),
        (["odd", None], "", 2),
    ],
)
def test_4_21_what_the_user_said_first(messages: list[Any], text: str, last: int) -> None:
    assert first_user_text(messages) == text
    assert last_user_index(messages) == last


KNOWN = ("coder", "researcher", "main")


@pytest.mark.parametrize(
    ("text", "agents", "unknown"),
    [
        ("@researcher look", ("researcher",), ()),
        ("Please, @Researcher and @coder: look.", ("researcher", "coder"), ()),
        ("(@coder), @coder!", ("coder",), ()),
        ("is it done, @coder?", ("coder",), ()),
        ("ask @coder.", ("coder",), ()),
        ("ask @coder. Then @nobody", ("coder",), ("nobody",)),
        ("ask @code", (), ("code",)),
        ("@primary", ("main",), ()),
        ("mail me@coder or coder@coder.org", (), ()),
        ("mail a.b+c@coder and <x@coder>", (), ()),
        ("npm i @coder/cli", (), ()),
        ("see https://host/@coder and ./@coder", (), ()),
        ("@coder.example.org is a host", (), ()),
        ("`@coder` is code, ``a ` @coder`` too", (), ()),
        ("```\n@coder\n```\nbut @researcher is not", ("researcher",), ()),
        ("~~~py\n@coder\n~~~\n@researcher", ("researcher",), ()),
        ("```\n@coder\nleft open", (), ()),
        ("````\n```\n@coder\n````\n@researcher", ("researcher",), ()),
        ("a lone ` and @coder", ("coder",), ()),
        ("@@coder @ coder @-x", (), ()),
        ("", (), ()),
    ],
)
def test_4_23_a_name_is_a_mention_and_an_address_or_code_is_none(
    text: str, agents: tuple[str, ...], unknown: tuple[str, ...]
) -> None:
    assert find_mentions(text, KNOWN) == Mentions(agents, unknown)


def test_4_23_a_long_text_without_an_end_is_read_in_one_go() -> None:
    text = "`" * 20_000 + " @coder " + "``` x\n" * 5_000
    assert find_mentions(text, KNOWN).unknown == ()
