"""MCP servers: files of other programs, and the control socket."""

import json
from typing import Any

import pytest

from acpbridge.config.servers import read_file, read_wire
from acpbridge.errors import BridgeError

STDIO = {"name": "x", "command": "/x", "args": [], "env": []}
FAR = {"type": "http", "name": "f", "url": "https://f.test", "headers": []}


def found(program: str) -> str:
    if program == "missing":
        raise BridgeError("agent_not_found", "There is no program 'missing'.")
    return program if program.startswith("/") else f"/bin/{program}"


def read(value: Any) -> Any:
    return read_file(json.dumps(value), "mcp.json", found)


def test_the_common_shape_is_read_in_json_and_yaml() -> None:
    text = """
mcpServers:
  some_name: {command: npx, args: [-y, "@x/y"], env: {A_B: secret}}
  far: {type: streamable-http, url: "https://f.test", headers: {X-Api-Key: k}}
  old: {type: sse, url: "https://o.test"}
  plain: {type: stdio, command: /bin/p}
"""
    assert read_file(text, "mcp.yaml", found) == (
        {
            "name": "some_name",
            "command": "/bin/npx",
            "args": ["-y", "@x/y"],
            "env": [{"name": "A_B", "value": "secret"}],
        },
        {
            "type": "http",
            "name": "far",
            "url": "https://f.test",
            "headers": [{"name": "X-Api-Key", "value": "k"}],
        },
        {"type": "sse", "name": "old", "url": "https://o.test", "headers": []},
        {"name": "plain", "command": "/bin/p", "args": [], "env": []},
    )
    for server in read_file(text, "mcp.yaml", found):
        assert read_wire([dict(server)])


@pytest.mark.parametrize(
    ("servers", "key", "told"),
    [
        ({"a": {"command": "missing"}}, "mcpServers.a.command", "no program"),
        ({"a": {"command": "/x", "disabled": True}}, "mcpServers.a.disabled", "not known"),
        ({"a": {"url": "https://x"}}, "mcpServers.a", "type: http"),
        ({"a": {"type": "http"}}, "mcpServers.a.url", "needs a url"),
        ({"a": {"type": "ws", "url": "x"}}, "mcpServers.a.type", "http"),
        ({"a": {"name": "b", "command": "/x"}}, "mcpServers.a.name", "remove the name"),
        ({"a": []}, "mcpServers.a", "mapping"),
        ({"a": {"command": "/x", "env": {"K": 1}}}, "mcpServers.a.env.K", "quotes"),
    ],
)
def test_a_wrong_file_is_an_error_that_names_line_and_key(
    servers: Any, key: str, told: str
) -> None:
    with pytest.raises(BridgeError) as caught:
        read({"mcpServers": servers})
    assert caught.value.code == "config_error"
    assert caught.value.data["key"] == key
    assert told in caught.value.message


@pytest.mark.parametrize("value", [{}, [], {"servers": {}}, {"mcpServers": {}, "more": 1}, "x"])
def test_a_file_with_anything_else_is_refused(value: Any) -> None:
    with pytest.raises(BridgeError) as caught:
        read(value)
    assert caught.value.code == "config_error"


@pytest.mark.parametrize(
    "value",
    [
        {},
        [1],
        [{**STDIO, "command": "x"}],
        [{**STDIO, "command": ""}],
        [{**STDIO, "env": {"A": "hush"}}],
        [{**STDIO, "env": [{"name": "A", "value": "hush", "more": 1}]}],
        [{**STDIO, "type": "stdio"}],
        [{**FAR, "type": "acp"}],
        [{**FAR, "command": "/x"}],
        [{k: v for k, v in STDIO.items() if k != "args"}],
        [STDIO, STDIO],
    ],
)
def test_what_comes_over_the_socket_is_checked_and_not_repeated(value: Any) -> None:
    with pytest.raises(BridgeError) as caught:
        read_wire(value)
    assert caught.value.code == "invalid_params"
    assert "hush" not in caught.value.message


def test_what_is_right_comes_through_as_it_is() -> None:
    assert read_wire([STDIO, FAR]) == (STDIO, FAR)
