"""The composition root of `acpbridge serve`: one Python agent on standard input and output.

Of the same floor as `app`, and apart from it: an agent starts fast only without store and router.
"""

import anyio

from acpbridge import logs
from acpbridge.edge.load import load_entry
from acpbridge.edge.serve import serve_stdio
from acpbridge.edge.stdio import claim_stdio
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.keys import agent_id
from acpbridge.runtimes.python import PythonRuntime


def serve(entry: str) -> None:
    """Serve the agent that `MODULE:ATTRIBUTE` names until standard input ends.

    Raises:
        BridgeError: `usage`, when there is no such agent or it does not import.
    """
    anyio.run(_serve, entry)


async def _serve(entry: str) -> None:
    # Claimed before the agent's module is imported: what that prints must not get into the wire.
    stdio = claim_stdio()
    logs.to_stderr()
    name = entry.rpartition(":")[2].replace(".", "-")
    definition = AgentDefinition(agent_id(name), name=name, kind=RuntimeKind.PYTHON, entry=entry)
    await serve_stdio(PythonRuntime(load_entry(entry)), stdio, definition=definition)
