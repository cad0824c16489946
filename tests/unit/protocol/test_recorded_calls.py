"""What real agents say of a call, as it was recorded, comes to a question that shows what happens.

`recorded/` has of each agent a command, an edit and a call of an MCP tool, from the announcement to
the end; ids and the work directory (`/w`) are put in afterwards.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from acpbridge.config.catalogue import CATALOGUE
from acpbridge.model.agents import ToolNames
from acpbridge.model.permission import ToolSubject
from acpbridge.protocol import acp
from acpbridge.protocol.promises import MOST_SHOWN, TOO_LONG
from acpbridge.protocol.toolcalls import ToolCalls
from acpbridge.protocol.toolnames import LONGEST_NAME

RECORDED = Path(__file__).parent / "recorded"
AGENTS = ("claude", "codex", "gemini")


def subjects(agent: str, cwd: str = "/w") -> dict[str, ToolSubject]:
    """Return what is asked in a recording, by the name of the call."""
    tools = ToolCalls(CATALOGUE[agent].tool_names, cwd)
    out = {}
    for line in (RECORDED / f"{agent}.jsonl").read_text(encoding="utf-8").splitlines():
        frame = json.loads(line)
        if "id" not in frame:
            tools.update(frame["params"])
            continue
        params = acp.read(acp.PermissionParams, frame["params"], "x")
        subject = tools.ask(params, "1", "", 0).subject
        out[subject.tool_call_id] = subject
    return out


@pytest.mark.parametrize("agent", AGENTS)
def test_row_09_nothing_that_a_real_agent_asks_reads_as_changed(agent: str) -> None:
    """Claude names a file as its model did, and asks with the whole path of it."""
    found = subjects(agent)
    more = {"relative-edit", "relative-write"} if agent == "claude" else set()
    assert set(found) == {"edit", "execute", "mcp"} | more
    assert {name: subject.changed for name, subject in found.items()} == dict.fromkeys(found, ())


def test_row_09_another_directory_would_have_made_it_another_file() -> None:
    found = subjects("claude", "/elsewhere")
    assert found["relative-write"].changed == ("rawInput", "locations", "content")
    assert found["relative-edit"].announced["locations"] == [{"path": "old.txt"}]
    assert found["edit"].changed == ()


@pytest.mark.parametrize("agent", AGENTS)
def test_an_edit_is_asked_about_with_its_file_and_its_change(agent: str) -> None:
    """Codex asks without the change: that stands in the announcement alone."""
    subject = subjects(agent)["edit"]
    (diff,) = subject.content
    assert (diff["type"], diff["path"], subject.locations) == ("diff", "/w/c.txt", ("/w/c.txt",))
    assert diff["newText"].strip() == "hello\nworld"


@pytest.mark.parametrize(
    ("agent", "call", "tool", "server"),
    [
        ("claude", "execute", "Bash", ""),
        ("claude", "edit", "Write", ""),
        ("claude", "mcp", "mcp__team__announce", "team"),
        ("codex", "execute", "", ""),
        ("codex", "mcp", "announce", "team"),
        ("gemini", "mcp", "", ""),  # it says so in the title alone, and a title is no evidence
    ],
)
def test_a_tool_and_its_server_are_named_where_the_agent_says_them(
    agent: str, call: str, tool: str, server: str
) -> None:
    subject = subjects(agent)[call]
    assert (subject.tool, subject.server) == (tool, server)


# ---- names ----

SPOTS = CATALOGUE["codex"].tool_names


def asked(tools: ToolCalls, **call: Any) -> ToolSubject:
    params = {"sessionId": "s", "toolCall": {"toolCallId": "t", **call}, "options": []}
    return tools.ask(acp.read(acp.PermissionParams, params, "x"), "1", "", 0).subject


def told(tools: ToolCalls, **call: Any) -> None:
    tools.update({"update": {"sessionUpdate": "tool_call", "toolCallId": "t", **call}})


def test_a_model_cannot_name_a_server_by_the_keys_of_its_own_input() -> None:
    """Without the look at `only_if`: a rule for a trusted server could be satisfied by any tool."""
    mine = {"server": "team", "tool": "announce"}
    assert asked(ToolCalls(SPOTS), rawInput=mine).server == ""
    marked = {"_meta": {"is_mcp_tool_call": True}}
    assert asked(ToolCalls(SPOTS), rawInput=mine, **marked).server == "team"
    for lie in ("true", 1, None):
        said = asked(ToolCalls(SPOTS), rawInput=mine, _meta={"is_mcp_tool_call": lie})
        assert said.server == ""


def test_the_protocols_own_name_comes_first_and_what_is_none_is_not_taken() -> None:
    spots = (ToolNames(tool=("_meta", "tool")),)
    assert asked(ToolCalls(spots), name="A", _meta={"tool": "B"}).tool == "A"
    assert asked(ToolCalls(spots), _meta={"tool": "B"}).tool == "B"
    for none in (None, "", 7, ["A"], "x" * (LONGEST_NAME + 1)):
        assert asked(ToolCalls(), name=none).tool == ""
    # Not a field of the protocol: whatever lies there is nobody's word.
    assert asked(ToolCalls(), tool="A", server="B").tool == ""


def test_row_09_a_tool_that_is_another_one_than_was_announced_is_flagged() -> None:
    tools = ToolCalls()
    told(tools, name="Read")
    subject = asked(tools, name="Write")
    assert (subject.tool, subject.changed) == ("Write", ("tool",))
    assert subject.announced == {"tool": "Read"}


# ---- one and the same file ----


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"file_path": "a/b.txt"}, {"file_path": "/w/a/b.txt"}),
        ({"file_path": "./a"}, {"file_path": "/w/a"}),
        ({"paths": ["a", "/w/b"]}, {"paths": ["/w/a", "/w/b"]}),
        ({"edit": {"path": "a", "n": 1}}, {"edit": {"path": "/w/a", "n": 1}}),
    ],
)
def test_row_09_a_file_that_is_named_by_its_whole_path_later_has_not_changed(
    first: Any, then: Any
) -> None:
    tools = ToolCalls(cwd="/w")
    told(tools, rawInput=first)
    assert asked(tools, rawInput=then).changed == ()


@pytest.mark.parametrize(
    ("first", "then"),
    [
        ({"file_path": "a"}, {"file_path": "/x/a"}),
        ({"file_path": "a"}, {"file_path": "/w/b"}),
        # Where a link leads nobody knows here.
        ({"file_path": "l/../a"}, {"file_path": "/w/a"}),
        ({"file_path": "a"}, {"file_path": "/w/l/../a"}),
        # What is not known to be a path is what it is: another program would run.
        ({"command": "make"}, {"command": "/w/make"}),
        ({"args": ["make"]}, {"args": ["/w/make"]}),
        # What was shown in full must not become something that depends on a directory.
        ({"file_path": "/w/a"}, {"file_path": "a"}),
        ({"file_path": "a", "x": 1}, {"file_path": "/w/a"}),
        ({"file_path": "a", "x": 1}, {"file_path": "/w/a", "x": True}),
        ({"paths": ["a"]}, {"paths": ["/w/a", "/w/b"]}),
    ],
)
def test_row_09_what_may_be_another_file_has_changed(first: Any, then: Any) -> None:
    tools = ToolCalls(cwd="/w")
    told(tools, rawInput=first)
    subject = asked(tools, rawInput=then)
    assert (subject.changed, subject.announced) == (("rawInput",), {"rawInput": first})


def test_row_09_without_a_directory_no_relative_path_is_known_to_be_the_same() -> None:
    tools = ToolCalls()
    told(tools, rawInput={"path": "a"})
    assert asked(tools, rawInput={"path": "/a"}).changed == ("rawInput",)


def test_row_09_places_and_changes_of_one_file_are_the_same_however_it_is_named() -> None:
    diff = {"type": "diff", "oldText": None, "newText": "x"}
    tools = ToolCalls(cwd="/w")
    told(tools, locations=[{"path": "a"}], content=[{**diff, "path": "a"}])
    places = [{"path": "/w/a", "line": 7}]
    assert asked(tools, locations=places, content=[{**diff, "path": "/w/a"}]).changed == ()
    more = [*places, {"path": "/w/b"}]
    assert asked(tools, locations=more).changed == ("locations",)


def test_row_09_what_was_announced_is_kept_with_a_question_up_to_a_bound() -> None:
    tools = ToolCalls()
    told(tools, kind="read", rawInput={"text": "x" * MOST_SHOWN})
    subject = asked(tools, kind="execute", rawInput={})
    assert subject.announced == {"kind": "read", "rawInput": TOO_LONG}


def test_row_09_input_that_is_nested_too_deeply_to_be_compared_has_changed() -> None:
    deep: Any = {"path": "a"}
    for _ in range(400):
        deep = [deep]
    tools = ToolCalls(cwd="/w")
    told(tools, rawInput=deep)
    assert asked(tools, rawInput=[*deep, 1]).changed == ("rawInput",)
