"""What a tool gets to know of the run that it is called in, and what it may do there.

An ability that the run was not given is None: a tool that needs it finds nothing to use, and says
so to the model.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Send = Callable[[str, str, str], Awaitable[None]]
"""Sends a text to somebody: channel, chat, content."""

InjectInbound = Callable[[str, str, str, str], None]
"""Puts a message into a chat, behind what waits there: channel, chat, sender, content."""


@dataclass(frozen=True, slots=True)
class ToolContextExtras:
    """Further abilities of a run's tools; each that is None is not there.

    Attributes:
        tenant: whose stores they use.
        inject_inbound: puts a message into a chat.
        invalidate_all_session_mcp: has the tools of every session's MCP servers read again.
        services: what an application hands to tools of its own, by name.
    """

    tenant: str = ""
    inject_inbound: InjectInbound | None = None
    invalidate_all_session_mcp: Callable[[], None] | None = None
    services: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ToolContext:
    """One run, as its tools see it.

    Attributes:
        agent_path: the call chain of who runs: `main`, `main/code-reviewer`.
        channel: that the run's message came by.
        chat_id: of the conversation there.
        sender_id: who wrote.
        sender_name: the same for people.
        activation_key: the session whose tools are offered, see `ToolRegistry`.
        send: sends a text; None: this run sends nothing.
        manager: calls other roles, a `SubAgentManager`; None: this run may not spawn.
        activate: offers a further tool to the session from the next model call on.
        tenant: whose stores are used.
        inject_inbound: puts a message into a chat; None: it may not.
        invalidate_all_session_mcp: has MCP tools read again; None: it may not.
        services: what the application hands in, by name.
    """

    agent_path: str = "main"
    channel: str = ""
    chat_id: str = ""
    sender_id: str = ""
    sender_name: str = ""
    activation_key: str = ""
    send: Send | None = None
    manager: Any | None = None
    activate: Callable[[str], None] | None = None
    tenant: str = ""
    inject_inbound: InjectInbound | None = None
    invalidate_all_session_mcp: Callable[[], None] | None = None
    services: Mapping[str, Any] = field(default_factory=dict)
