"""The shapes that are acted on, and the bytes that are only relayed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.errors import INVALID_PARAMS, BridgeError
from acpbridge.protocol import acp

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda s: st.lists(s, max_size=3) | st.dictionaries(st.text(max_size=4), s, max_size=3),
    max_leaves=6,
)

OPTION = {"optionId": "a", "name": "Allow", "kind": "allow_once"}
GOOD: dict[str, Any] = {"sessionId": "s", "toolCall": {"toolCallId": "t"}, "options": [OPTION]}


def relayed(update: bytes, params: bytes = b'{"sessionId":"s","update":%s}') -> bytes:
    return b'{"jsonrpc":"2.0","method":"session/update","params":' + params % update + b"}"


UPDATES = {
    "spelling of numbers": b'{"a":1.50,"b":1E+2,"c":-0,"d":9223372036854775808,"e":0.1e-7}',
    "null is not absent": b'{"sessionUpdate":"session_info_update","title":null}',
    "unknown fields and words": b'{"sessionUpdate":"novelty","_meta":{"x/y":{}},"kind":"?"}',
    "order of keys": b'{"z":1,"a":2,"m":3}',
    "blanks": b'{ "a" :\t[ 1 , 2 ] }',
    "escapes": b'{"a":"\\u00e9\\/\\ud800","b":"\xc3\xa9"}',
    "NaN": b'{"a":NaN,"b":-Infinity}',
    "equal keys": b'{"a":1,"a":2}',
    "5,000 digits": b'{"a":' + b"1" * 5000 + b"}",
    "too deep for a decoder": b"[" * 950 + b"]" * 950,
    "empty": b"{}",
    "brackets in text": b'{"a":"]}\\"}","b":"{"}',
    "not an object": b"null",
}


@pytest.mark.parametrize("name", UPDATES)
def test_the_update_is_the_very_bytes(name: str) -> None:
    raw = UPDATES[name]
    assert acp.raw_update(relayed(raw)) == raw
    behind = relayed(raw, b' {"update" : %s , "_meta" : {"update":1}} ')
    assert acp.raw_update(behind) == raw


@given(JSON)
def test_the_update_of_any_document_reads_the_same(update: Any) -> None:
    line = json.dumps({"method": "session/update", "params": {"a": 1, "update": update}})
    assert json.loads(acp.raw_update(line.encode())) == update


def test_a_line_without_an_update_gives_null() -> None:
    assert acp.raw_update(b'{"method":"session/update","params":[]}') == b"null"
    assert acp.raw_update(b'{"method":"session/update"}') == b"null"


@given(JSON)
def test_any_params_have_a_kind_or_none(params: Any) -> None:
    assert acp.update_kind(params) is None
    kind = acp.update_kind({"update": params})
    assert kind is None or isinstance(kind, str)
    acp.mode_of_update(
        {"update": {"sessionUpdate": "config_option_update", "configOptions": params}}
    )
    acp.mode_of_update(
        {"update": {"sessionUpdate": "current_mode_update", "currentModeId": params}}
    )


# Permission requests.


def refused(params: Any) -> str:
    with pytest.raises(BridgeError) as caught:
        acp.read(acp.PermissionParams, params, "session/request_permission")
    assert caught.value.rpc_code == INVALID_PARAMS
    return caught.value.message


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in GOOD.items() if name != key}


@pytest.mark.parametrize("options", [None, {}, "a", 1, [1], [{}], [None], {"0": OPTION}])
def test_options_of_a_wrong_type_are_refused_row_5(options: Any) -> None:
    assert "options" in refused({**GOOD, "options": options})
    assert "options" in refused(without("options"))


def test_empty_options_are_read_row_5() -> None:
    assert acp.read(acp.PermissionParams, {**GOOD, "options": []}, "x").options == []


@pytest.mark.parametrize("call", [None, [], "t", 1, {}, {"toolCallId": ""}, {"toolCallId": 1}])
def test_a_tool_call_without_an_id_is_refused_row_10(call: Any) -> None:
    assert "toolCall" in refused({**GOOD, "toolCall": call})
    assert "toolCall" in refused(without("toolCall"))


@pytest.mark.parametrize(
    "broken",
    [
        {"sessionId": None},
        {"sessionId": 5},
        {"toolCall": {"toolCallId": "t", "title": 5}},
        {"toolCall": {"toolCallId": "t", "kind": True}},
        {"toolCall": {"toolCallId": "t", "content": "text"}},
        {"toolCall": {"toolCallId": "t", "content": ["text"]}},
        {"toolCall": {"toolCallId": "t", "locations": {"path": "/"}}},
        {"options": [{**OPTION, "optionId": 1}]},
        {"options": [{**OPTION, "name": None}]},
        {"options": [{**OPTION, "kind": ["allow_once"]}]},
        {"options": [{"optionId": "a", "name": "n"}]},
    ],
)
def test_wrong_types_are_refused_and_the_field_is_named_row_11(broken: dict[str, Any]) -> None:
    (field,) = broken
    assert field in refused({**GOOD, **broken})


@pytest.mark.parametrize("params", [None, [], [GOOD], "text", 5])
def test_params_that_are_no_object_are_refused_case_156(params: Any) -> None:
    assert refused(params)


TEXT = st.text(max_size=4)
ODD = JSON | st.fixed_dictionaries({}, optional={"path": TEXT, "type": TEXT, "toolCallId": TEXT})
CALLS = st.fixed_dictionaries(
    {"toolCallId": st.just("t") | ODD},
    optional={
        "title": st.none() | TEXT | ODD,
        "kind": st.none() | TEXT | ODD,
        "content": st.none() | st.lists(ODD, max_size=2),
        "locations": st.none() | st.lists(ODD, max_size=2) | ODD,
        "rawInput": JSON,
        "novel": JSON,
    },
)
OPTION_LISTS = st.lists(
    st.just(OPTION) | st.fixed_dictionaries(dict.fromkeys(OPTION, TEXT | ODD)) | ODD, max_size=3
)


def is_call(value: Any) -> bool:
    """Judge a tool call by the words of the protocol: all but its id may be null or missing."""
    return (
        isinstance(value, dict)
        and isinstance(value.get("toolCallId"), str)
        and value["toolCallId"] != ""
        and all(isinstance(value.get(name), str | None) for name in ("title", "kind"))
        and all(
            value.get(name) is None
            or (isinstance(value[name], list) and all(isinstance(i, dict) for i in value[name]))
            for name in ("content", "locations")
        )
    )


def is_option(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(value.get(name), str) for name in OPTION)


@given(TEXT | JSON, CALLS | ODD, OPTION_LISTS | ODD)
def test_params_are_read_as_they_are_or_refused_and_never_half(
    session: Any, call: Any, options: Any
) -> None:
    value = {"sessionId": session, "toolCall": call, "options": options}
    good = isinstance(session, str) and is_call(call)
    good = good and isinstance(options, list) and all(map(is_option, options))
    if good:
        read = acp.read(acp.PermissionParams, value, "x")
        assert read.model_dump(exclude_unset=True) == value
    else:
        assert refused(value)


@given(JSON)
def test_what_is_no_question_is_refused(params: Any) -> None:
    assert refused(params)


def test_unknown_kinds_and_fields_and_nulls_are_kept() -> None:
    call = {"toolCallId": "t", "title": None, "kind": "novel", "content": None, "rawInput": 0}
    params = {**GOOD, "toolCall": call, "options": [{**OPTION, "kind": "?"}], "_meta": {"a": 1}}
    read = acp.read(acp.PermissionParams, params, "x")
    assert (read.toolCall.kind, read.toolCall.title, read.toolCall.rawInput) == ("novel", None, 0)
    assert read.options[0].kind == "?"
    assert read.model_extra == {"_meta": {"a": 1}}


def test_the_answer_has_two_outcomes_in_one() -> None:
    assert acp.selected("a") == {"outcome": {"outcome": "selected", "optionId": "a"}}
    assert acp.selected(None) == {"outcome": {"outcome": "cancelled"}}
    assert acp.selected("") == {"outcome": {"outcome": "selected", "optionId": ""}}


# Answers.


@pytest.mark.parametrize("version", [None, "1", 1.0, True, [1]])
def test_a_version_is_an_integer(version: Any) -> None:
    with pytest.raises(BridgeError, match="protocolVersion"):
        acp.read(acp.InitializeResult, {"protocolVersion": version}, "initialize")


def test_answers_keep_what_is_not_known() -> None:
    raw = {"sessionId": "s", "usage": {"a": 1}}
    assert acp.read(acp.NewSessionResult, raw, "session/new").model_extra == {"usage": {"a": 1}}
    with pytest.raises(BridgeError, match="sessionId"):
        acp.read(acp.NewSessionResult, {"sessionId": ""}, "session/new")


# Modes.

MODES = {
    "currentModeId": "ask",
    "availableModes": [{"id": "ask"}, {"id": "auto"}, {}, 5, {"id": 1}],
}
OPTIONS = [
    {"id": "model", "category": "model", "currentValue": "m", "options": [{"value": "m"}]},
    {
        "id": "mode",
        "category": "mode",
        "currentValue": "plan",
        "options": [{"value": "plan"}, {"options": [{"value": "yolo"}, {"value": 5}]}, "x"],
    },
]


def test_the_mode_is_read_from_either_way_of_saying_it() -> None:
    assert acp.current_mode({"modes": MODES}) == "ask"
    assert acp.current_mode({"configOptions": OPTIONS}) == "plan"
    assert acp.current_mode({"modes": MODES, "configOptions": OPTIONS}) == "plan"
    assert acp.current_mode({}) is None


def test_offered_modes_are_those_of_both_ways() -> None:
    assert acp.offered_modes({"modes": MODES}) == ("ask", "auto")
    assert acp.offered_modes({"configOptions": OPTIONS}) == ("plan", "yolo")
    assert acp.offered_modes({"modes": MODES, "configOptions": OPTIONS}) == (
        *("ask", "auto"),
        *("plan", "yolo"),
    )


def test_an_option_without_an_id_offers_no_mode() -> None:
    nameless = {"options": [{"value": "m"}]}
    assert acp.offered_modes({"configOptions": [nameless]}) == ()
    assert acp.offered_modes({"configOptions": [{**nameless, "category": "mode"}]}) == ()


def test_a_mode_update_is_read_in_all_its_spellings() -> None:
    def told(kind: str, **fields: Any) -> str | None:
        return acp.mode_of_update({"update": {"sessionUpdate": kind, **fields}})

    assert told("current_mode_update", currentModeId="a") == "a"
    assert told("current_mode_update", modeId="a") == "a"
    assert told("current_mode_update", currentModeId=5) is None
    assert told("config_option_update", configOptions=OPTIONS) == "plan"
    assert told("config_option_update", configOptions=[]) is None
    assert told("plan", currentModeId="a") is None


@given(JSON)
def test_any_answer_has_modes_or_none(value: Any) -> None:
    for key in ("modes", "configOptions"):
        for result in ({key: value}, {key: [value]}, {key: {"availableModes": value}}):
            for one in (acp.current_mode(result), acp.mode_option_id(result)):
                assert one is None or isinstance(one, str)
            assert all(isinstance(mode, str) for mode in acp.offered_modes(result))


@pytest.mark.parametrize(
    ("marker", "able"), [(True, True), ({}, True), (False, False), (None, False), (1, False)]
)
def test_a_capability_is_true_or_an_object(marker: Any, able: bool) -> None:
    capabilities = {"agentCapabilities": {"sessionCapabilities": {"resume": marker}}}
    assert acp.can(capabilities, "sessionCapabilities", "resume") is able
    assert not acp.can(capabilities, "sessionCapabilities", "absent")
    assert not acp.can({}, "loadSession")
