"""The peer: any bytes give typed messages, every request gets one answer, ids never mix."""

import json
import random
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonrpc_base import Request

from acpbridge.errors import BridgeError
from acpbridge.protocol.errors import wire_error
from acpbridge.protocol.jsonrpc import (
    MAX_OPEN_CALLS,
    Answer,
    Call,
    Incoming,
    Noise,
    Notification,
    Peer,
    Withdrawn,
)

TYPED = Call | Notification | Answer | Withdrawn | Noise
OBJECTS = st.dictionaries(st.text(), st.none() | st.integers() | st.text(), max_size=3)


def line(value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


def request(number: Any, method: str = "x", **rest: Any) -> bytes:
    return line({"jsonrpc": "2.0", "id": number, "method": method, **rest})


def one(messages: list[Incoming]) -> Incoming:
    (message,) = messages
    return message


def called(peer: Peer, data: bytes) -> Call:
    message = one(peer.receive(data))
    assert isinstance(message, Call)
    return message


def answered(peer: Peer, data: bytes) -> Answer:
    message = one(peer.receive(data))
    assert isinstance(message, Answer)
    return message


def noise(peer: Peer, data: bytes) -> Noise:
    message = one(peer.receive(data))
    assert isinstance(message, Noise)
    return message


def sent(peer: Peer) -> list[dict[str, Any]]:
    """What the peer itself wants sent, decoded; each line is plain JSON."""
    out = [json.loads(data, parse_constant=pytest.fail) for data in peer.outbox]
    peer.outbox.clear()
    return out


# Any bytes.

BITS = st.sampled_from(
    [
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"\n",
        b"\r\n",
        b'"jsonrpc":"2.0"',
        b'"id":0',
        b'"id":"\\ud800"',
        b'"id":NaN',
        b'"id":1e400',
        b'"id":true',
        b'"id":null',
        b'"id":[1]',
        b'"id":' + b"9" * 5000,
        b'"id":007',
        b'"id":"\\q"',
        b'"id":"\xff"',
        b'"method":"session/update"',
        b'"method":"x"',
        b'"method":[1]',
        b'"method":{}',
        b'"method":null',
        b'"params":{"update":{}}',
        b'"params":5',
        b'"result":NaN',
        b'"result":1',
        b'"error":"no"',
        b'"error":{"code":1,"message":"m"}',
        b"[" * 1500,
        b"\xff",
        b"\x00",
        b"a" * 100,
    ]
)
OBJECT = st.lists(BITS, max_size=6).map(lambda bits: b"{" + b",".join(bits) + b"}\n")


@given(
    st.lists(OBJECT | BITS | st.binary(max_size=20), max_size=12),
    st.booleans(),
    st.sampled_from([1, 40, 150, 1 << 20]),
)
def test_any_bytes_give_only_typed_messages(chunks: list[bytes], silent: bool, limit: int) -> None:
    peer = Peer(limit, silent_on_noise=silent)
    peer._pending[0] = Request("mine", None, 0)
    messages = [message for chunk in chunks for message in peer.receive(chunk)] + peer.finish()
    assert all(isinstance(message, TYPED) for message in messages)
    replies = sent(peer)
    if silent:
        assert all(reply["id"] is not None for reply in replies)
    for message in messages:
        if isinstance(message, Call):
            peer.answer(message, {})
    assert len(peer._open) == 0


@given(st.lists(OBJECT, max_size=8), st.lists(st.integers(0, 10_000), max_size=8))
def test_any_cut_gives_the_same_messages_case_15(lines: list[bytes], places: list[int]) -> None:
    stream = b"".join(lines)
    edges = [0, *sorted(place % (len(stream) + 1) for place in places), len(stream)]
    whole, pieces = Peer(), Peer()
    expected = [*whole.receive(stream), *whole.finish()]
    got: list[Incoming] = []
    for start, end in pairwise(edges):
        got += pieces.receive(stream[start:end])
    got += pieces.finish()
    assert list(map(shown, got)) == list(map(shown, expected))
    assert pieces.outbox == whole.outbox


def shown(message: Incoming) -> tuple[str, ...]:
    if isinstance(message, Withdrawn):
        return "Withdrawn", message.call.wire_id
    return type(message).__name__, repr(getattr(message, "line", message))


def test_mutated_messages_raise_nothing() -> None:
    good = b"".join(
        (
            request(1, params={"a": [1, "é", None]}),
            line({"jsonrpc": "2.0", "method": "session/update", "params": {"update": {"n": 1}}}),
            line({"jsonrpc": "2.0", "id": 0, "result": {"ok": True}}),
            line({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "m"}}),
        )
    )
    dice = random.Random(15)
    for _ in range(3000):
        data = bytearray(good)
        for _ in range(dice.randint(1, 6)):
            place = dice.randrange(len(data))
            data[place : place + dice.randint(0, 3)] = dice.randbytes(dice.randint(0, 3))
        peer = Peer(limit=dice.choice([60, 1 << 20]))
        peer.request("mine", {})
        assert all(isinstance(m, TYPED) for m in peer.receive(bytes(data)) + peer.finish())
        assert all(reply["id"] is not None for reply in sent(peer))


