"""Puts together an agent that is defined by a model: its definition, and its way to the daemon.

The daemon finds by itself which session this process belongs to; nothing that is said here makes it
more than that.
"""

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from acpbridge.errors import BridgeError
from acpbridge.model.modelagent import VARIABLE, ModelAgent
from acpbridge.model.requesters import Requester, Role
from acpbridge.runtimes.python import Agent

if TYPE_CHECKING:
    from acpbridge.router.toolcall import ToolRequest  # not before it is needed: it is slow

# The daemon finds by itself who calls: this says nothing to it.
_SELF = Requester(Role.AGENT)


def agent_by_model(environ: Mapping[str, str]) -> Agent:
    """Return the agent that the environment defines.

    Raises:
        BridgeError: `usage`: nothing is defined, or the packages for it are not installed.
    """
    try:
        settings = ModelAgent.read(environ[VARIABLE])
    except (KeyError, ValueError, TypeError):
        message = "No agent is defined here by a model."
        hint = "Define one in config.yaml: runtime: {kind: python, model: VENDOR:NAME}."
        raise BridgeError("usage", message, hint=hint) from None
    try:
        from acpbridge.agents.model import ModelDriven
    except ImportError as error:
        message = f"An agent with a model needs more packages: {error}."
        hint = "Install them for its interpreter: pip install 'acpbridge[agents]'."
        raise BridgeError("usage", message, hint=hint) from None
    return ModelDriven(settings, session_tools, daemon=daemon_call)


async def daemon_call(request: "ToolRequest") -> dict[str, Any]:
    """Have a call served by the daemon whose child this process is.

    Raises:
        BridgeError: the daemon's own, or it is not reached.
    """
    from acpbridge.daemon.client import connect
    from acpbridge.daemon.paths import find
    from acpbridge.daemon.remote import RemoteRouter

    async with connect(find(None, os.environ), start=False) as client:
        return await RemoteRouter(client).tool(request, _SELF)


async def session_tools(names: Sequence[str]) -> list[Any]:
    """Return those of some session tools that the daemon gives to this session.

    Which that are depends on where the session stands: a sub-agent has fewer than a main one.

    Raises:
        BridgeError: the daemon is not reached.
    """
    from acpbridge.agents.registry import Tool
    from acpbridge.daemon.client import connect
    from acpbridge.daemon.paths import find
    from acpbridge.daemon.remote import RemoteRouter
    from acpbridge.tools import registry
    from acpbridge.tools.answers import failure, text_of

    paths = find(None, os.environ)
    async with connect(paths, start=False) as client:
        facts = await registry.Facts.ask(RemoteRouter(client), _SELF)
    given = {tool.name: tool for tool in registry.tools_for(facts)}

    def made(tool: registry.Tool) -> Tool:
        async def run(_context: object, arguments: Mapping[str, Any]) -> str:
            try:
                async with connect(paths, start=False) as client:
                    router = RemoteRouter(client)
                    result = await tool.call(router, _SELF, arguments, registry.Caller())
            except BridgeError as error:
                result = failure(error)
            return text_of(result, tool.name)[1]

        return Tool(tool.name, tool.text, run, tool.parameters(facts), reads=tool.reads)

    return [made(given[name]) for name in names if name in given]
