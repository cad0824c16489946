"""Real MCP clients list and call every tool: the TypeScript SDK and the inspector (3-1.3)."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from acpbridge.router.tooling import CALLS
from tests.integration.daemon_home import Home, daemon_home
from tests.integration.mcp_client import configure
from tests.real import install

pytestmark = [pytest.mark.real, pytest.mark.timeout(150)]

FOLDER = install.DEFAULT_FOLDER
SCRIPT = Path(__file__).with_name("mcp_client.mjs")

# A node program takes a second to start; a busy machine several times as long.
PATIENCE = 60.0


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("clients")) as found:
        configure(found)
        found.start()
        yield found


def node(home: Home, *words: str, stdin: str = "") -> Any:
    """Run a program of node's; return the JSON that it prints."""
    env = home.env | {
        "PATH": f"{install.node_folder(FOLDER)}:{os.environ['PATH']}",
        "MCP_MODULES": str(FOLDER / "node_modules"),
    }
    done = subprocess.run(
        ["node", *words],
        input=stdin,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE,
        env=env,
        cwd=home.path,
        check=False,
    )
    assert done.returncode == 0, done
    return json.loads(done.stdout)


# A call of each tool that a client can make at once, and what its result must have.
CALLED: dict[str, tuple[dict[str, Any], str]] = {
    "agents_list": ({}, "agents"),
    "sessions_spawn": ({"task": "say hi", "runtime": "acp", "agentId": "fake"}, "childSessionKey"),
    "sessions_send": ({"sessionKey": "agent:nobody:main", "message": "hi"}, "errorCode"),
    "sessions_list": ({"limit": 3}, "sessions"),
    "sessions_history": ({"limit": 3}, "messages"),
    "session_status": ({}, "stateVersion"),
    "subagents": ({}, "tasks"),
    "sessions_yield": ({}, "status"),
}


def test_the_typescript_sdk_lists_and_calls_every_tool(home: Home) -> None:
    calls = [{"name": name, "arguments": given} for name, (given, _) in CALLED.items()]
    found = node(home, str(SCRIPT), *home.argv("mcp"), stdin=json.dumps(calls))
    assert found["server"]["name"] == "acpbridge"
    listed = {tool["name"]: tool for tool in found["tools"]}
    assert set(listed) == set(CALLS) == set(CALLED)
    for call, result in zip(calls, found["results"], strict=True):
        name = str(call["name"])
        jsonschema.validate(call["arguments"], listed[name]["inputSchema"])
        assert CALLED[name][1] in result["structuredContent"], result
        assert json.loads(result["content"][0]["text"]) == result["structuredContent"]


def inspector(home: Home, *words: str) -> Any:
    program = FOLDER / "node_modules" / ".bin" / "mcp-inspector"
    command, *options = home.argv("mcp")
    return node(home, str(program), "--cli", *words, command, "--", *options)


def test_the_inspector_lists_every_tool_and_calls_one(home: Home) -> None:
    listed = inspector(home, "--method", "tools/list")
    assert {tool["name"] for tool in listed["tools"]} == set(CALLS)
    called = inspector(home, "--method", "tools/call", "--tool-name", "agents_list")
    assert {row["id"] for row in called["structuredContent"]["agents"]} >= {"fake", "user"}
