"""From a tool's call to a message: what stands between a tool and the hook that calls an agent."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

from acpbridge.agents.calls import SpawnAgent
from acpbridge.agents.roles import DEFAULT_ITERATIONS, Capabilities
from acpbridge.model.address import Address
from acpbridge.model.inbound import AGENT_CHANNEL, WORKSPACE_ROOT, ChatType, InboundMessage
from acpbridge.model.outbound import OutboundMessage

# In the metadata of a call: what the called one may do. What is not there it may not.
MEMORY: Final = "may_remember"
SEND_MESSAGE: Final = "may_send_message"
MAX_ITERATIONS: Final = "max_iterations"
INTERACTIVE: Final = "interactive"

_YES: Final = "yes"


def granted(message: InboundMessage) -> Capabilities:
    """Return what a call gives the called one."""
    told = message.metadata
    count = told.get(MAX_ITERATIONS, "")
    most = int(count) if count.isascii() and count.isdigit() else 0
    return Capabilities(
        memory=told.get(MEMORY) == _YES,
        send_message=told.get(SEND_MESSAGE) == _YES,
        max_iterations=most or DEFAULT_ITERATIONS,
    )


def _words(capabilities: Capabilities) -> dict[str, str]:
    told = {
        MEMORY: _YES if capabilities.memory else "",
        SEND_MESSAGE: _YES if capabilities.send_message else "",
        MAX_ITERATIONS: str(capabilities.max_iterations),
    }
    return {name: value for name, value in told.items() if value}


def interactive(message: InboundMessage) -> bool:
    """Tell whether the called one is to wait for more after its answer."""
    return message.metadata.get(INTERACTIVE) == _YES


Unload = Callable[[str], Awaitable[str]]
"""Ends the interactive one of a role; returns what to tell of it."""


class SpawnAdapter:
    """Makes a message of a call, and has it answered; see `SubAgentManager`.

    Args:
        spawn: answers it.
        cause: the message that the calling run answers.
        path: call path of the caller.
        workspace: directory that the caller works in, "" for none.
        unload: None: there are no interactive ones.
    """

    def __init__(
        self,
        spawn: SpawnAgent,
        cause: InboundMessage,
        path: str,
        workspace: str = "",
        unload: Unload | None = None,
    ) -> None:
        self._spawn = spawn
        self._cause = cause
        self._path = path
        self._workspace = workspace
        self._unload = unload

    async def run_sub_agent(
        self,
        task: str,
        system_prompt: str,
        allowed_tools: Sequence[str],
        capabilities: Capabilities,
        role_name: str,
    ) -> OutboundMessage:
        """Call one for a single task; see `SubAgentManager`."""
        call = self._call(task, system_prompt, allowed_tools, role_name, _words(capabilities))
        return await self._answered(call)

    async def interactive_sub_agent(
        self,
        task: str,
        system_prompt: str,
        allowed_tools: Sequence[str],
        capabilities: Capabilities,
        role_name: str,
    ) -> OutboundMessage:
        """Say something to the one of a role; see `SubAgentManager`."""
        words = {**_words(capabilities), INTERACTIVE: _YES}
        call = self._call(task, system_prompt, allowed_tools, role_name, words)
        return await self._answered(call)

    async def unload_sub_agent(self, role_name: str) -> str:
        """End the interactive one of a role; see `SubAgentManager`."""
        if self._unload is None:
            return none_active(role_name)
        return await self._unload(role_name)

    def _call(
        self,
        task: str,
        system_prompt: str,
        allowed_tools: Sequence[str],
        role_name: str,
        words: Mapping[str, str],
    ) -> InboundMessage:
        cause, where = self._cause, {WORKSPACE_ROOT: self._workspace} if self._workspace else {}
        return InboundMessage(
            content=task,
            sender=Address.agent(self._path),
            recipient=Address.agent(self._path, role_name),
            channel=AGENT_CHANNEL,
            chat_type=ChatType.AGENT,
            chat_id=cause.chat_id,
            sender_id=cause.sender_id,
            sender_name=cause.sender_name,
            request_id=cause.request_id,
            system_prompt=system_prompt,
            allowed_tools=tuple(allowed_tools),
            role_name=role_name,
            time=datetime.now(UTC),
            metadata={**cause.handed_on(), **where, **words},
        )

    async def _answered(self, call: InboundMessage) -> OutboundMessage:
        try:
            return await self._spawn(call)
        except Exception as error:  # noqa: BLE001 -- the boundary of a call: a tool answers, it does not fail
            return OutboundMessage(sender=call.recipient, recipient=call.sender, error=error)


def none_active(role: str) -> str:
    """Return what is told of a role that nobody talks with."""
    return f"There is no interactive sub-agent {role!r}; nothing was ended."
