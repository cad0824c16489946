"""The roles that an agent with a model may call in one of its turns.

Above is the agent; below are its roles on the loop, with tools that ask as the agent's own do.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from acpbridge.agents.asking import asking_tools
from acpbridge.agents.calls import RunRegistry
from acpbridge.agents.client import Client
from acpbridge.agents.context import ToolContext
from acpbridge.agents.loop import RunConfig, Usage
from acpbridge.agents.loops import LoopEngine
from acpbridge.agents.preparing import Caller
from acpbridge.agents.registered import Registered
from acpbridge.agents.registry import Tool, ToolResult
from acpbridge.agents.roles import Roles, load_roles, roles_directory
from acpbridge.agents.spawning import SpawnAdapter
from acpbridge.agents.subagents import Household, SubAgents
from acpbridge.agents.unlisted import Unlisted
from acpbridge.logline import Logger
from acpbridge.model.address import Address
from acpbridge.model.inbound import InboundMessage
from acpbridge.router.toolcall import ToolRequest
from acpbridge.runtimes.turn import Turn

log = Logger(__name__)

DaemonCall = Callable[[ToolRequest], Awaitable[dict[str, Any]]]
"""Has a call served by the daemon that runs this process."""


def roles_beside(config: str) -> Roles:
    """Return the roles of a configuration; what is wrong with any is logged."""
    roles = load_roles(roles_directory(config))
    for warning in roles.warnings:
        log.warning("a role", problem=warning)
    return roles


def role_tools(turn: Turn, roles: Roles) -> list[Tool]:
    """Return the tools by which roles are called, each call shown in a turn.

    Nobody is asked whether a role may be called: it does nothing but by tools that ask.
    """

    def told(tool: Tool) -> Tool:
        async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult | str:
            role = str(arguments.get("role", ""))
            async with turn.tool(f"{tool.name} {role}", raw_input=dict(arguments)) as call:
                text = await tool.run(context, arguments)
                call.content(str(text))
                return text

        return replace(tool, run=run)

    return [told(tool) for tool in asking_tools(roles)]


@asynccontextmanager
async def with_roles(
    config: RunConfig, turn: Turn, client: Client, call: DaemonCall | None
) -> AsyncIterator[RunConfig]:
    """Return the configuration of a run that may call roles; they end with the block.

    Args:
        config: of the run without them.
        turn: that it serves.
        client: asks the model for roles: what they say is for their caller alone.
        call: None: the process stands alone.
    """
    registry: RunRegistry = Unlisted() if call is None else Registered(call)
    # What a role has, it has from its run.
    base = replace(config, client=client, interactive=False)
    house = Household(LoopEngine(base, used=lambda used: _count(turn, used)), registry)
    cause = InboundMessage(content=turn.text, sender=Address.system("acpbridge"))
    # The router knows by itself in which session this is: no key has to be told.
    caller = Caller("", config.tools, compress=config.auto_compress)
    async with SubAgents(caller, house) as agents:
        manager = SpawnAdapter(agents.answer, cause, config.agent_path, turn.cwd, agents.unload)
        yield replace(config, spawn_agent=manager)


def _count(turn: Turn, used: Usage) -> None:
    turn.tokens(input=used.input, output=used.output)
