"""Parts of a JSON text are the very text, for every document that a decoder accepts."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.protocol import rawjson

SPACE = st.text(" \t\r\n", max_size=2)
KEYS = st.sampled_from(["params", "update", 'q"', "\\", "é", ""])
NUMBERS = st.sampled_from(
    ["0", "-0", "1.50", "1E+2", "9223372036854775808", "NaN", "-Infinity", "1e400", "7" * 5000]
)
STRINGS = st.text().map(json.dumps) | st.sampled_from(['"\\ud800"', '"\\u0061"', '"]}"', '"\\\\"'])


@st.composite
def documents(draw: st.DrawFn, depth: int = 3) -> str:
    """A JSON text with every freedom of spelling: spaces, escapes, equal keys, odd numbers."""
    before, after = draw(SPACE), draw(SPACE)
    shape = draw(st.integers(0, 4)) if depth else 0
    if shape < 2:
        text = draw(NUMBERS | STRINGS | st.sampled_from(["null", "true", "false"]))
    elif shape == 2:
        text = "[" + ",".join(draw(st.lists(documents(depth - 1), max_size=3))) + "]"
    else:
        pairs = [
            draw(SPACE) + json.dumps(draw(KEYS)) + draw(SPACE) + ":" + draw(documents(depth - 1))
            for _ in range(draw(st.integers(0, 3)))
        ]
        text = "{" + ",".join(pairs) + "}"
    return before + text + after


def decode(text: str) -> Any:
    return json.loads(text, parse_int=lambda digits: digits)


def same(one: Any, other: Any) -> bool:
    return repr(one) == repr(other)


@given(documents(), KEYS)
def test_a_member_is_the_text_of_what_a_decoder_reads_there(text: str, key: str) -> None:
    value = decode(text)
    found = rawjson.member(text, key)
    if isinstance(value, dict) and key in value:
        assert found is not None
        assert found in text
        assert found == found.strip()
        assert same(decode(found), value[key])
    else:
        assert found is None


@given(documents())
def test_the_items_are_the_texts_of_what_a_decoder_reads(text: str) -> None:
    value = decode(text)
    found = list(rawjson.items(text))
    assert all(item in text for item in found)
    assert same([decode(item) for item in found], value if isinstance(value, list) else [])


def test_a_path_stops_where_there_is_no_object() -> None:
    assert rawjson.member('{"a":{"b":{"c":1 }}}', "a", "b") == '{"c":1 }'
    assert rawjson.member('{"a":[1]}', "a", "b") is None
    assert rawjson.member('{"a":{}}', "a", "b") is None
    assert rawjson.member(' {"a" : 1 } ') == ' {"a" : 1 } '


def test_of_equal_keys_the_last_one_counts() -> None:
    assert rawjson.member('{"a":1,"a":{"b":2,"\\u0062":3}}', "a", "b") == "3"


@pytest.mark.parametrize("depth", [199, 900, 100_000])
def test_no_depth_is_too_deep(depth: int) -> None:
    deep = "[" * depth + '"]"' + "]" * depth
    assert rawjson.member('{"a":' + deep + ',"b":1}', "a") == deep
    assert list(rawjson.items(f"[{deep}, 1]")) == [deep, "1"]


def test_a_long_escaped_string_behind_a_long_number_is_skipped() -> None:
    value = '{"n":' + "7" * 5000 + ',"s":"' + '\\"' * 100_000 + '"}'
    assert rawjson.member('{"a": ' + value + " }", "a") == value


def test_blanks_cost_no_step_each() -> None:
    text = '{"a"' + " " * 1_000_000 + ":1}"
    assert rawjson.member(text, "a") == "1"
    assert math.isclose(float(rawjson.member(text, "a") or "nan"), 1.0)


@pytest.mark.parametrize("text", ['{"a":[1', '{"a":', '{"a":"x', '{"a" 1}', "[1 2", "[", "{"])
def test_what_no_decoder_accepted_raises_nothing(text: str) -> None:
    rawjson.member(text, "a")
    assert len(list(rawjson.items(text))) < 3
