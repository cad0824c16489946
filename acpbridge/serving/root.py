"""The composition root of `acpbridge serve`: one Python agent on standard input and output."""

import os
import sys
from collections.abc import Callable

import anyio

from acpbridge import logline
from acpbridge.edge.load import load_entry, name_of, users_frames
from acpbridge.edge.serve import serve_stdio
from acpbridge.edge.stdio import claim_stdio
from acpbridge.errors import EXIT_OK, BridgeError
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.keys import agent_id
from acpbridge.model.modelagent import ENTRY
from acpbridge.runtimes.python import PythonRuntime
from acpbridge.serving.modelled import agent_by_model


def main(entry: str, loaded: Callable[[], None] | None = None) -> int:
    """Serve the agent that an entry names until standard input ends; return the exit status.

    What goes wrong is said on stderr, for whoever wrote the agent: the daemon quotes it.

    Args:
        entry: module and agent.
        loaded: called once the agent is found, before anything is read.
    """
    # Claimed before the agent's module is imported: what that prints must not get into the wire.
    logline.use(logline.plain)
    try:
        anyio.run(_serve, entry, loaded)
    except BridgeError as error:
        if error.__cause__ is not None:
            sys.stderr.writelines(users_frames(error.__cause__).format())
        sys.stderr.write(f"error ({error.code}): {error.message}\nnext: {error.hint}\n")
        return error.kind.exit
    return EXIT_OK


async def _serve(entry: str, loaded: Callable[[], None] | None) -> None:
    stdio = claim_stdio()
    agent = agent_by_model(os.environ) if entry == ENTRY else load_entry(entry)
    if loaded is not None:
        loaded()
    name = name_of(entry)
    definition = AgentDefinition(agent_id(name), name=name, kind=RuntimeKind.PYTHON, entry=entry)
    await serve_stdio(PythonRuntime(agent), stdio, definition=definition)