@pytest.mark.parametrize("depth", [150, 500, 950, 5_000, 200_000])
@pytest.mark.parametrize("kind", ["request", "answer", "update"])
def test_deep_nesting_raises_nothing(depth: int, kind: str) -> None:
    deep = b"[" * depth + b"]" * depth
    peer = Peer()
    number, _ = peer.request("mine", {})
    heads = {
        "request": b'"id":7,"method":"x","params":',
        "answer": b'"id":%d,"result":' % number,
        "update": b'"method":"session/update","params":',
    }
    message = one(peer.receive(b'{"jsonrpc":"2.0",' + heads[kind] + deep + b"}\n"))
    replies = sent(peer)
    if kind == "request":
        assert isinstance(message, Call) or [reply["id"] for reply in replies] == [7]
    elif kind == "answer":
        assert isinstance(message, Answer)
        assert message.id == number
    else:
        assert isinstance(message, Notification | Noise)
    assert kind == "request" or replies == []


# Two peers.


@given(
    st.lists(
        st.tuples(st.booleans(), st.sampled_from(["ask", "tell"]), OBJECTS, st.booleans()),
        max_size=20,
    )
)
def test_two_peers_agree(script: list[tuple[bool, str, dict[str, Any], bool]]) -> None:
    peers = {True: Peer(), False: Peer()}
    for from_left, how, params, accept in script:
        here, there = peers[from_left], peers[not from_left]
        if how == "tell":
            message = one(there.receive(here.notification("m", params)))
            assert isinstance(message, Notification)
            assert (message.method, message.params) == ("m", params)
            continue
        number, data = here.request("m", params)
        call = called(there, data)
        assert (call.method, call.params, call.id) == ("m", params, number)
        refusal = BridgeError("busy", "no")
        answer = answered(
            here, there.answer(call, params) if accept else there.refuse(call, refusal)
        )
        assert answer.id == number
        if accept:
            assert answer.result == params
            assert answer.error is None
        else:
            assert answer.error is not None
            assert answer.error.message == "no"
    assert all(not peer.outbox and not peer._open and not peer._pending for peer in peers.values())


@given(st.lists(st.sampled_from(["ask", "answer", "forget", "too large", "close"]), max_size=40))
def test_ids_are_never_used_twice(steps: list[str]) -> None:
    peer, used = Peer(limit=200), []
    for step in steps:
        if step == "ask":
            used.append(peer.request("m", {})[0])
        elif step == "answer" and used:
            peer.receive(line({"jsonrpc": "2.0", "id": used[-1], "result": None}))
        elif step == "forget" and used:
            peer.forget(used[-1])
        elif step == "too large":
            with pytest.raises(BridgeError, match="limit") as caught:
                peer.request("m", {"a": "a" * 200})
            assert caught.value.code == "message_too_large"
        elif step == "close":
            peer.close()
    assert len(set(used)) == len(used)


def test_ids_of_both_directions_overlap_case_154() -> None:
    ours, agent = Peer(), Peer()
    for _ in range(3):
        ours.forget(ours.request("skip", {})[0])
    number, prompt = ours.request("session/prompt", {})
    assert number == 3
    theirs = called(agent, prompt)
    question = called(ours, request(3, "session/request_permission", params={}))
    prompt_end = answered(ours, agent.answer(theirs, {"stopReason": "end_turn"}))
    assert (prompt_end.id, prompt_end.result) == (3, {"stopReason": "end_turn"})
    reply = json.loads(ours.answer(question, {"outcome": {}}))
    assert reply == {"jsonrpc": "2.0", "id": 3, "result": {"outcome": {}}}


