"""How an agent is given the session tools: the entry of an MCP server that is this very program."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from acpbridge.daemon.paths import PROGRAM

# What the agent knows the server by, and where the server finds the token.
NAME: Final = "acpbridge"
TOKEN: Final = "ACPBRIDGE_TOOL_TOKEN"  # noqa: S105 - the name of a variable


def tool_server(home: Path, token: str) -> Mapping[str, Any]:
    """Return the server as `session/new` has it.

    The state directory is named, for an agent may start it without the environment that it has.
    """
    program, *options = PROGRAM
    return {
        "name": NAME,
        "command": program,
        "args": [*options, "--home", str(home), "mcp"],
        "env": [{"name": TOKEN, "value": token}],
    }
