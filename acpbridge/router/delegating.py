"""What an agent may start: depth, number, circles and the lists of the configuration. Pure.

Above are `spawn`, which asks in the order that is promised, and `accepting`, which asks again
when nothing is awaited any more: a run by an agent is a spawn, by whatever door it comes. Who asks
is known from stored lineage; nothing that a request says of itself is looked at (case 137).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from acpbridge.config.snapshot import Config, Limits
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.delegation import ANY, Delegation
from acpbridge.model.keys import AgentId


@dataclass(frozen=True, slots=True)
class Asker:
    """A session that asks for a child.

    Attributes:
        agent: its own.
        depth: how deep it lies; 0 for one that nobody spawned.
        chain: the agents above it, the topmost first, and its own last.
        children: how many of its children are active.
    """

    agent: AgentId
    depth: int = 0
    chain: tuple[AgentId, ...] = ()
    children: int = 0


def check(config: Config, asker: Asker, target: AgentDefinition) -> None:
    """Check all that is asked of every child, in the order that is promised.

    Raises:
        BridgeError: `acp_disabled`, `agent_forbidden`, `subagent_policy`, `no_such_agent`.
    """
    check_enabled(config, target.kind)
    check_listed(config, target)
    check_room(config.limits, asker)
    check_circle(asker, target.id)
    check_allowed(config, asker, target)


def check_enabled(config: Config, kind: RuntimeKind) -> None:
    """Check that external agents may be started at all."""
    if kind is RuntimeKind.ACP and not config.acp.enabled:
        raise BridgeError("acp_disabled", "No ACP agent may be started: acp.enabled is false.")


def check_listed(config: Config, target: AgentDefinition) -> None:
    """Check an external agent against `acp.allowedAgents`; an empty list restricts nothing."""
    allowed = config.acp.allowed_agents
    if target.kind is not RuntimeKind.ACP or not allowed or ANY in allowed or target.id in allowed:
        return
    message = f"agentId {target.id} may not be spawned (allowed: {_listed(allowed)})."
    hint = f"Add {target.id} to acp.allowedAgents in config.yaml, or spawn one of those allowed."
    raise BridgeError("agent_forbidden", message, hint=hint)


def check_room(limits: Limits, asker: Asker) -> None:
    """Check depth and number of children; the limits in force now decide."""
    if asker.depth >= limits.max_depth:
        message = (
            f"sessions_spawn is not allowed at this depth (current depth: {asker.depth}, max:"
            f" {limits.max_depth}; limits.maxDepth)."
        )
        hint = "Do it in this session, or have a person raise limits.maxDepth in config.yaml."
        raise BridgeError("subagent_policy", message, hint=hint)
    check_number(limits, asker)


def check_number(limits: Limits, asker: Asker) -> None:
    """Check the number of active children; those that have ended do not count."""
    most = limits.max_children_per_session
    if asker.children >= most:
        message = (
            "sessions_spawn has reached max active children for this session"
            f" ({asker.children}/{most}; limits.maxChildrenPerSession)."
        )
        hint = "Wait for one to end, or end one; or raise limits.maxChildrenPerSession."
        raise BridgeError("subagent_policy", message, hint=hint)


def check_circle(asker: Asker, target: AgentId) -> None:
    """Check that no agent is started by way of others by itself (0-14, case 137).

    Names are compared. One more session of the agent that asks is no circle: depth and number bound
    it.
    """
    if target == asker.agent or target not in asker.chain:
        return
    chain = ", ".join(asker.chain)
    message = f"circular SubAgent call: {target} already in chain [{chain}]."
    hint = f"Have {target}'s own session do it: end this turn with what it needs to know."
    raise BridgeError("subagent_policy", message, hint=hint)


def check_allowed(config: Config, asker: Asker, target: AgentDefinition) -> None:
    """Check a Python agent against the `subagents.allowAgents` of who asks."""
    if target.kind is not RuntimeKind.PYTHON:
        return
    rules = delegation_of(config, asker.agent)
    allowed = (asker.agent,) if rules.allow_agents is None else rules.allow_agents
    if target.id != asker.agent:
        check_configured(config, target.id, allowed)
    if target.id in allowed or ANY in allowed:
        return
    message = f"agentId is not allowed for sessions_spawn (allowed: {_listed(allowed)})."
    hint = f"Add {target.id} to subagents.allowAgents of {asker.agent} in config.yaml."
    raise BridgeError("subagent_policy", message, hint=hint)


def check_configured(config: Config, target: AgentId, allowed: Iterable[str]) -> None:
    """Check that the configuration has an agent."""
    if target not in config.agents:
        message = (
            f'agentId "{target}" is not in the configured agent registry'
            f" (allowed: {_listed(allowed)})."
        )
        hint = "Spawn one of those allowed, or give it an entry in agents.list of config.yaml."
        raise BridgeError("no_such_agent", message, hint=hint)


def delegation_of(config: Config, agent: AgentId) -> Delegation:
    """Return what an agent's sessions may start, as the configuration says now."""
    found = config.agents.get(agent)
    return config.delegation if found is None else found.delegation


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none"
