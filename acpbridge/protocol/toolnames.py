"""What a tool is called, and which MCP server it is of, as one sight of its call says. Pure.

ACP has a field for the name, and none for the server; where a program says more is a fact of its
catalogue entry. Above is `toolcalls`, which joins what several sights of a call say.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from acpbridge.model.agents import ToolNames

# Names are words: real ones have some sixty characters. What is longer names nothing.
LONGEST_NAME: Final = 256


def names_of(call: Mapping[str, Any], where: Sequence[ToolNames]) -> dict[str, str]:
    """Return `tool` and `server`, as far as a call or an update of one says them.

    Args:
        call: as it came.
        where: the program says it besides ACP's own `name`, which comes first.
    """
    told = [spot for spot in where if not spot.only_if or _at(call, spot.only_if) is True]
    tools = [call.get("name"), *(_at(call, spot.tool) for spot in told)]
    servers = [_at(call, spot.server) for spot in told]
    found = {"tool": _first(tools), "server": _first(servers)}
    return {what: name for what, name in found.items() if name is not None}


def _at(value: Any, path: Sequence[str]) -> Any:
    """Return what lies at a path of keys, None if nothing does or there is no path."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if path else None


def _first(found: Sequence[Any]) -> str | None:
    for name in found:
        if isinstance(name, str) and 0 < len(name) <= LONGEST_NAME:
            return name
    return None