def test_empty_params_survive() -> None:
    peer = Peer()
    assert json.loads(peer.notification("m", {}))["params"] == {}
    assert json.loads(peer.request("m", {})[1])["params"] == {}


def test_what_we_write_is_one_ascii_line() -> None:
    peer = Peer()
    data = peer.notification("m", {"text": "é\ud800\n\u2028"})
    assert data.isascii()
    assert data.count(b"\n") == 1
    assert json.loads(data)["params"] == {"text": "é\ud800\n\u2028"}


# Ids of theirs.

IDS = ["init-1", 1, "1", 1.0, 0, 0.0, "", -5, 2**63, 2**63 + 1, 1.5, "é", "\U0001f600", "true"]


def test_an_id_is_echoed_with_its_type_and_value_case_144() -> None:
    peer = Peer()
    calls = [called(peer, request(number)) for number in IDS]
    assert len({call.wire_id for call in calls}) == len(IDS)
    for call, number in reversed(list(zip(calls, IDS, strict=True))):
        echoed = json.loads(peer.answer(call, None))["id"]
        assert (type(echoed), echoed) == (type(number), number)
    assert sent(peer) == []


@pytest.mark.parametrize(
    "text", ["true", "null", "[1]", "{}", "NaN", "1e400", "-Infinity", "9" * 5000, "00"]
)
def test_what_is_no_id_is_not_answered_row_11(text: str) -> None:
    peer = Peer()
    data = '{"jsonrpc":"2.0","method":"x","params":{},"id":' + text + "}\n"
    heard = noise(peer, data.encode())
    assert heard.malformed_request == (text != "00")  # that line is no JSON at all
    assert sent(peer) == []
    assert peer._open == {}


def test_a_lone_surrogate_in_an_id_is_refused_under_that_very_id() -> None:
    peer = Peer()
    assert noise(peer, request("\ud800")).malformed_request
    (reply,) = peer.outbox
    assert b'"id": "\\ud800"' in reply
    assert b"-32600" in reply


@pytest.mark.parametrize("again", ["sound", "equal keys", "no version", "too long", "no JSON"])
def test_an_id_that_is_reused_gets_one_error_and_neither_is_served_row_16(again: str) -> None:
    peer = Peer(limit=2000)
    call = called(peer, request(7))
    second = {
        "sound": request(7, "y"),
        "equal keys": b'{"jsonrpc":"2.0","id":7,"method":"y","params":{"a":1,"a":2}}\n',
        "no version": line({"id": 7, "method": "y"}),
        "too long": request(7, "y", params={"a": "a" * 3000}),
        "no JSON": b'{"jsonrpc":"2.0","id":7,"method":"y","params":}\n',
    }[again]
    messages = peer.receive(second)
    assert messages[0] == Withdrawn(call)
    assert isinstance(messages[1], Noise)
    assert messages[1].malformed_request
    assert [(reply["id"], reply["error"]["code"]) for reply in sent(peer)] == [(7, -32600)]
    assert peer.answer(call, {}) == b""
    assert peer.refuse(call, BridgeError("busy", "x")) == b""
    # The id is free again: a third request is a new one.
    assert json.loads(peer.answer(called(peer, request(7)), 1))["result"] == 1


def test_1_and_1_0_and_the_text_1_and_true_are_four_ids() -> None:
    peer = Peer()
    calls = [called(peer, request(number)) for number in (1, 1.0, "1")]
    assert noise(peer, request(True)).malformed_request
    assert all(call.open for call in calls)
    assert sent(peer) == []


def test_a_call_is_answered_once() -> None:
    peer = Peer()
    call = called(peer, request(1))
    assert peer.answer(call, "first")
    assert peer.answer(call, "second") == b""
    assert peer.refuse(call, BridgeError("busy", "x")) == b""


