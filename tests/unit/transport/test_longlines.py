"""Long updates: checked without being decoded, and relayed byte by byte or not at all (G13)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.protocol import acp, envelope
from acpbridge.protocol.jsonrpc import Noise, Notification, Peer, Unread
from acpbridge.transport.longlines import LongLines, _read

BODY = '{"sessionUpdate":"agent_message_chunk", "content":{"type":"text","text":"%s"}}'


def line(update: str, before: str = '"sessionId":"s",', after: str = "") -> bytes:
    text = '{"jsonrpc":"2.0","method":"session/update","params":{%s"update": %s%s}}'
    return (text % (before, update, after)).encode()


@pytest.mark.parametrize("before", ['"sessionId":"s",', '"_meta":{"a":{}},"sessionId":"s",'])
@pytest.mark.parametrize("after", ["", " ", ',"_meta":{"a":{"b":{}}}', ',"n":[{}]'])
@pytest.mark.parametrize("text", ["a" * 300_000, "\\n" * 150_000, "é}" * 150_000])
def test_a_long_update_is_found_as_it_is_written(before: str, after: str, text: str) -> None:
    found = _read(line(BODY % text, before, after))
    assert isinstance(found, Notification)
    assert found.update == (BODY % text).encode()
    assert found.params["sessionId"] == "s"
    assert acp.update_kind(found.params) == "agent_message_chunk"


BAD = {
    "cut off": line(BODY % "a")[:-3],
    "no JSON within": line('{"a":[1,]}'),
    "a zero byte": line('{"a":"\0"}'),
    "not UTF-8": line('{"a":"b"}').replace(b"b", b"\xff"),
    "two values": line('{"a":1} {"b":2}'),
    "no object around it": line(BODY % "a").replace(b'"params":{', b'"params":[{'),
    "another method": line(BODY % "a").replace(b"session/update", b"session/other"),
    "a request": line(BODY % "a").replace(b'"method"', b'"id":1,"method"', 1),
    "a mode": line('{"sessionUpdate":"current_mode_update","currentModeId":"x"}'),
    "options": line('{"sessionUpdate":"config_option_update","configOptions":[]}'),
    "something else": line(BODY % "a").replace(b'"update"', b'"downdate"'),
}


@pytest.mark.parametrize("what", sorted(BAD))
def test_what_is_no_sound_long_update_is_noise_that_is_told_of(what: str) -> None:
    """Without `json_valid` in `_LOOK`, "two values" and its like come out as an update."""
    found = _read(BAD[what])
    assert isinstance(found, Noise)
    assert found.too_long


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(st.dictionaries(st.text(), JSON), st.integers(0, 200), st.binary(max_size=3))
def test_it_agrees_with_the_decoder_on_what_is_an_update(
    update: dict[str, Any], at: int, junk: bytes
) -> None:
    """Whatever is taken is what the decoder takes, and means the same."""
    whole = line(json.dumps(update, ensure_ascii=False), after=',"_meta":{"update":{}}')
    spoilt = whole[:at] + junk + whole[at:]
    found = _read(spoilt)
    if isinstance(found, Notification):
        assert found.update is not None
        assert json.loads(spoilt)["params"]["update"] == json.loads(found.update)
    elif not junk and update.get("sessionUpdate") not in envelope.ACTED_ON:
        raise AssertionError(found)


async def test_long_lines_keep_their_place_among_the_others() -> None:
    """The peer hands them out where they stood; beyond the limit they are noise, as ever."""
    peer = Peer(1_000_000, unread_limit=envelope.LONG)
    long, short = line(BODY % ("a" * 300_000)), line(BODY % "b")
    messages = peer.receive(b"\n".join([short, long, short, line(BODY % ("a" * 2_000_000)), b""]))
    kinds = [type(message) for message in messages]
    assert kinds == [Notification, Unread, Notification, Noise]
    assert isinstance(messages[1], Unread)
    found = await LongLines().read(messages[1])
    assert isinstance(found, Notification)
