"""What a model sees of sub-agents: the tools `SubAgent` and `UnloadSubAgent`.

A call never fails: whatever goes wrong is its text, for the model to go on with.
"""

from collections.abc import Mapping
from typing import Any, Final

from acpbridge.agents.calls import SubAgentManager
from acpbridge.agents.context import ToolContext
from acpbridge.agents.preparing import SUB_AGENT, UNLOAD_SUB_AGENT
from acpbridge.agents.registry import Tool
from acpbridge.agents.roles import Roles, offer
from acpbridge.errors import BridgeError
from acpbridge.model.outbound import OutboundMessage

FAILED: Final = "Sub-agent error: "

_ROLE: Final = {"type": "string", "description": "Name of a role."}

SUB_AGENT_PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "task": {
            "type": "string",
            "description": "All that the sub-agent needs to know; it sees nothing else.",
        },
        "role": _ROLE,
        "interactive": {
            "type": "boolean",
            "description": (
                "Keep the sub-agent for more: the next call with this role goes on with it. "
                "UnloadSubAgent ends it."
            ),
        },
    },
    "required": ["task", "role"],
    "additionalProperties": False,
}

UNLOAD_PARAMETERS: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"role": _ROLE},
    "required": ["role"],
    "additionalProperties": False,
}

UNLOAD_DESCRIPTION: Final = (
    "End an interactive sub-agent. What it has learnt is kept if its role has a memory."
)


def asking_tools(roles: Roles) -> tuple[Tool, Tool]:
    """Return both tools, for the tools that an agent has from the beginning."""

    async def call(context: ToolContext, params: Mapping[str, Any]) -> str:
        return await sub_agent(context.manager, roles, params)

    async def unload(context: ToolContext, params: Mapping[str, Any]) -> str:
        return await unload_sub_agent(context.manager, params)

    return (
        Tool(SUB_AGENT, describe(roles), call, SUB_AGENT_PARAMETERS),
        Tool(UNLOAD_SUB_AGENT, UNLOAD_DESCRIPTION, unload, UNLOAD_PARAMETERS),
    )


def describe(roles: Roles) -> str:
    """Return what a model is told of the tool `SubAgent`."""
    rows = [f"- {row['role']}: {row['description']}" for row in offer(roles)]
    return "\n".join(["Have a sub-agent do a task, and get its answer. Roles:", *rows])


async def sub_agent(
    manager: SubAgentManager | None, roles: Roles, params: Mapping[str, Any]
) -> str:
    """Serve a call of `SubAgent`.

    Args:
        manager: calls whom it names; None: this run may call nobody.
        roles: those that there are.
        params: of the call, as the model made them.
    """
    try:
        calls = _allowed(manager)
        task, role = _word(params, "task"), roles.get(_word(params, "role"))
        call = calls.interactive_sub_agent if _interactive(params) else calls.run_sub_agent
        answer = await call(task, role.system_prompt, role.tools, role.capabilities, role.name)
    except BridgeError as error:
        return FAILED + told(error)
    return told_answer(answer)


async def unload_sub_agent(manager: SubAgentManager | None, params: Mapping[str, Any]) -> str:
    """Serve a call of `UnloadSubAgent`."""
    try:
        return await _allowed(manager).unload_sub_agent(_word(params, "role"))
    except BridgeError as error:
        return FAILED + told(error)


def told_answer(answer: OutboundMessage) -> str:
    """Return what a model is told of an answer."""
    return answer.content if answer.error is None else FAILED + told(answer.error)


def told(error: Exception) -> str:
    """Return what a model is told of an error."""
    if isinstance(error, BridgeError):
        return f"{error.message} {error.hint}".rstrip()
    return f"{type(error).__name__}: {error}"


def _allowed(manager: SubAgentManager | None) -> SubAgentManager:
    if manager is None:
        raise BridgeError("subagent_policy", "This run may not call sub-agents.")
    return manager


def _interactive(params: Mapping[str, Any]) -> bool:
    value = params.get("interactive", False)
    if not isinstance(value, bool):
        raise BridgeError("invalid_params", "interactive: it must be true or false.")
    return value


def _word(params: Mapping[str, Any], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str) or not value.strip():
        raise BridgeError("invalid_params", f"{name}: it must be a text that is not blank.")
    return value
