"""What an agent takes in a prompt, by what it advertises (C9). Pure."""

from collections.abc import Mapping
from typing import Any, Final

from acpbridge.errors import BridgeError
from acpbridge.protocol import acp

# Text and links are taken by every agent.
_NEEDS: Final = {"image": "image", "audio": "audio", "resource": "embeddedContext"}


def check_content(capabilities: Mapping[str, Any], content: tuple[Mapping[str, Any], ...]) -> None:
    """Check that the agent takes every block of a prompt.

    Raises:
        BridgeError: `unsupported_control`, naming the capability.
    """
    for block in content:
        need = _NEEDS.get(str(block.get("type")))
        if need is not None and not acp.can(capabilities, "promptCapabilities", need):
            message = (
                f"The agent takes no {block['type']} in a prompt: "
                f"it does not advertise promptCapabilities.{need}."
            )
            hint = "Leave it out, or use an agent that takes it."
            raise BridgeError("unsupported_control", message, hint=hint)


def without_bytes(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return a block as it is told of: an image or a sound by its type and size only."""
    data = block.get("data")
    if block.get("type") not in ("image", "audio") or not isinstance(data, str):
        return dict(block)
    # Of base64, four characters are three bytes.
    size = len(data) * 3 // 4 - data[-2:].count("=")
    return {**{k: v for k, v in block.items() if k != "data"}, "bytes": size}


def check_servers(capabilities: Mapping[str, Any], servers: tuple[Mapping[str, Any], ...]) -> None:
    """Check that the agent can reach every MCP server; each one reaches one on stdio (C8).

    Raises:
        BridgeError: `unsupported_control`, naming the server and the capability.
    """
    for server in servers:
        kind = server.get("type")
        if kind is not None and not acp.can(capabilities, "mcpCapabilities", str(kind)):
            message = (
                f"The agent cannot use the MCP server {server.get('name')!r}: "
                f"it does not advertise mcpCapabilities.{kind}."
            )
            hint = "Leave the server out, or give one that is a command."
            raise BridgeError("unsupported_control", message, hint=hint)
