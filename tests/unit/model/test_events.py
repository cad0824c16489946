"""An event is one line of JSON; an update's bytes are spliced in as they came."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.model.events import Event, Fact, Stamp, Update, render
from acpbridge.model.keys import MAIN, SessionKey

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda s: st.lists(s, max_size=3) | st.dictionaries(st.text(max_size=4), s, max_size=3),
    max_leaves=6,
)
OWN = ("seq", "epoch", "at", "key", "turn", "type")
FIELDS = st.dictionaries(st.text(max_size=8).filter(lambda name: name not in OWN), JSON, max_size=3)


def stamp(seq: int = 7, turn: str | None = "r1") -> Stamp:
    return Stamp(seq, "e1", "2026-01-02T03:04:05Z", SessionKey.main(MAIN), turn)


def read(event: Event, seq: int = 7, turn: str | None = "r1") -> dict[str, Any]:
    line = render(event, stamp(seq, turn))
    assert b"\n" not in line
    value: dict[str, Any] = json.loads(line)
    assert tuple(value)[: len(OWN)] == OWN
    return value


@given(FIELDS, st.integers(1, 2**63), st.none() | st.text())
def test_a_fact_is_one_line_with_its_fields_behind_the_stamp(
    values: dict[str, Any], seq: int, turn: str | None
) -> None:
    assert read(Fact("notice", values), seq, turn) == {
        "seq": seq,
        "epoch": "e1",
        "at": "2026-01-02T03:04:05Z",
        "key": "agent:main:main",
        "turn": turn,
        "type": "notice",
        **values,
    }


@pytest.mark.parametrize(
    "raw",
    [
        b'{"sessionUpdate":"plan","a":1.50,"b":null,"_meta":{}}',
        b'{ "z" : 1E+2,\t"a":9223372036854775808 }',
        b'{"a":"\\ud800\xc3\xa9","a":2}',
        b"{}",
    ],
)
def test_an_update_keeps_its_very_bytes(raw: bytes) -> None:
    line = render(Update(raw, "plan"), stamp())
    assert line.endswith(b',"type":"update","update":' + raw + b"}")
    assert json.loads(line)["update"] == json.loads(raw)


def test_an_event_outside_any_turn_says_so() -> None:
    assert read(Fact("process_started"), turn=None)["turn"] is None
