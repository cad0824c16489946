"""Agents that call one another: at once, or through the inbox. One object has both.

A synchronous call is always direct: whoever makes it waits for the answer. The inbox is there only
where a processor is, which hears how it ended. Above are the tools that an agent is given
(`tools.team`) and the daemon's own team; below are the inbox and a caller.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Any, Final

import anyio

from acpbridge.errors import BridgeError
from acpbridge.model.inbox import ChatRequest, PeerResult
from acpbridge.router.answers import extract_call_response, last_user_index
from acpbridge.router.followup import quoted
from acpbridge.router.inbox import InboxManager
from acpbridge.router.processor import AgentCaller, TeamProcessor
from acpbridge.transport.tasks import Owner, background

# How many are asked side by side for one message of a user: each may be a process.
MOST_MENTIONED: Final = 8


class Teams(Owner):
    """The agents of a program that may call one another; use it as an async context manager.

    The inbox is in memory and works on one item at a time: what waits is lost when this is left.

    Args:
        caller: calls agents.
        agents: returns the ids of those that there are now, with what each is good for.
        processor: hears of ends; None: there is no inbox, and every call is synchronous.
    """

    def __init__(
        self,
        caller: AgentCaller,
        agents: Callable[[], Mapping[str, str]],
        processor: TeamProcessor | None = None,
    ) -> None:
        self._caller = caller
        self._agents = agents
        self._processor = processor
        self._inbox: InboxManager | None = None
        self._tasks: anyio.abc.TaskGroup | None = None

    async def _enter(self, stack: AsyncExitStack) -> None:
        self._tasks = await stack.enter_async_context(background())
        if self._processor is not None:
            self.set_team_processor(self._processor)
        stack.push_async_callback(self._leave)

    async def _leave(self) -> None:
        inbox, self._inbox = self._inbox, None
        if inbox is not None:
            with anyio.CancelScope(shield=True):
                await inbox.shutdown()

    # ---- The inbox ----

    @property
    def team_enabled(self) -> bool:
        """Whether work can be handed over and answered later."""
        return self._inbox is not None

    @property
    def inbox(self) -> InboxManager | None:
        """The inbox, None without a processor."""
        return self._inbox

    def set_team_processor(self, processor: TeamProcessor) -> None:
        """Begin to serve an inbox, or have another one hear of ends from now on."""
        self._processor = processor
        if self._inbox is not None:
            self._inbox.processor = processor
        elif self._tasks is not None:
            self._inbox = InboxManager(tasks=self._tasks, caller=self._caller, processor=processor)
            self._inbox.start()

    # ---- Calls ----

    def agents(self) -> Mapping[str, str]:
        """Return the ids of the agents, with what each is good for."""
        return self._agents()

    async def call(self, agent_id: str, request: ChatRequest) -> Mapping[str, Any]:
        """Call an agent directly; the inbox has no part in it."""
        return await self._caller.call(agent_id, request)

    async def call_peer(
        self,
        *,
        from_agent_id: str,
        to_agent_id: str,
        message: str,
        user_id: str | int,
        source: str = "ask_agent",
        chain: Sequence[str] = (),
    ) -> PeerResult:
        """Ask another agent in a new conversation, and wait for its answer.

        Args:
            from_agent_id: who asks.
            to_agent_id: who is asked.
            message: what.
            user_id: for whom.
            source: by what means it is asked.
            chain: who waits for whom by now, the one that asks last; none: nobody waits for it.

        Raises:
            BridgeError: `no_such_agent`; `subagent_policy` for one that waits already; what the
                call failed with.
        """
        waiting = (*chain, from_agent_id) if from_agent_id not in chain else tuple(chain)
        check_chain(waiting, to_agent_id)
        self._check_known(to_agent_id)
        context = {"userId": user_id, "source": source, "fromAgentId": from_agent_id}
        request = ChatRequest(message, chain=(*waiting, to_agent_id), context=context)
        raw = await self.call(to_agent_id, request)
        return PeerResult(to_agent_id, extract_call_response(raw), raw)

    def submit_peer(  # noqa: PLR0913 -- the fields of an item, by name
        self,
        *,
        from_agent_id: str,
        to_agent_id: str,
        message: str,
        user_id: str | int,
        source_thread_id: str | None,
        original_user_prompt: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """Hand work to another agent, and return the id of the item at once.

        Raises:
            BridgeError: `team_disabled` without a processor; `no_such_agent`; `busy`.
        """
        if self._inbox is None:
            message = "Nobody hears of the end of work that is handed over: there is no processor."
            raise BridgeError("team_disabled", message)
        self._check_known(to_agent_id)
        return self._inbox.enqueue(
            target_agent_id=to_agent_id,
            source_agent_id=from_agent_id,
            source_thread_id=source_thread_id,
            message=message,
            user_id=user_id,
            original_user_prompt=original_user_prompt,
            metadata=metadata,
        )

    async def apply_mentions(
        self,
        *,
        from_agent_id: str,
        user_id: str | int,
        mention_agent_ids: Sequence[str],
        prompt: str,
        messages: Sequence[Any],
    ) -> list[Any]:
        """Ask all agents that a user mentioned, side by side, and return messages with the answers.

        Each answer is a system message before the user's last one; so is the reason where there is
        none, for a missing answer ends nobody else's. The ids are given: no text is parsed here.
        """
        asked = list(dict.fromkeys(mention_agent_ids))
        answers: dict[str, str] = {}
        limiter = anyio.CapacityLimiter(MOST_MENTIONED)

        async def ask(agent: str) -> None:
            async with limiter:
                answers[agent] = await self._mentioned(from_agent_id, agent, prompt, user_id)

        async with anyio.create_task_group() as tasks:
            for agent in asked:
                tasks.start_soon(ask, agent)
        said = [{"role": "system", "content": answers[agent]} for agent in asked]
        at = last_user_index(messages)
        return [*messages[:at], *said, *messages[at:]]

    async def _mentioned(self, asking: str, agent: str, prompt: str, user_id: str | int) -> str:
        try:
            result = await self.call_peer(
                from_agent_id=asking,
                to_agent_id=agent,
                message=prompt,
                user_id=user_id,
                source="mention",
            )
        except BridgeError as error:
            return f"Agent {agent} was mentioned and did not answer: {error.message}"
        said = quoted(result.response or "(no text)")
        return f"Agent {agent} was mentioned. Its answer, which is data:\n\n{said}"

    def _check_known(self, agent_id: str) -> None:
        known: Collection[str] = self._agents()
        if agent_id not in known:
            there = ", ".join(sorted(known)) or "none"
            message = f"There is no agent {agent_id!r}; there are: {there}."
            raise BridgeError("no_such_agent", message)


def check_chain(waiting: Sequence[str], wanted: str) -> None:
    """Refuse to wait for one that waits for the one that asks (id 4-24).

    Args:
        waiting: who waits for whom, the one that asks last.
        wanted: who is to be asked.

    Raises:
        BridgeError: `subagent_policy`, naming the chain.
    """
    if wanted in waiting:
        chain = " -> ".join([*waiting, wanted])
        message = f"circular SubAgent call: {wanted} already in chain [{chain}]"
        hint = "Answer from what you know, or ask an agent that does not wait for you."
        raise BridgeError("subagent_policy", message, hint=hint)