def test_after_close_nothing_is_open() -> None:
    peer = Peer()
    call = called(peer, request(1))
    number, _ = peer.request("m", {})
    assert peer.close() == [number]
    assert peer.answer(call, 1) == b""
    assert peer.open_call("1") is None
    noise(peer, line({"jsonrpc": "2.0", "id": number, "result": 1}))


def test_too_many_open_requests_are_refused_one_by_one_and_are_not_malformed() -> None:
    peer = Peer()
    calls = [called(peer, request(number)) for number in range(MAX_OPEN_CALLS)]
    assert not noise(peer, request("over")).malformed_request
    assert [reply["id"] for reply in sent(peer)] == ["over"]
    assert peer.answer(calls[0], 1)
    called(peer, request("over"))


def test_an_answer_over_the_limit_becomes_an_error() -> None:
    peer = Peer(limit=400)
    call = called(peer, request("q"))
    reply = json.loads(peer.answer(call, "a" * 500))
    assert reply["id"] == "q"
    assert reply["error"]["data"]["code"] == "message_too_large"


def test_an_error_goes_out_even_where_the_id_alone_fills_the_limit() -> None:
    peer = Peer(limit=300)
    number = json.dumps("é" * 120, ensure_ascii=False)
    call = called(peer, f'{{"jsonrpc":"2.0","id":{number},"method":"x"}}\n'.encode())
    reply = json.loads(peer.answer(call, "a" * 500))
    assert reply["id"] == "é" * 120
    assert "error" in reply


# Broken requests.

BROKEN = {
    "no version": {"id": 5, "method": "x"},
    "an old version": {"jsonrpc": "1.0", "id": 5, "method": "x"},
    "version as a number": {"jsonrpc": 2.0, "id": 5, "method": "x"},
    "method as a number": {"jsonrpc": "2.0", "id": 5, "method": 1},
    "method as a list": {"jsonrpc": "2.0", "id": 5, "method": ["session/update"]},
    "method null": {"jsonrpc": "2.0", "id": 5, "method": None},
    "params as a text": {"jsonrpc": "2.0", "id": 5, "method": "x", "params": "p"},
    "params false": {"jsonrpc": "2.0", "id": 5, "method": "x", "params": False},
    "NaN": {"jsonrpc": "2.0", "id": 5, "method": "x", "params": {"a": float("nan")}},
    "a lone surrogate": {"jsonrpc": "2.0", "id": 5, "method": "x", "params": {"a": "\ud800"}},
}
RAW = {
    "equal keys": b'{"jsonrpc":"2.0","id":5,"method":"x","params":{"a":1,"a":2}}\n',
    "5,000 digits": b'{"jsonrpc":"2.0","method":"x","params":[' + b"1" * 5000 + b'],"id":5}\n',
    "not UTF-8": b'{"jsonrpc":"2.0","id":5,"method":"x","params":{"a":"\xff"}}\n',
    "surrogates as bytes": b'{"jsonrpc":"2.0","id":5,"method":"x","params":["\xed\xa0\x80"]}\n',
    "cut": b'{"id":5, "method":"x","params":{"a":\n',
    "behind a byte-order mark": b'\xef\xbb\xbf{"id":5,"method":"x",}\n',
    "two glued": b'{"id":5,"method":"x"}{"id":6,"method":"x"}\n',
    **{name: line(value) for name, value in BROKEN.items()},
}


@pytest.mark.parametrize("name", RAW)
@pytest.mark.parametrize("silent", [True, False])
def test_a_broken_request_is_answered_by_its_id_row_11(name: str, silent: bool) -> None:
    peer = Peer(silent_on_noise=silent)
    assert noise(peer, RAW[name]).malformed_request
    assert [(reply["id"], reply["error"]["code"]) for reply in sent(peer)] == [(5, -32600)]
    called(peer, request(5))


@pytest.mark.parametrize("number", [5, "five", -1])
def test_a_request_over_the_limit_is_answered_by_its_id_row_12(number: int | str) -> None:
    peer = Peer(limit=500)
    messages = peer.receive(request(number, params={"a": "a" * 600}) + request(9))
    assert isinstance(messages[0], Noise)
    assert messages[0].malformed_request
    assert isinstance(messages[1], Call)
    assert [(reply["id"], reply["error"]["code"]) for reply in sent(peer)] == [(number, -32600)]


