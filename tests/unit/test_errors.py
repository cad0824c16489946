"""The one table of errors, and the way of an error over a wire and back."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge import errors
from acpbridge.errors import TABLE, BridgeError
from acpbridge.protocol.errors import REASON_LIMIT, read_error, wire_error

CODES = st.sampled_from(sorted(TABLE))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda s: st.lists(s, max_size=3) | st.dictionaries(st.text(max_size=4), s, max_size=3),
    max_leaves=6,
)
DATA = st.dictionaries(
    st.text(max_size=8).filter(lambda k: k not in ("source", "code", "hint")), JSON, max_size=3
)
EXITS = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}


@pytest.mark.parametrize("code", TABLE)
def test_every_code_has_a_hint_an_exit_status_and_a_wire_code(code: str) -> None:
    kind = TABLE[code]
    assert code == code.lower()
    assert code.replace("_", "").isalnum()
    assert kind.hint.endswith(".")
    assert kind.exit in EXITS - {errors.EXIT_OK}
    assert -32900 < kind.rpc <= -32000
    error = BridgeError(code, "It broke.")
    assert (error.hint, error.rpc_code, str(error)) == (kind.hint, kind.rpc, "It broke.")
    assert repr(error) == f"BridgeError({code}: It broke.)"


def test_an_unknown_code_is_a_fault_of_the_caller() -> None:
    with pytest.raises(KeyError):
        BridgeError("no_such_code", "x")


@given(CODES, st.text(), st.none() | st.text(), DATA)
def test_json_and_back_is_the_same(
    code: str, message: str, hint: str | None, data: dict[str, Any]
) -> None:
    error = BridgeError(code, message, hint=hint, data=data)
    value = json.loads(json.dumps(error.to_json()))
    again = BridgeError.from_json(value)
    assert again.to_json() == error.to_json()
    assert again.rpc_code == error.rpc_code


@given(DATA)
def test_any_object_reads_as_an_error(value: dict[str, Any]) -> None:
    error = BridgeError.from_json({**value, "code": value, "hint": value, "data": [value]})
    assert error.code == "internal"
    assert (error.hint, error.data) == (TABLE["internal"].hint, {})


def test_a_code_of_a_newer_version_reads_as_internal() -> None:
    error = BridgeError.from_json({"code": "novel", "message": "It broke."})
    assert (error.code, error.message) == ("internal", "It broke.")
    assert BridgeError.from_json({"code": "novel"}).message == "novel"


@given(CODES, st.text(), st.text(), DATA)
def test_an_error_of_ours_comes_back_from_the_wire_as_it_was_raised(
    code: str, message: str, hint: str, data: dict[str, Any]
) -> None:
    error = BridgeError(code, message, hint=hint, data=data)
    again = read_error(json.loads(json.dumps(wire_error(error))))
    assert again.to_json() == error.to_json()
    assert again.rpc_code == error.rpc_code


def test_no_data_can_pass_for_the_code() -> None:
    data = {"code": "busy", "source": "elsewhere", "hint": 5}
    wired = wire_error(BridgeError("capacity", "full", data=data))
    assert (wired["data"]["code"], wired["data"]["source"]) == ("capacity", "acpbridge")


def test_an_agent_that_speaks_like_us_is_still_an_agent() -> None:
    wired = wire_error(BridgeError("agent_died", "gone"))
    error = read_error(wired, ours=False)
    assert (error.code, error.message, error.rpc_code) == ("turn_failed", "gone", -32603)


LONG = "x " * REASON_LIMIT


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        ("the reason", "m: the reason"),
        ({"details": "the reason"}, "m: the reason"),
        ({"error": "the reason"}, "m: the reason"),
        ({"message": "the reason", "x": 1}, "m: the reason"),
        ({"details": "m"}, "m"),
        ({"_errors": [], "cwd": {"_errors": ["Required"]}}, None),
        ({}, "m"),
        (["a"], 'm: ["a"]'),
        (5, "m: 5"),
        (True, "m: true"),
        (None, "m"),
        ("", "m"),
        (LONG, "m: " + LONG[: REASON_LIMIT - 1] + "..."),
        ({"details": LONG}, "m: " + LONG[: REASON_LIMIT - 1] + "..."),
        ("a " * 248 + "half-a-secret", "m: " + ("a " * 248).rstrip() + "..."),
        ("x" * 2 * REASON_LIMIT, "m: ..."),
    ],
)
def test_the_reason_in_data_is_shown_in_every_shape_case_155(data: Any, shown: str | None) -> None:
    error = read_error({"code": -32603, "message": "m", "data": data})
    assert error.message == shown or (shown is None and "Required" in error.message)
    assert "'" not in error.message
    assert error.rpc_code == -32603
    assert error.data == {"rpcCode": -32603, **({} if data is None else {"details": data})}


def test_an_error_without_data_has_none_case_155() -> None:
    error = read_error({"code": 12345, "message": "m"})
    assert (error.message, error.rpc_code, error.data) == ("m", 12345, {"rpcCode": 12345})


@given(st.integers(), st.text(), JSON, st.booleans())
def test_any_error_of_a_peer_can_be_read_and_shown(
    code: int, message: str, data: Any, ours: bool
) -> None:
    error = read_error({"code": code, "message": message, "data": data}, ours=ours)
    assert error.message.startswith(message)
    assert len(error.message) <= len(message) + REASON_LIMIT + 5
    json.dumps(wire_error(error))
