"""The composition root of `acpbridge serve`: one Python agent on standard input and output.

Of the same floor as `app`, and apart from it: an agent starts fast only without store and router.
"""

import anyio

from acpbridge.edge.load import load_entry
from acpbridge.edge.serve import serve_stdio
from acpbridge.edge.stdio import claim_stdio
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
    await serve_stdio(PythonRuntime(load_entry(entry)), stdio)
