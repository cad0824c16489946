"""The session tools as the package's own MCP client sees them, and an agent that has them."""

import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from acpbridge import __version__
from acpbridge.daemon import quick
from acpbridge.daemon.wire import WIRE_VERSION
from fixtures import tools_agent
from tests.integration.daemon_home import Home

AGENT = [sys.executable, "-I", "-S", str(Path(tools_agent.__file__).resolve())]


def configure(home: Home, **limits: Any) -> None:
    """Configure a fake agent, one that uses the tools, and one that has none."""
    rows: list[dict[str, Any]] = [
        {"id": "fake", "runtime": {"command": home.agent()}},
        {"id": "user", "runtime": {"command": AGENT}, "tools": {"sessions": True}},
        {"id": "none", "runtime": {"command": AGENT}},
    ]
    value = {"agents": {"list": rows}, "limits": limits}
    (home.path / "config.yaml").write_text(json.dumps(value), encoding="utf-8")


# Has the agent say the server that it was given.
SERVER = json.dumps({"server": True})


def said_token(events: list[dict[str, Any]]) -> str:
    """Return the token in the server that an agent said."""
    updates = [event["update"] for event in events if event["type"] == "update"]
    text = "".join(u["content"]["text"] for u in updates if "content" in u)
    ((server,),) = (json.loads(text),)
    (pair,) = server["env"]
    assert pair["name"] == "ACPBRIDGE_TOOL_TOKEN"
    return str(pair["value"])


@asynccontextmanager
async def client(home: Home, *options: str, **env: str) -> AsyncIterator[ClientSession]:
    """Run `acpbridge mcp`, and speak to it."""
    program, *words = home.argv("mcp", *options)
    server = StdioServerParameters(
        command=program, args=words, env={**home.env, **env}, cwd=home.path
    )
    with (home.path / "mcp.stderr").open("a", encoding="utf-8") as errors:
        async with stdio_client(server, errors) as streams, ClientSession(*streams) as session:
            await session.initialize()
            yield session


async def call(session: ClientSession, tool: str, **arguments: Any) -> dict[str, Any]:
    """Call a tool; check that both forms of its result are the same, and return it."""
    result = await session.call_tool(tool, arguments)
    found = result.structured_content
    assert isinstance(found, dict)
    (block,) = result.content
    assert block.type == "text"
    assert json.loads(block.text) == found
    assert result.is_error is (found.get("status") in ("error", "forbidden"))
    return found


def inside(home: Home, *calls: dict[str, Any], agent: str = "user", **options: str) -> list[Any]:
    """Have an agent make calls; return what came of each."""
    prompt = "\n".join(map(json.dumps, calls))
    words = [f"--{name}={value}" for name, value in options.items()]
    done = home.run("run", prompt, "--agent", agent, "--format", "quiet", *words)
    assert done.code == 0, done
    return [json.loads(line) for line in done.out.splitlines() if line.strip()]


def say_hello(peer: quick.Quick, **claims: Any) -> dict[str, Any]:
    """Say hello; return what is answered."""
    told: dict[str, Any] = peer.call("hello", version=__version__, wire=WIRE_VERSION, **claims)
    return told


def hello(home: Home, **claims: Any) -> tuple[quick.Quick, dict[str, Any]]:
    """Connect past every client of ours, and say who one is."""
    found = quick.connect(home.paths, any_version=True)
    assert found is not None
    try:
        return found, say_hello(found, **claims)
    except BaseException:
        found.close()
        raise
