"""Of a call and its caller, a child that is ready to run: its tools, its instruction, its origin.

What a child may do is what its caller may do, less what the call does not give. Nothing that a
message says of its sender's place in the chain is looked at: the caller is known.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from acpbridge.agents.calls import Child, Toolset
from acpbridge.agents.chain import CallChain
from acpbridge.agents.spawning import granted, interactive
from acpbridge.model.inbound import WORKSPACE_ROOT, InboundMessage

SUB_AGENT: Final = "SubAgent"
UNLOAD_SUB_AGENT: Final = "UnloadSubAgent"

CALLING: Final = frozenset({SUB_AGENT, UNLOAD_SUB_AGENT})
"""Tools by which agents are called; of a child only if its role names the first of them."""

SENDING: Final = frozenset({"message", "send", "send_message", "SendMessage", "sessions_send"})
"""Tools that write to others; of a child only if its role may send."""

T = TypeVar("T", bound=Toolset)


@dataclass(frozen=True, slots=True)
class Caller:
    """One whose run calls others.

    Attributes:
        key: its session key, or another name of its run.
        tools: its own.
        chain: with it as the last entry.
        compress: its automatic compression, None for none.
    """

    key: str
    tools: Toolset
    chain: CallChain = field(default_factory=CallChain)
    compress: Any = None


def tools_of(tools: T, listed: Sequence[str], *, may_send: bool) -> T:
    """Return the tools of a child: a set of its own, never with one that its caller has not.

    Args:
        tools: of the caller.
        listed: the only ones that the child gets; empty for all.
        may_send: whether it may write to others.
    """
    own, calls = tools.clone(), SUB_AGENT in listed
    away = (frozenset() if calls else CALLING) | (frozenset() if may_send else SENDING)
    for name in away:
        own.unregister(name)
    if listed:
        own.limit((frozenset(listed) | (CALLING if calls else frozenset())) - away)
    return own


def prepare(message: InboundMessage, caller: Caller) -> Child:
    """Return the child that a message calls; its key and its own calls are to be filled in.

    Raises:
        BridgeError: `subagent_policy`: the chain of calls does not allow it; `no_such_agent`: the
            role's name is none.
    """
    may = granted(message)
    where = message.metadata.get(WORKSPACE_ROOT, "")
    directory = f"\n\nWorking directory: {where}\n" if where else ""
    return Child(
        chain=caller.chain.spawn(message.role_name),
        role=message.role_name,
        system_prompt=message.system_prompt + directory,
        tools=tools_of(caller.tools, message.allowed_tools, may_send=may.send_message),
        capabilities=may,
        origin=message.origin(),
        channel=message.origin_channel(),
        chat_id=message.origin_chat_id(),
        sender_id=message.origin_sender_id(),
        sender_name=message.sender_name,
        compress=caller.compress,
        interactive=interactive(message),
    )
