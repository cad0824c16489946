"""Messages out of events: whole ones only, told apart as the agent tells them apart."""

import json
from typing import Any

from acpbridge.model.events import Event, Fact, Stamp, Update, render
from acpbridge.model.keys import SessionKey, agent_id
from acpbridge.router.transcript import BLOCK, Message, block_text, kind_of, messages

KEY = SessionKey.main(agent_id("fake"))


def lines(*events: Event | tuple[str, Event]) -> list[bytes]:
    """Return events as the log has them, of the turn "t" unless another one is named."""
    out = []
    for seq, event in enumerate(events, 1):
        turn, one = event if isinstance(event, tuple) else ("t", event)
        out.append(render(one, Stamp(seq, "epoch", f"2026-01-01T00:00:{seq:02}Z", KEY, turn)))
    return out


def update(kind: str, **more: Any) -> Update:
    return Update(json.dumps({"sessionUpdate": kind, **more}).encode(), kind)


def chunk(text: str, **more: Any) -> Update:
    return update("agent_message_chunk", content={"type": "text", "text": text}, **more)


def started(*blocks: Any) -> Fact:
    return Fact("turn_started", {"prompt": list(blocks), "provenance": {"kind": "operator"}})


def told(found: list[Message]) -> list[tuple[str, str]]:
    return [(message.role, message.text) for message in found]


CALL = update("tool_call", toolCallId="c", title="Read")


def test_what_may_have_begun_before_is_left_out() -> None:
    """With it: the first message is "end", half of a sentence."""
    some = lines(chunk("end"), CALL, chunk("whole"))
    assert told(messages(some, tools=False, whole=False)) == [("assistant", "whole")]
    assert told(messages(some, tools=False)) == [("assistant", "end"), ("assistant", "whole")]


def test_pieces_are_one_message_until_a_tool_is_called_or_another_one_begins() -> None:
    some = lines(
        chunk("a"),
        update("agent_thought_chunk", content={"type": "text", "text": "hm"}),
        chunk("b"),
        CALL,
        chunk("c", messageId="1"),
        chunk("d", messageId="1"),
        chunk("e", messageId="2"),
        ("other", chunk("f", messageId="2")),
    )
    found = messages(some, tools=False)
    assert [message.text for message in found] == ["ab", "cd", "e", "f"]
    assert [message.seq for message in found] == [1, 5, 7, 8]


def test_only_what_is_before_a_number_is_told() -> None:
    some = lines(started({"type": "text", "text": "x"}), chunk("a"), chunk("b"))
    assert told(messages(some, tools=False, before=3)) == [("user", "x"), ("assistant", "a")]


def test_a_prompt_that_is_no_text_is_named_and_an_odd_one_breaks_nothing() -> None:
    odd: list[Any] = [{"type": "image"}, {"type": "text", "text": "x"}, 7, None, {"text": 3}]
    some = lines(started(*odd), Fact("turn_started", {"prompt": "no list"}))
    assert told(messages(some, tools=False)) == [("user", "[image]\nx")]
    assert block_text({"type": "audio"}) == "[audio]"


def test_how_a_turn_ended_is_told_unless_it_ended_as_it_should() -> None:
    error = {"code": "agent_died", "message": "It is gone."}
    some = lines(
        Fact("turn_ended", {"stopReason": "end_turn"}),
        Fact("turn_ended", {"stopReason": "refusal"}),
        Fact("turn_failed", {"error": error}),
        Fact("notice", {"kind": "x"}),
    )
    assert told(messages(some, tools=True)) == [
        ("system", "The turn ended: refusal."),
        ("system", "The turn failed (agent_died): It is gone."),
    ]


def test_a_long_message_is_cut_and_says_so() -> None:
    (short,) = messages(lines(chunk("x" * BLOCK)), tools=False)
    assert "truncated" not in short.to_json()
    (long,) = messages(lines(chunk("x" * (BLOCK + 1))), tools=False)
    shown = long.to_json()
    assert shown["truncated"] is True
    assert len(shown["content"][0]["text"]) == BLOCK


def test_the_type_of_a_line_is_the_bridges_and_never_the_agents_word() -> None:
    (line,) = lines(chunk('"type":"turn_failed"'))
    assert kind_of(line) == "update"
    assert kind_of(b"{}") == ""
    (forged,) = lines(update("agent_message_chunk", type="turn_failed"))
    assert kind_of(forged) == "update"
