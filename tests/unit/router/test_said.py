"""What an agent said in a turn: its last visible message, and nothing that a tool gave out."""

import json
from pathlib import Path
from typing import Any

from acpbridge.model.events import Update
from acpbridge.router import said
from acpbridge.router.said import Said, final_text, read_turn, said_in
from tests.unit.router.world import World, world


def update(**fields: Any) -> tuple[bytes, bytes]:
    return b"update", json.dumps({"type": "update", "update": fields}).encode()


def chunk(text: str, **more: Any) -> tuple[bytes, bytes]:
    content = {"type": "text", "text": text}
    return update(sessionUpdate="agent_message_chunk", content=content, **more)


def tool(status: str, name: str = "t1") -> tuple[bytes, bytes]:
    content = [{"type": "content", "content": {"type": "text", "text": "tool output"}}]
    return update(sessionUpdate="tool_call", toolCallId=name, status=status, content=content)


def test_the_last_message_is_what_was_said_after_the_last_tool_call() -> None:
    lines = [
        chunk("I will "),
        chunk("look."),
        tool("pending"),
        tool("completed"),
        chunk("All "),
        chunk("pass.\n"),
    ]
    assert read_turn(lines) == Said("All pass.")


def test_tool_output_and_thoughts_are_never_promoted() -> None:
    thought = update(sessionUpdate="agent_thought_chunk", content={"type": "text", "text": "hm"})
    assert read_turn([chunk("Looking."), tool("in_progress"), thought]) == Said(
        "Looking.", open_tools=1
    )
    assert read_turn([tool("failed"), thought]) == Said("")


def test_messages_that_have_names_are_told_apart_by_them() -> None:
    named = [
        chunk("one", messageId="a"),
        chunk(" more", messageId="a"),
        chunk("two", messageId="b"),
    ]
    assert read_turn(named).text == "two"
    assert read_turn(named[:2]).text == "one more"


def test_what_is_no_text_is_passed_over() -> None:
    image = update(sessionUpdate="agent_message_chunk", content={"type": "image", "data": "x"})
    odd = update(sessionUpdate="agent_message_chunk", content=None)
    empty = (b"update", json.dumps({"type": "update"}).encode())
    assert read_turn([chunk("seen"), image, odd, empty]).text == "seen"


def test_denials_are_named_once_each_and_the_cost_is_the_last_told() -> None:
    denied = b'{"type":"permission_decided","effect":"deny","title":"Run","reason":"timed_out"}'
    allowed = b'{"type":"permission_decided","effect":"allow","title":"Read","reason":"operator"}'
    first = update(sessionUpdate="usage_update", used=1, size=2, cost={"amount": 1})
    last = update(sessionUpdate="usage_update", used=1, size=2, cost={"amount": 2})
    decided = [(b"permission_decided", line) for line in (denied, denied, allowed)]
    found = read_turn([*decided, first, last])
    assert found.denied == ("Run (timed_out)",)
    assert found.cost == {"amount": 2}


async def test_only_the_turn_that_is_asked_for_is_read(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        first, _ = await w.done("say first", one_shot=False)
        second, _ = await w.done("say second", key=first.key, one_shot=False)
        assert await final_text(w.log, first.key, first.run_id) == "first"
        assert await final_text(w.log, first.key, second.run_id) == "second"
        assert await said_in(w.log, first.key, "never") == Said()


async def test_a_turn_that_is_longer_than_the_window_is_read_from_its_beginning(
    tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr(said, "WINDOW", 2)
    monkeypatch.setattr(said, "WIDER", 3)
    async with world(tmp_path) as w:
        await w.done("say before", one_shot=False)
        receipt = await _long(w)
        await w.done("say after", key=receipt.key, one_shot=False)
        assert await final_text(w.log, receipt.key, receipt.run_id) == "word " * 39 + "word"


async def _long(w: World) -> Any:
    receipt = await w.run("wait", one_shot=False)
    await w.diary.has("prompt wait")
    agent = w.agent(receipt.key)
    content = {"type": "text", "text": "word "}
    block = {"sessionUpdate": "agent_message_chunk", "content": content}
    for _ in range(40):
        agent.host.emit(Update(json.dumps(block).encode(), "agent_message_chunk"))
    agent.answer("end_turn")
    await w.wait(receipt)
    return receipt
