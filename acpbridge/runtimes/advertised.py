"""What an agent is told that we serve: exactly what its definition switches on.

Above is the runtime, which says it at `initialize`; what was not said is not served (row 39).
"""

from typing import Any

from acpbridge.model.agents import AgentDefinition


def served(definition: AgentDefinition) -> dict[str, Any]:
    """Return the part of `clientCapabilities` that a definition decides."""
    files = {
        "readTextFile": definition.client_fs_read,
        "writeTextFile": definition.client_fs_write,
    }
    return {"fs": files, **({"terminal": True} if definition.client_terminal else {})}
