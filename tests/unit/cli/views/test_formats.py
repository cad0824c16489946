"""What a run prints: the agent's words, whole and harmless."""

import json
import os
from typing import Any

import pytest

from acpbridge.cli.terminal.writer import Writer
from acpbridge.cli.views.formats import JsonView, QuietView, TextView
from acpbridge.daemon.client import EventLine


def event(**fields: Any) -> EventLine:
    return EventLine(json.dumps(fields).encode(), fields)


def update(name: str, /, **fields: Any) -> EventLine:
    return event(type="update", update={"sessionUpdate": name, **fields})


def words(text: str) -> EventLine:
    return update("agent_message_chunk", content={"type": "text", "text": text})


TOOL = update("tool_call", toolCallId="1", title="read", kind="read")


async def printed(view_class: Any, *lines: EventLine) -> str:
    read, write = os.pipe()
    with os.fdopen(read, "rb") as pipe:
        view = view_class(Writer(write))
        for line in lines:
            await view.event(line)
        await view.end()
        os.close(write)
        return pipe.read().decode()


async def test_json_passes_the_line_on_as_it_came() -> None:
    line = EventLine(b'{"seq" :1,  "type":"x"}', {"seq": 1, "type": "x"})
    assert await printed(JsonView, line) == '{"seq" :1,  "type":"x"}\n'


async def test_quiet_keeps_the_last_message_only() -> None:
    said = (words("on"), words("e"), TOOL, words("two"), words("!"))
    assert await printed(QuietView, *said) == "two!\n"
    assert await printed(QuietView, *said, TOOL) == "two!\n"
    assert await printed(QuietView) == ""


async def test_words_come_as_they_are_and_end_with_a_line(capsys: Any) -> None:
    thought = update("agent_thought_chunk", content={"type": "text", "text": "hm"})
    said = (words("a"), thought, words("b"), TOOL, words("c\x1b"))
    assert await printed(TextView, *said) == "ab\nc\x1b\n"
    err = capsys.readouterr().err
    assert "thought: hm\n" in err
    assert "tool read: read (pending)\n" in err


async def test_broken_updates_are_passed_over(capsys: Any) -> None:
    odd: list[Any] = [None, 7, [], {}, {"sessionUpdate": 5}, {"sessionUpdate": "plan"}]
    odd += [{"sessionUpdate": "agent_message_chunk", "content": 5}]
    odd += [{"sessionUpdate": "plan", "entries": [5, {}]}]
    odd += [{"sessionUpdate": "tool_call_update", "status": ["completed"]}]
    lines = [event(type="update", update=value) for value in odd]
    assert await printed(TextView, *lines) == ""
    assert await printed(QuietView, *lines) == ""
    capsys.readouterr()


async def test_a_reader_that_has_gone_is_an_error() -> None:
    read, write = os.pipe()
    os.close(read)
    try:
        with pytest.raises(BrokenPipeError):
            await Writer(write).write(b"x")
    finally:
        os.close(write)
