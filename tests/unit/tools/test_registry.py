"""What a model is told of each tool: that it is there, whole, and fits what the call takes."""

import json
from typing import Any

import jsonschema
import pytest

from acpbridge.errors import BridgeError
from acpbridge.router.toolcall import FACES
from acpbridge.router.tooling import CALLS
from acpbridge.router.toolset import REQUESTS
from acpbridge.tools.answers import FORBIDDEN, MOST, failure, text_of
from acpbridge.tools.registry import Facts, Tool, tools_for
from acpbridge.tools.sessions import TOOLS

ALL = Facts("agent:main:main", external=True, acp=True, names=tuple(CALLS))

every_tool = pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.name)

# What a request takes and no model is told of: it belongs to later work, and is refused by name.
LATER = {"sessions_spawn": {"thread"}}


def test_3_1_3_every_tool_that_is_served_has_its_entry_and_no_other() -> None:
    served = {name for name, call in CALLS.items() if call in REQUESTS}
    assert {tool.name for tool in TOOLS} == served
    assert all(tool.request is REQUESTS[CALLS[tool.name]] for tool in TOOLS)
    assert "AgentTool" not in served
    names = [tool.name for tool in tools_for(ALL)]
    assert names == [tool.name for tool in TOOLS]
    one = Facts("agent:main:main", external=False, acp=True, names=("agents_list",))
    assert [tool.name for tool in tools_for(one)] == ["agents_list"]


@every_tool
def test_3_1_3_a_schema_is_valid_and_says_all_that_the_call_takes(tool: Tool) -> None:
    schema = tool.parameters(ALL)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert "$ref" not in json.dumps(schema)
    assert "title" not in schema
    taken = set(tool.request.params()) - FACES - LATER.get(tool.name, set())
    assert set(schema["properties"]) == taken
    assert all(part["description"] for part in schema["properties"].values())
    assert not FACES & set(schema["properties"])
    assert schema["additionalProperties"] is False


@every_tool
def test_a_description_says_enough_and_not_too_much(tool: Tool) -> None:
    assert 80 < len(tool.text) < 900
    assert "\n" not in tool.text
    assert tool.title


def test_acp_is_in_the_schema_only_while_it_is_usable() -> None:
    (spawn,) = (tool for tool in TOOLS if tool.name == "sessions_spawn")
    without = Facts("agent:main:main", external=False, acp=False, names=tuple(CALLS))
    assert spawn.parameters(without)["properties"]["runtime"]["enum"] == ["subagent"]
    assert spawn.parameters(ALL)["properties"]["runtime"]["enum"] == ["subagent", "acp"]


def test_the_schema_of_a_spawn_has_ranges_defaults_and_enums() -> None:
    (spawn,) = (tool for tool in TOOLS if tool.name == "sessions_spawn")
    schema = spawn.parameters(ALL)
    parts = schema["properties"]
    assert schema["required"] == ["task"]
    assert parts["runTimeoutSeconds"] == {
        "type": "integer",
        "minimum": 0,
        "description": parts["runTimeoutSeconds"]["description"],
    }
    assert (parts["cleanup"]["enum"], parts["cleanup"]["default"]) == (["keep", "delete"], "keep")
    assert parts["expectsCompletionMessage"]["default"] is True
    assert parts["attachments"]["items"]["required"] == ["name", "content"]
    assert parts["attachAs"]["properties"] == {"mountPath": {"type": "string"}}


@pytest.mark.parametrize("code", sorted(FORBIDDEN))
def test_what_a_rule_refuses_is_forbidden(code: str) -> None:
    error = BridgeError("permission_denied", "no")
    error.code = code
    assert failure(error)["status"] == "forbidden"


def test_a_failure_says_what_to_do_and_keeps_what_came_with_it() -> None:
    data = {"childSessionKey": "k", "status": "accepted", "error": "another"}
    told = failure(BridgeError("no_such_agent", "There is no agent x.", data=data))
    assert told == {
        "status": "error",
        "error": "There is no agent x.",
        "errorCode": "no_such_agent",
        "hint": "Call agents_list for the ids that there are.",
        "childSessionKey": "k",
    }
    assert failure(BridgeError("no_such_agent", "no", hint="mine"))["hint"] == "mine"


def test_a_result_is_bounded_and_says_what_to_ask_instead() -> None:
    fits: dict[str, Any] = {"text": "ä" * ((MOST - 12) // 2)}
    assert text_of(fits, "x")[0] == fits
    shown, text = text_of({"text": "ä" * MOST}, "sessions_history")
    assert json.loads(text) == shown
    assert shown["errorCode"] == "message_too_large"
    assert "sessions_history" in shown["error"]
    assert len(text) < 1000
