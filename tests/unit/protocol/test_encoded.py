"""A result that is encoded ahead is the answer that it would have been otherwise."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.protocol import encoded
from acpbridge.protocol.encoded import Encoded
from acpbridge.protocol.jsonrpc import Call, Peer

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


def called(peer: Peer, call_id: Any = 1) -> Call:
    line = json.dumps({"jsonrpc": "2.0", "id": call_id, "method": "m", "params": {}})
    (call,) = peer.receive(line.encode() + b"\n")
    assert isinstance(call, Call)
    return call


@given(text=TEXT, call_id=st.one_of(st.integers(), TEXT, st.just(1.5)))
def test_it_reads_as_what_would_have_been_sent(text: str, call_id: Any) -> None:
    peer = Peer()
    line = peer.answer(called(peer, call_id), Encoded.of_text("content", text))
    assert json.loads(line) == {"jsonrpc": "2.0", "id": call_id, "result": {"content": text}}
    assert (line.count(b"\n"), line[-1:]) == (1, b"\n")


@given(text=TEXT)
def test_it_is_the_same_in_whatever_pieces(text: str) -> None:
    whole = Encoded.of_text("content", text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(encoded, "_PIECE", 3)
        assert Encoded.of_text("content", text) == whole


def test_it_is_answered_once_and_within_the_limit() -> None:
    peer = Peer(limit=100)
    call = called(peer)
    refused = json.loads(peer.answer(call, Encoded.of_text("content", "x" * 100)))
    assert refused["error"]["data"]["code"] == "message_too_large"
    assert peer.answer(call, Encoded.of_text("content", "x")) == b""
