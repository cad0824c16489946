"""Lets a main agent call roles: a child runs on the same loop, with what its caller's run has.

Above is whoever wires a main agent; below are the loop and the sub-agents of one run.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from acpbridge.agents.calls import RunRegistry, SubAgentManager
from acpbridge.agents.interactive import Conversations
from acpbridge.agents.loop import RunConfig
from acpbridge.agents.loops import LoopEngine
from acpbridge.agents.main import SubAgentsOf
from acpbridge.agents.preparing import Caller
from acpbridge.agents.spawning import SpawnAdapter
from acpbridge.agents.subagents import Household, SubAgents
from acpbridge.agents.unlisted import Unlisted
from acpbridge.model.inbound import InboundMessage


def roles_of(registry: RunRegistry | None = None, workspace: str = "") -> SubAgentsOf:
    """Return what gives each run of a main agent the roles that it may call.

    Args:
        registry: makes children known to the router; None: nobody else knows of them.
        workspace: directory that the main agent works in, "" for none.
    """
    conversations, known = Conversations(), registry or Unlisted()

    @asynccontextmanager
    async def entered(config: RunConfig, cause: InboundMessage) -> AsyncIterator[SubAgentManager]:
        household = Household(LoopEngine(config), registry=known, conversations=conversations)
        caller = Caller(config.activation_key, config.tools, compress=config.auto_compress)
        async with SubAgents(caller, household) as agents:
            path = config.agent_path
            yield SpawnAdapter(agents.answer, cause, path, workspace, agents.unload)

    return entered
