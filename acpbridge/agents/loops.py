"""The engine of sub-agents: the same loop as of a main agent, with what a child may do.

Of its caller's run a child keeps the model, and the compression; it is kept in memory only, shows
nobody its progress, and has tool activations of its own.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pydantic_ai.messages import ModelMessage

from acpbridge.agents.calls import Answered, Child
from acpbridge.agents.client import system, user
from acpbridge.agents.loop import Recalling, RunConfig, Usage, run
from acpbridge.model.outbound import OutboundMessage


def _forgets(_child: Child) -> None:
    return None


def _nobody(_usage: Usage) -> None:
    return None


class LoopEngine:
    """Runs children by the loop; see `Engine`.

    Args:
        base: how the caller's own run is configured.
        memory: what is remembered for a child that has a memory; None: nothing.
        used: told what each run has taken of the model.
    """

    def __init__(
        self,
        base: RunConfig,
        memory: Callable[[Child], Recalling | None] = _forgets,
        used: Callable[[Usage], None] = _nobody,
    ) -> None:
        self._base = base
        self._memory = memory
        self._used = used

    def begin(self, child: Child) -> list[ModelMessage]:
        """Return the messages that a conversation begins with."""
        return [system(child.system_prompt)] if child.system_prompt.strip() else []

    def user(self, text: str) -> ModelMessage:
        """Return the message of whoever calls."""
        return user(text)

    async def run(self, child: Child, messages: Sequence[ModelMessage]) -> Answered:
        """Run until there is an answer."""
        may, base = child.capabilities, self._base
        result = await run(
            replace(
                base,
                tools=child.tools,
                messages=tuple(messages),
                agent_path=child.agent_path,
                channel=child.channel,
                chat_id=child.chat_id,
                sender_id=child.sender_id,
                sender_name=child.sender_name,
                max_iterations=may.max_iterations,
                tool_activation_key=child.key,
                session=None,
                progress=None,
                auto_compress=child.compress,
                send=base.send if may.send_message else None,
                memory=self._memory(child) if may.memory else None,
                extras=None,
                spawn_agent=child.manager,
                interactive=child.interactive,
                stop=None,
            )
        )
        self._used(result.usage)
        answer = OutboundMessage(
            content=result.content,
            sender=child.address,
            media=result.media,
            tools_used=result.tools_used,
            waiting_user=result.waiting_user,
            error=result.error,
        )
        return Answered(answer, result.messages, result.waiting_for_input)