@pytest.mark.parametrize("text", ['"\\q"', '"\\ud800"', '"\xff"', "007", "1" * 4400, "null", "{}"])
def test_an_id_that_cannot_be_read_in_a_long_line_is_not_answered(text: str) -> None:
    peer = Peer(limit=5000)
    data = b'{"jsonrpc":"2.0","id":' + text.encode("latin-1") + b',"method":"x","params":"'
    noise(peer, data + b"a" * 6000 + b'"}\n')
    assert sent(peer) == []


@pytest.mark.parametrize(
    "data",
    [
        b"\xff\xfe\n",
        b"Loaded cached credentials.\n",
        b"[debug] x\n",
        b"42\n",
        b'"text"\n',
        b"null\n",
        b'{"foo":1}\n',
        b"[]\n",
        b'[{"jsonrpc":"2.0","id":1,"method":"x"}]\n',
        b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"m"}}\n',
        b'{"jsonrpc":"2.0","method":"x","params":NaN}\n',
        b'{"jsonrpc":"2.0","method":["x"]}\n',
        b'{"jsonrpc":"2.0","method":{"session/update":1}}\n',
        b'{"jsonrpc":"2.0","id":null,"method":"x"}\n',
        b'{\n  "jsonrpc": "2.0",\n  "id": 1,\n  "result": {}\n}\n',
        '{"jsonrpc":"2.0","id":1,"method":"x"}'.encode("utf-16-le") + b"\n",
    ],
)
def test_noise_gets_no_byte_in_return_cases_16_18_24(data: bytes) -> None:
    peer = Peer()
    assert all(isinstance(message, Noise) for message in peer.receive(data))
    assert peer.outbox == []
    called(peer, request(1))


def test_an_editor_is_told_of_a_line_that_is_no_json_but_never_of_a_batch() -> None:
    peer = Peer(silent_on_noise=False)
    noise(peer, b"nonsense\n")
    assert [(reply["id"], reply["error"]["code"]) for reply in sent(peer)] == [(None, -32700)]
    noise(peer, b'[{"jsonrpc":"2.0","id":1,"method":"x"}]\n')
    assert sent(peer) == []


def test_crlf_blank_lines_and_a_byte_order_mark_are_accepted_case_19() -> None:
    peer = Peer()
    data = b"\xef\xbb\xbf" + request(1).replace(b"\n", b"\r\n") + b"\r\n   \n" + request(2)
    assert [type(message) for message in peer.receive(data)] == [Call, Call]


def test_the_last_line_needs_no_newline_and_half_of_one_fails_nothing_case_23() -> None:
    peer = Peer()
    first, _ = peer.request("m", {})
    second, _ = peer.request("m", {})
    whole = line({"jsonrpc": "2.0", "id": first, "result": 1})
    half = line({"jsonrpc": "2.0", "id": second, "result": {"a": 1}})[:-4]
    assert peer.receive(whole + half) == [Answer(first, 1)]
    assert isinstance(one(peer.finish()), Noise)
    assert peer.close() == [second]

    peer = Peer()
    number, _ = peer.request("m", {})
    assert peer.receive(line({"jsonrpc": "2.0", "id": number, "result": 1})[:-1]) == []
    assert peer.finish() == [Answer(number, 1)]


@pytest.mark.parametrize("params", [None, [1], {"a": 1}])
def test_params_may_be_missing_null_or_a_list(params: Any) -> None:
    peer = Peer()
    assert called(peer, request(1, params=params)).params == params
    assert called(peer, request(2)).params is None


def test_a_notification_gets_no_reply_case_150() -> None:
    peer = Peer()
    for method in ("_vendor/x", "session/cancel", "session/update", "unknown"):
        assert isinstance(
            one(peer.receive(line({"jsonrpc": "2.0", "method": method}))), Notification
        )
    assert peer.outbox == []


# Answers.


def test_answers_to_unknown_ids_are_ignored_case_147() -> None:
    peer = Peer()
    number, _ = peer.request("m", {})
    for stray in (999, "x", None, str(number), float(number), False):
        noise(peer, line({"jsonrpc": "2.0", "id": stray, "result": 1}))
        noise(peer, line({"jsonrpc": "2.0", "id": stray, "error": {"code": 1, "message": "m"}}))
    assert peer.outbox == []
    assert answered(peer, line({"jsonrpc": "2.0", "id": number, "result": 1})).result == 1
    noise(peer, line({"jsonrpc": "2.0", "id": number, "result": 1}))


