"""The session tools over MCP, by the package's own client, against a real daemon."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.integration.daemon_home import Home, daemon_home


@asynccontextmanager
async def client(home: Home, *options: str, **env: str) -> AsyncIterator[ClientSession]:
    program, *words = home.argv("mcp", *options)
    server = StdioServerParameters(
        command=program, args=words, env={**home.env, **env}, cwd=home.path
    )
    with (home.path / "mcp.stderr").open("a", encoding="utf-8") as errors:
        async with stdio_client(server, errors) as streams, ClientSession(*streams) as session:
            await session.initialize()
            yield session


async def call(session: ClientSession, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await session.call_tool(tool, arguments)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


async def test_3_1_3_a_client_lists_the_agents(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        async with client(home) as session:
            listed = await session.list_tools()
            assert "agents_list" in [tool.name for tool in listed.tools]
            agents = await call(session, "agents_list")
        assert [row["id"] for row in agents["agents"]] == ["fake"]
