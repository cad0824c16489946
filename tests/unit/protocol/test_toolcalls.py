"""What was told of a tool call is joined with what is asked, and what changed is flagged."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.model.permission import OptionKind, PermissionAsk, ToolKind
from acpbridge.protocol import acp
from acpbridge.protocol.toolcalls import MAX_KEPT_BYTES, REMEMBERED, ToolCalls

DIFF = {"type": "diff", "path": "/a", "oldText": None, "newText": "x"}
JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(st.characters()),
    lambda s: st.lists(s, max_size=3) | st.dictionaries(st.text(st.characters()), s, max_size=3),
    max_leaves=6,
)


def tell(tools: ToolCalls, call_id: Any = "t", what: str = "tool_call", **fields: Any) -> None:
    tools.update({"update": {"sessionUpdate": what, "toolCallId": call_id, **fields}})


def ask(tools: ToolCalls, call_id: str = "t", **fields: Any) -> PermissionAsk:
    params = {
        "sessionId": "s",
        "toolCall": {"toolCallId": call_id, **fields},
        "options": [
            {"optionId": str(i), "name": kind, "kind": kind}
            for i, kind in enumerate(["allow_once", "reject_always", "unknown", "novel"])
        ],
    }
    return tools.ask(acp.read(acp.PermissionParams, params, "x"), "7", "abc", 42)


def is_running(tools: ToolCalls) -> bool:
    return tools.running


def test_an_edit_that_is_asked_about_without_its_content_is_shown_whole() -> None:
    tools = ToolCalls()
    places = [{"path": "/a", "line": 3}]
    announced: dict[str, Any] = {"title": "Edit a", "kind": "edit", "rawInput": {"file": "/a"}}
    tell(tools, content=[DIFF], locations=places, **announced)
    subject = ask(tools, title="Apply?").subject
    assert (subject.title, subject.kind, subject.known_kind) == ("Apply?", ToolKind.EDIT, True)
    assert subject.content == (DIFF,)
    assert subject.locations == ("/a",)
    assert subject.raw_input == {"file": "/a"}
    assert subject.changed == ()


def test_a_call_that_was_never_announced_is_read_from_the_question() -> None:
    subject = ask(ToolCalls(), title="Run", kind="execute", rawInput={"command": "ls"}).subject
    assert (subject.kind, subject.raw_input, subject.changed) == (
        ToolKind.EXECUTE,
        {"command": "ls"},
        (),
    )


def test_the_question_itself_is_remembered() -> None:
    tools = ToolCalls()
    ask(tools, kind="read", rawInput={"a": 1})
    assert is_running(tools)
    assert ask(tools, rawInput={"a": 2}).subject.changed == ("rawInput",)


@pytest.mark.parametrize("kind", [None, "novel", "Read", ""])
def test_a_missing_or_unknown_kind_is_other_row_8(kind: str | None) -> None:
    subject = ask(ToolCalls(), kind=kind, title="read a file").subject
    assert (subject.kind, subject.known_kind) == (ToolKind.OTHER, False)


@pytest.mark.parametrize(
    ("before", "now", "changed"),
    [
        ({"command": "ls"}, {"command": "rm"}, True),
        ({"command": "ls"}, {"command": "ls"}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, False),
        ({"force": 1}, {"force": True}, True),
        ({"n": 1}, {"n": 1.0}, True),
        ({"command": "ls"}, {}, True),
        ({"command": "ls"}, None, False),
        ({}, {"command": "ls"}, False),
        (None, {"command": "ls"}, False),
        ("ls", ["ls"], True),
        (0, False, True),
    ],
)
def test_an_input_that_changed_since_is_flagged_row_9(before: Any, now: Any, changed: bool) -> None:
    tools = ToolCalls()
    tell(tools, rawInput=before)
    assert ask(tools, rawInput=now).subject.changed == (("rawInput",) if changed else ())


def test_a_kind_that_contradicts_the_announcement_is_flagged_row_9() -> None:
    tools = ToolCalls()
    tell(tools, kind="read")
    subject = ask(tools, kind="execute").subject
    assert (subject.kind, subject.changed) == (ToolKind.EXECUTE, ("kind",))


def test_a_later_update_replaces_arrays_and_null_keeps() -> None:
    tools = ToolCalls()
    tell(tools, content=[DIFF, DIFF], title="one")
    tell(tools, what="tool_call_update", content=[DIFF], title=None)
    subject = ask(tools).subject
    assert (subject.content, subject.title) == ((DIFF,), "one")


def test_other_updates_and_other_calls_say_nothing() -> None:
    tools = ToolCalls()
    tell(tools, what="plan", title="x")
    tell(tools, call_id="other", title="x")
    tell(tools, call_id=5, title="x")
    tell(tools, call_id="", title="x")
    assert ask(tools).subject.title == ""


def test_a_call_runs_until_it_ends_or_the_turn_does() -> None:
    tools = ToolCalls()
    assert not is_running(tools)
    tell(tools)
    tell(tools, what="tool_call_update", status="in_progress")
    assert is_running(tools)
    tell(tools, what="tool_call_update", status="completed")
    assert not is_running(tools)
    tell(tools, call_id="u", status="pending")
    tools.end_turn()
    assert not is_running(tools)
    assert ask(tools, "u").subject.tool_call_id == "u"


def test_only_the_newest_calls_are_remembered() -> None:
    tools = ToolCalls()
    for number in range(REMEMBERED + 1):
        tell(tools, call_id=str(number), title="x")
    assert ask(tools, "0").subject.title == ""
    assert ask(tools, str(REMEMBERED)).subject.title == "x"


def test_options_are_kept_as_offered_and_unknown_kinds_are_named_row_4() -> None:
    question = ask(ToolCalls())
    kinds = [
        OptionKind.ALLOW_ONCE,
        OptionKind.REJECT_ALWAYS,
        OptionKind.UNKNOWN,
        OptionKind.UNKNOWN,
    ]
    assert [option.kind for option in question.options] == kinds
    assert [option.to_json()["kind"] for option in question.options] == [
        *("allow_once", "reject_always"),
        *("unknown", "novel"),
    ]
    assert (question.wire_id, question.raw_sha256, question.agent_pid) == ("7", "abc", 42)


@pytest.mark.parametrize("value", [float("nan"), {"a": [float("inf")]}, "\ud800", {"\ud800": 1}])
def test_what_cannot_be_written_again_was_not_said(value: Any) -> None:
    tools = ToolCalls()
    tell(tools, rawInput=value, title="kept")
    subject = ask(tools).subject
    assert (subject.raw_input, subject.title) == (None, "kept")


@given(JSON, JSON, JSON)
def test_any_announcement_gives_a_question_that_can_be_written(a: Any, b: Any, c: Any) -> None:
    tools = ToolCalls()
    tell(tools, rawInput=a, content=b, locations=c, title=c, status=a, kind=b)
    tools.update({"update": a})
    subject = ask(tools).subject
    shown = [subject.title, subject.raw_input, subject.content, subject.locations]
    json.dumps(shown, ensure_ascii=False, allow_nan=False).encode()
    assert isinstance(subject.kind, ToolKind)


def test_what_is_kept_of_all_calls_is_bounded_in_bytes() -> None:
    """G13: 512 calls of 100 KB each are forgotten from the oldest on, and so is a name of a MiB.

    Without the second condition in `_upsert`: `assert 51429632 <= 4194304`.
    """
    calls = ToolCalls()
    for number in range(512):
        calls.update(
            {
                "update": {
                    "sessionUpdate": "tool_call",
                    "toolCallId": f"c{number}",
                    "rawInput": {"text": "x" * 100_000},
                }
            }
        )
        calls.update({"update": {"sessionUpdate": "tool_call", "toolCallId": "n" * 2**20}})
    kept = calls._calls
    assert sum(len(json.dumps(dict(call.fields))) for call in kept.values()) <= MAX_KEPT_BYTES
    assert "c511" in kept
    assert "c0" not in kept
    assert max(map(len, kept)) < 100
    assert calls._size == sum(call.size for call in kept.values())
