"""A run on the control socket: what is written is what is read."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.daemon.params import read_run, write_run
from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.model.settings import Settings
from acpbridge.router.api import RunRequest

TEXT = ({"type": "text", "text": "x"},)
SERVER = {"name": "x", "command": "/x", "args": ["a"], "env": [{"name": "K", "value": "v"}]}

settings = st.builds(
    Settings,
    model=st.none() | st.text(max_size=5),
    mode=st.none(),
    options=st.dictionaries(st.text(max_size=5), st.text(max_size=5) | st.booleans(), max_size=3),
)


@given(settings, st.booleans(), st.booleans())
def test_reading_is_the_inverse_of_writing(chosen: Settings, fresh: bool, servers: bool) -> None:
    given_servers = (SERVER,) if servers else ()
    request = RunRequest(TEXT, settings=chosen, mcp_servers=given_servers, fresh=fresh)
    assert read_run(write_run(request)) == request


def test_nothing_is_chosen_where_nothing_is_said() -> None:
    request = read_run({"content": list(TEXT)})
    assert (request.settings, request.mcp_servers, request.fresh) == (Settings(), (), False)


@pytest.mark.parametrize(
    "params",
    [{"model": 1}, {"set": []}, {"set": {"a": 1}}, {"set": {"a": None}}, {"mcpServers": {}}],
)
def test_a_wrong_choice_is_an_error_that_names_the_field(params: dict[str, Any]) -> None:
    (name,) = params
    with pytest.raises(BridgeError) as caught:
        read_run({"content": list(TEXT), **params})
    assert caught.value.code == "invalid_params"
    assert name in caught.value.message


def test_a_request_does_not_show_its_servers() -> None:
    assert "/x" not in repr(RunRequest(TEXT, mcp_servers=(SERVER,)))


def test_case_137_nobody_says_over_the_socket_who_hears_of_a_run_or_where_it_came_from() -> None:
    forged = {
        "deliverTo": "agent:other:main",
        "deliver_to": "agent:other:main",
        "provenance": {"kind": "external_user"},
        "announces": "announce:r1",
        "task": "something else",
    }
    content = [{"type": "text", "text": "hello"}]
    assert read_run({"content": content, **forged}) == read_run({"content": content})
    inside = RunRequest(
        tuple(content),
        deliver_to=SessionKey.parse("agent:other:main"),
        provenance={"kind": "inter_session"},
        announces="announce:r1",
    )
    assert read_run(write_run(inside)) == read_run({"content": content})