ERROR = {"code": 1, "message": "m"}
MALFORMED: dict[str, dict[str, Any]] = {
    "both": {"jsonrpc": "2.0", "result": 1, "error": ERROR},
    "neither": {"jsonrpc": "2.0"},
    "error null and no result": {"jsonrpc": "2.0", "error": None},
    "error as a text": {"jsonrpc": "2.0", "error": "no"},
    "error as a list": {"jsonrpc": "2.0", "error": []},
    "error without a code": {"jsonrpc": "2.0", "error": {"message": "m"}},
    "code as a text": {"jsonrpc": "2.0", "error": {"code": "1", "message": "m"}},
    "code true": {"jsonrpc": "2.0", "error": {"code": True, "message": "m"}},
    "error without a message": {"jsonrpc": "2.0", "error": {"code": 1}},
    "message as a list": {"jsonrpc": "2.0", "error": {"code": 1, "message": []}},
    "an old version": {"jsonrpc": "1.0", "result": 1},
    "no version": {"result": 1},
    "NaN": {"jsonrpc": "2.0", "result": float("nan")},
    "a lone surrogate": {"jsonrpc": "2.0", "result": "\ud800"},
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_answer_fails_its_request_and_no_other_case_149(name: str) -> None:
    peer = Peer()
    (first, _), (second, _), (third, _) = (peer.request("m", {}) for _ in range(3))
    answer = answered(peer, line({"id": second, **MALFORMED[name]}))
    assert answer.id == second
    assert answer.error is not None
    assert answer.error.code == "invalid_message"
    assert peer.outbox == []
    assert answered(peer, line({"jsonrpc": "2.0", "id": third, "result": 3})).result == 3
    assert answered(peer, line({"jsonrpc": "2.0", "id": first, "result": 1})).result == 1


@pytest.mark.parametrize(
    "rest",
    [b'"result":{"a":1,"a":2}}', b'"result":"\xff"}', b'"error":{]}', b'"result":{}}{"x":1}'],
)
def test_an_answer_that_is_no_json_fails_its_request_case_149(rest: bytes) -> None:
    peer = Peer()
    number, _ = peer.request("m", {})
    answer = answered(peer, b'{"jsonrpc":"2.0","id":%d,' % number + rest + b"\n")
    assert answer.error is not None
    assert peer.outbox == []


def test_an_answer_over_the_limit_fails_its_request() -> None:
    peer = Peer(limit=500)
    number, _ = peer.request("m", {})
    answer = answered(peer, line({"jsonrpc": "2.0", "id": number, "result": "a" * 600}))
    assert (answer.id, answer.error and answer.error.code) == (number, "message_too_large")
    assert peer.outbox == []


def test_an_answer_may_carry_a_null_error_or_a_null_result_beside() -> None:
    peer = Peer()
    first, _ = peer.request("m", {})
    second, _ = peer.request("m", {})
    good = answered(peer, line({"jsonrpc": "2.0", "id": first, "result": 1, "error": None}))
    assert (good.result, good.error) == (1, None)
    bad = answered(peer, line({"jsonrpc": "2.0", "id": second, "result": None, "error": ERROR}))
    assert bad.error is not None
    assert bad.error.rpc_code == 1


def test_a_forgotten_request_takes_no_answer() -> None:
    peer = Peer()
    number, _ = peer.request("m", {})
    peer.forget(number)
    assert noise(peer, line({"jsonrpc": "2.0", "id": number, "result": 1})).reason
    assert peer.outbox == []


@pytest.mark.parametrize("silent", [True, False])
def test_only_our_own_daemon_speaks_with_our_codes(silent: bool) -> None:
    """An agent that says `agent_died` has not died: its error is the agent's."""
    peer = Peer(silent_on_noise=silent)
    number, _ = peer.request("m", {})
    error = wire_error(BridgeError("agent_died", "gone", data={"exitCode": 1}))
    answer = answered(peer, line({"jsonrpc": "2.0", "id": number, "error": error}))
    assert answer.error is not None
    assert answer.error.code == ("turn_failed" if silent else "agent_died")


# Updates.


def update(peer: Peer, raw: bytes) -> Notification:
    message = one(
        peer.receive(
            b'{"jsonrpc":"2.0","method":"session/update","params":{"update":' + raw + b"}}\n"
        )
    )
    assert isinstance(message, Notification)
    return message


@pytest.mark.parametrize(
    "raw",
    [
        b'{"text":"\\ud800"}',
        b'{"n":NaN}',
        b'{"n":1e400}',
        b'{"a":1,"a":2}',
        b'{"n":' + b"1" * 5000 + b"}",
        b"[" * 400 + b"]" * 400,
    ],
)
def test_an_update_is_relayed_whatever_is_in_it(raw: bytes) -> None:
    peer = Peer()
    message = update(peer, raw)
    assert message.method == "session/update"
    assert raw in message.line
    assert peer.outbox == []


def test_an_update_that_is_not_utf_8_is_noise() -> None:
    peer = Peer()
    for text in (b"\xff", b"\xed\xa0\x80"):
        data = b'{"jsonrpc":"2.0","method":"session/update","params":{"a":"' + text + b'"}}\n'
        noise(peer, data)
    assert peer.outbox == []


def test_only_the_named_methods_are_relayed_unread() -> None:
    data = b'{"jsonrpc":"2.0","method":"events","params":{"a":NaN}}\n'
    assert isinstance(one(Peer().receive(data)), Noise)
    assert isinstance(one(Peer(relayed=frozenset({"events"})).receive(data)), Notification)


def test_a_request_named_like_an_update_is_a_request() -> None:
    assert called(Peer(), request(1, "session/update")).method == "session/update"


# Exactly one answer.


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ask", "answer", "refuse", "reuse", "broken"]),
            st.sampled_from([0, 1, "0", 1.0]),
        ),
        max_size=40,
    )
)
def test_every_request_gets_exactly_one_answer_g15(steps: list[tuple[str, Any]]) -> None:
    peer = Peer()
    asked: Counter[str] = Counter()
    replies: Counter[str] = Counter()
    calls: list[Call] = []
    reused = 0

    def count(data: bytes) -> None:
        if data:
            replies[json.dumps(json.loads(data)["id"])] += 1

    for step, number in steps:
        if step == "answer" and calls:
            count(peer.answer(calls[0], 1))
            calls = calls[1:]
        elif step == "refuse" and calls:
            count(peer.refuse(calls[-1], BridgeError("busy", "x")))
        else:
            data = request(number) if step != "broken" else line({"id": number, "method": "x"})
            asked[json.dumps(number)] += 1
            for message in peer.receive(data):
                if isinstance(message, Call):
                    calls.append(message)
                reused += isinstance(message, Withdrawn)
        for data in peer.outbox:
            count(data)
        peer.outbox.clear()
    for call in calls:
        count(peer.answer(call, 1))
    # A pair that shares an id shares its one answer.
    assert asked.total() - reused == replies.total()
    assert all(replies[number] <= asked[number] for number in asked)


def test_a_long_line_that_is_no_update_is_refused_unread() -> None:
    peer = Peer(strict_limit=1000)
    nested = b"[" * 400 + b"]" * 400
    line = b'{"jsonrpc":"2.0","id":7,"method":"x","params":' + nested + b" " * 400 + b"}"
    (noise,) = peer.receive(line + b"\n")
    assert isinstance(noise, Noise)
    assert json.loads(b"".join(peer.outbox))["id"] == 7
    update = b'{"jsonrpc":"2.0","method":"session/update","params":{"x":"' + b"y" * 2000 + b'"}}'
    (relayed,) = peer.receive(update + b"\n")
    assert isinstance(relayed, Notification)


def test_a_limit_that_is_raised_holds_from_then_on() -> None:
    peer = Peer(100)
    long = b'{"jsonrpc":"2.0","method":"m","params":{"x":"' + b"y" * 200 + b'"}}\n'
    (noise,) = peer.receive(long)
    assert isinstance(noise, Noise)
    peer.raise_limit(1000)
    (heard,) = peer.receive(long)
    assert isinstance(heard, Notification)
