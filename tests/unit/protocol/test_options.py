"""What an agent lets its client choose, read from whatever it sends."""

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.errors import BridgeError
from acpbridge.protocol import options
from acpbridge.protocol.content import check_content, without_bytes

ON_OFF = {
    "id": "fast",
    "name": "Fast mode",
    "type": "select",
    "currentValue": "off",
    "options": [{"value": "on", "name": "On"}, {"value": "off", "name": "Off"}],
}

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["id", "type", "options", "value", "name", "category", "modelId"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


@given(json_values, json_values)
def test_nothing_that_an_agent_sends_breaks_the_reading(told: Any, models: Any) -> None:
    session = {"configOptions": told, "models": models}
    found = options.options_of(session)
    options.model_option(found)
    options.models_of(session)
    for option in found:
        assert options.find(found, option.id) in (option, None)


@given(json_values)
def test_a_value_is_only_ever_one_that_was_offered(told: Any) -> None:
    for option in options.options_of({"configOptions": told}):
        for given_value in ("on", "x", True, ""):
            value: Any = None
            with suppress(BridgeError):
                value = option.value_for(given_value)
            if value is None:
                continue
            if option.choices is None:
                assert isinstance(value, bool)
            else:
                assert value in [choice.value for choice in option.choices]


@pytest.mark.parametrize(
    ("given_value", "meant"),
    [("on", "on"), ("OFF", "off"), (True, "on"), (False, "off")],
)
def test_yes_and_no_are_found_in_a_list_of_two_words(given_value: str | bool, meant: str) -> None:
    (option,) = options.options_of({"configOptions": [ON_OFF]})
    assert option.value_for(given_value) == meant


def test_an_id_goes_before_a_name_and_a_name_that_two_bear_names_none() -> None:
    rows = [{**ON_OFF, "id": name, "name": "Speed"} for name in ("a", "b")]
    found = options.options_of({"configOptions": [*rows, {**ON_OFF, "id": "c", "name": "a"}]})
    assert options.find(found, "Speed") is None
    chosen = options.find(found, "a")
    assert chosen is not None
    assert chosen.id == "a"


def test_c14_unknown_types_are_ignored_and_unknown_categories_tolerated() -> None:
    odd = {**ON_OFF, "id": "odd", "type": "slider"}
    strange = {**ON_OFF, "id": "strange", "category": "never heard of"}
    found = options.options_of({"configOptions": [odd, strange]})
    assert [option.id for option in found] == ["strange"]


def test_a_long_list_is_told_in_part_and_kept_whole_in_the_data() -> None:
    choices = tuple(options.Choice(f"m{n}", "") for n in range(100))
    with pytest.raises(BridgeError) as caught:
        options.choose(choices, "x", "The model")
    assert "and 40 more" in caught.value.message
    assert len(caught.value.data["offered"]) == 100


@pytest.mark.parametrize(
    ("kind", "capability"),
    [("image", "image"), ("audio", "audio"), ("resource", "embeddedContext")],
)
def test_c9_what_the_agent_does_not_take_is_refused_by_name(kind: str, capability: str) -> None:
    blocks = ({"type": "text", "text": "x"}, {"type": kind})
    with pytest.raises(BridgeError) as caught:
        check_content({"agentCapabilities": {"promptCapabilities": {}}}, blocks)
    assert caught.value.code == "unsupported_control"
    assert f"promptCapabilities.{capability}" in caught.value.message
    check_content({"agentCapabilities": {"promptCapabilities": {capability: True}}}, blocks)
    check_content({}, ({"type": "text", "text": "x"}, {"type": "resource_link", "uri": "x"}))


@pytest.mark.parametrize(("data", "size"), [("", 0), ("QQ==", 1), ("QUI=", 2), ("QUJD", 3)])
def test_an_image_is_told_of_by_its_size(data: str, size: int) -> None:
    block = {"type": "image", "mimeType": "image/png", "data": data}
    assert without_bytes(block) == {"type": "image", "mimeType": "image/png", "bytes": size}
    text = {"type": "text", "text": "x", "data": "kept"}
    assert without_bytes(text) == text


def test_an_error_has_a_bound_however_much_an_agent_offers() -> None:
    listed = [{"value": f"{n}{'x' * 1_000}", "name": "y" * 1_000} for n in range(100)]
    listed += [{"value": str(n), "name": "z" * 1_000} for n in range(10_000)]
    made = [{"id": f"i{n}" * 100, "name": "", "options": listed} for n in range(200)]
    offered = options.options_of({"configOptions": made})
    with pytest.raises(BridgeError) as caught:
        offered[0].value_for("other")
    for error in (caught.value, options.unknown(offered, "other")):
        assert len(json.dumps(error.to_json())) < 500_000
        assert len(error.message) < 20_000
