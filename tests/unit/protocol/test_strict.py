"""The strict decoder: what it accepts reads like `json`, what it refuses has one type of error."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.protocol import strict

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
)
JSON = st.recursive(
    SCALARS,
    lambda s: st.lists(s, max_size=3) | st.dictionaries(st.text(max_size=4), s, max_size=3),
    max_leaves=6,
)


@given(JSON.filter(lambda value: "\\ud" not in json.dumps(value)), st.booleans())
def test_sound_json_reads_like_json(value: Any, ascii_only: bool) -> None:
    line = json.dumps(value, ensure_ascii=ascii_only).encode()
    assert repr(strict.loads(line)) == repr(json.loads(line))


@given(st.binary())
def test_any_bytes_give_a_value_or_a_strict_error(line: bytes) -> None:
    try:
        value = strict.loads(line)
    except strict.StrictError:
        return
    assert strict.loads(strict.dumps(value)) == value


REFUSED = {
    "equal keys": b'{"a":1,"a":2}',
    "equal keys, one escaped": b'{"a":1,"\\u0061":2}',
    "equal keys, deep": b'[{"b":{"a":1,"a":1}}]',
    "NaN": b'{"a":NaN}',
    "Infinity": b"[Infinity]",
    "minus Infinity": b"-Infinity",
    "a float beyond all": b"1e400",
    "a lone surrogate": b'"\\ud800"',
    "a lone surrogate as a key": b'{"\\udfff":1}',
    "an encoded surrogate": b'"\xed\xa0\x80"',
    "not UTF-8": b'"\xff"',
    "UTF-16": '{"a":1}'.encode("utf-16-le"),
    "a byte-order mark": b"\xef\xbb\xbf{}",
    "a control character": b'"a\x01"',
    "5,000 digits": b"1" * 5000,
    "201 levels": b"[" * 201 + b"]" * 201,
    "1,000 levels": b'{"a":' * 1000 + b"1" + b"}" * 1000,
    "200,000 levels": b"[" * 200_000,
    "nothing": b"",
    "two values": b"{} {}",
    "single quotes": b"{'a':1}",
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_must_not_be_acted_on_is_refused_row_11(name: str) -> None:
    with pytest.raises(strict.StrictError):
        strict.loads(REFUSED[name])


def test_a_pair_of_surrogates_is_a_character() -> None:
    assert strict.loads(b'"\\ud83d\\ude00"') == "\U0001f600"


def test_the_reason_never_quotes_the_text() -> None:
    with pytest.raises(strict.StrictError) as caught:
        strict.loads(b'{"secret":hunter2}')
    assert "hunter2" not in str(caught.value)


def test_200_levels_are_accepted() -> None:
    assert strict.loads(b"[" * 200 + b"]" * 200)


@given(JSON)
def test_what_is_written_is_one_line_of_ascii_without_spaces(value: Any) -> None:
    line = strict.dumps(value)
    assert line.isascii()
    assert b"\n" not in line
    assert json.loads(line) == value


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_no_json_is_not_written(value: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        strict.dumps(value)
