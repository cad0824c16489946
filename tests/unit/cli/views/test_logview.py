"""What a log looks like: every line with its time, no line that could be taken for another."""

import json
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from acpbridge.cli.terminal.writer import Writer
from acpbridge.cli.views.logview import TITLES, LogView, Updates
from acpbridge.cli.views.markdown import Markdown
from acpbridge.daemon.client import EventLine
from acpbridge.redact import Redactor

AT = "2026-01-02T03:04:05.678Z"


def event(kind: str, **values: Any) -> EventLine:
    value = {"seq": 1, "at": AT, "turn": "t1", "type": kind, **values}
    return EventLine(json.dumps(value).encode(), value)


def said(text: str, who: str = "agent_message_chunk") -> EventLine:
    return event("update", update={"sessionUpdate": who, "content": {"type": "text", "text": text}})


def tool(**values: Any) -> EventLine:
    return event("update", update={"sessionUpdate": "tool_call", "toolCallId": "c1", **values})


async def shown(path: Path, events: Iterable[EventLine]) -> str:
    with path.open("wb") as file:
        view = LogView(Writer(file.fileno()))
        for one in events:
            await view.event(one)
        await view.end()
    return path.read_bytes().decode()


async def test_pieces_of_words_are_joined_and_each_line_has_its_time(tmp_path: Path) -> None:
    text = await shown(
        tmp_path / "out",
        [
            event("turn_started", prompt=[{"type": "text", "text": "do\nit"}]),
            said("one "),
            said("two\nthr"),
            said("hm", "agent_thought_chunk"),
            said("ee"),
            tool(title="Run", kind="execute", status="pending"),
            tool(sessionUpdate="tool_call_update", status="completed"),
            event("permission_asked", id="q1", title="rm x"),
            event("permission_decided", id="q1", effect="deny", by="operator:c1", title="rm x"),
            event("file_read", path="/l/x", resolved="/r/x\x1b[2J", bytes=7, sha256="-"),
            event("file_written", path="/l/y", resolved="/r/y", bytes=0, sha256="-"),
            event("turn_failed", error={"code": "agent_died", "message": "gone"}),
            event("process_exited", pid=7, died=True, message="exit status 1"),
            event("something_new", message="later"),
        ],
    )
    assert text.splitlines() == [
        f"{AT}  {line}"
        for line in (
            "turn t1 started",
            "> do",
            "> it",
            "one two",
            "thr",
            "thought: hm",
            "ee",
            "tool execute: Run (pending)",
            "tool: Run (completed)",
            "permission q1 asked: rm x",
            "permission q1 denied by operator:c1 (rm x)",
            "file read by acpbridge: /r/x⟨U+001B⟩[2J, 7 bytes",
            "file written by acpbridge: /r/y, 0 bytes",
            "turn failed (agent_died): gone",
            "process 7 exited: exit status 1",
            "something_new: later",
        )
    ]


EVIL = "a\x1b[2J\r\x07\u202e\x85\u2028b\x9b\nc"


async def test_nothing_that_an_agent_says_steers_the_terminal(tmp_path: Path) -> None:
    rows = [
        event("turn_started", prompt=[{"type": "text", "text": EVIL}], turn=EVIL),
        *(said(EVIL, who) for who in ("agent_message_chunk", "agent_thought_chunk")),
        tool(title=EVIL, kind=EVIL, status=EVIL),
        event("update", update={"sessionUpdate": "plan", "entries": [{"content": EVIL}]}),
        event("permission_asked", id=EVIL, title=EVIL),
        event("permission_decided", id=EVIL, title=EVIL, by=EVIL, note=EVIL),
        event("turn_ended", stopReason=EVIL),
        event("turn_failed", error={"code": EVIL, "message": EVIL}),
        event("process_exited", pid=1, message=EVIL),
        event(EVIL, message=EVIL),
    ]
    text = await shown(tmp_path / "out", rows)
    assert re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202e]", text) is None
    assert all(line.startswith(AT) for line in text.rstrip("\n").split("\n"))


@given(st.lists(st.text(st.sampled_from("ab\n"), max_size=6), max_size=10))
def test_however_words_are_cut_the_same_lines_come_out(pieces: list[str]) -> None:
    view = LogView(Writer(os.open(os.devnull, os.O_WRONLY)))
    os.close(view._out._fd)
    cut = b"".join(view._words(AT, "", piece) for piece in pieces) + view._break().encode()
    whole = view._words(AT, "", "".join(pieces)) + view._break().encode()
    assert cut == whole


def test_titles_are_remembered_within_a_bound() -> None:
    updates = Updates()
    for number in range(TITLES + 10):
        updates.lines({"sessionUpdate": "tool_call", "toolCallId": str(number), "title": "x"})
    assert len(updates._titles) == TITLES


def test_markdown_quotes_the_prompt_and_hides_a_secret_that_came_in_pieces() -> None:
    form = Markdown(Redactor([("API_KEY", "sentinel-123456")]))
    out = form.head({"key": "agent:a:main", "cwd": "/a`b"})
    for one in (
        event("turn_started", prompt=[{"type": "text", "text": "do\nsentinel-123456"}]),
        said("it is senti"),
        said("nel-123456\n"),
        said("hm", "agent_thought_chunk"),
        tool(title="show `sentinel-123456`"),
        event("turn_ended", stopReason="end_turn"),
    ):
        out += form.event(one)
    text = (out + form.end()).decode()
    assert "sentinel" not in text
    assert "senti" not in text
    for part in ("# Session `agent:a:main`", "> do\n> [redacted:", "**Agent**\n\nit is [redacted:"):
        assert part in text
    assert "**Thought**\n\nhm\n" in text
    assert f"- {AT} `turn ended: end_turn`\n" in text
