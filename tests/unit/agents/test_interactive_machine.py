"""Conversations under any order of calls, ends and failures, against a plain model of them.

The model knows, for each caller and role, what was said. Whatever happens: what is said in one is
heard in that one, in order and once; each one that was begun is consolidated once and closed once,
in that order and after its turns; nothing is left of a caller that has ended; and nothing hangs.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any

import anyio
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from acpbridge.agents.interactive import Conversations, Unloaded
from acpbridge.errors import BridgeError
from acpbridge.model.inbound import InboundMessage
from acpbridge.model.outbound import OutboundMessage
from tests.unit.agents.house import CAUSE

CALLERS = st.sampled_from(["chat", "other chat"])
ROLES = st.sampled_from(["tutor", "critic"])
# What a turn does: it answers, it fails, or it waits until it is let go on.
WORDS = st.sampled_from(["say", "say", "raise", "wait"])
LIMIT = 30


@dataclass(eq=False)
class Book:
    """One conversation, and all that was done to it."""

    memory_fails: bool
    patient: bool = True
    heard: list[str] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)
    running: bool = False
    go: anyio.Event = field(default_factory=anyio.Event)

    async def turn(self, message: InboundMessage) -> OutboundMessage:
        assert not self.running, "two turns at once"
        assert not self.ends, "a turn in a conversation that has ended"
        self.running = True
        try:
            self.heard.append(message.content)
            if message.content.startswith("wait") and self.patient:
                await self.go.wait()
            if message.content.startswith("raise"):
                raise RuntimeError("odd")
            return OutboundMessage(content=f"heard {message.content}")
        finally:
            self.running = False

    async def consolidate(self) -> None:
        assert not self.running
        self.ends.append("consolidate")
        await anyio.lowlevel.checkpoint()
        if self.memory_fails:
            raise RuntimeError("no memory")

    async def close(self) -> None:
        self.ends.append("close")


class ConversationsMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.talks = Conversations()
        self.books: list[Book] = []
        self.model: dict[tuple[str, str], Book] = {}
        self.callers: set[str] = set()
        self.memory_fails = False
        self.open_fails = False
        self.said = 0

    async def open(self, message: InboundMessage) -> Book:
        await anyio.lowlevel.checkpoint()
        if self.open_fails:
            raise BridgeError("subagent_policy", "no more")
        book = Book(memory_fails=self.memory_fails)
        self.books.append(book)
        return book

    def patience(self) -> None:
        for book in self.books:
            book.patient = True

    def run_all(self, *steps: Coroutine[Any, Any, Any]) -> list[Any]:
        """Run steps, each begun before the next; return what comes of each."""

        async def all_at_once() -> list[Any]:
            results: dict[int, Any] = {}

            async def one(number: int, step: Coroutine[Any, Any, Any]) -> None:
                try:
                    results[number] = await step
                except (BridgeError, RuntimeError) as error:
                    results[number] = error

            with anyio.fail_after(LIMIT):
                async with anyio.create_task_group() as tasks:
                    for number, step in enumerate(steps):
                        tasks.start_soon(one, number, step)
            return [results[number] for number in range(len(steps))]

        return self.loop.run_until_complete(all_at_once())

    def message(self, word: str) -> InboundMessage:
        self.said += 1
        return CAUSE.model_copy(update={"content": f"{word} {self.said}"})

    async def let_go(self) -> None:
        """Let the turn go on that waits; those behind it do not wait."""
        await anyio.wait_all_tasks_blocked()
        for book in self.books:
            book.go.set()
            book.go = anyio.Event()
            book.patient = False

    # ---- What happens ----

    @rule(caller=CALLERS)
    def begin(self, caller: str) -> None:
        if caller not in self.callers:
            self.talks.begin(caller)
            self.callers.add(caller)

    @rule(broken=st.booleans())
    def memory(self, broken: bool) -> None:
        self.memory_fails = broken
        for book in self.books:
            book.memory_fails = broken

    @rule(
        caller=CALLERS,
        role=ROLES,
        words=st.lists(WORDS, min_size=1, max_size=4),
        fails=st.booleans(),
    )
    def call(self, caller: str, role: str, words: list[str], fails: bool) -> None:
        """Say things at once: each is heard, in order, in one conversation."""
        self.open_fails = fails
        self.patience()
        messages = [self.message(word) for word in words]
        known = self.model.get((caller, role))
        begun = len(self.books)
        told = self.run_all(
            *(self.talks.call(caller, role, m, self) for m in messages), self.let_go()
        )
        if caller not in self.callers or (known is None and fails):
            assert all(isinstance(one, BridgeError) for one in told[:-1])
            assert len(self.books) == begun
            return
        if known is None:
            assert len(self.books) == begun + 1, "one conversation for all of them"
            known = self.model[caller, role] = self.books[-1]
        assert len(self.books) == begun + (known is self.books[-1] and begun < len(self.books))
        said = [message.content for message in messages]
        assert known.heard[-len(said) :] == said
        for message, answer in zip(messages, told, strict=False):
            if message.content.startswith("raise"):
                assert isinstance(answer, RuntimeError)
            else:
                assert answer.content == f"heard {message.content}"

    @rule(caller=CALLERS, role=ROLES, times=st.integers(1, 3))
    def unload(self, caller: str, role: str, times: int) -> None:
        told = self.run_all(*(self.talks.unload(caller, role) for _ in range(times)))
        known = self.model.pop((caller, role), None)
        assert [one.found for one in told].count(True) == (known is not None)
        assert all(isinstance(one, Unloaded) for one in told)
        assert [bool(one.problem) for one in told].count(True) <= self.memory_fails

    @rule(caller=CALLERS, role=ROLES, behind=st.integers(0, 2))
    def unload_while_it_runs(self, caller: str, role: str, behind: int) -> None:
        """Stop a turn, with others that wait behind it."""
        if (caller, role) not in self.model:
            return
        self.patience()
        messages = [self.message("wait"), *(self.message("say") for _ in range(behind))]

        async def stop() -> Unloaded:
            await anyio.wait_all_tasks_blocked()
            return await self.talks.unload(caller, role)

        calls = (self.talks.call(caller, role, m, self) for m in messages)
        *told, unloaded = self.run_all(*calls, stop())
        known = self.model.pop((caller, role))
        assert unloaded.found
        assert all(one.error.code == "request_cancelled" for one in told)
        assert known.heard[-1] == messages[0].content, "what waited behind it was not said"

    @rule(caller=CALLERS, role=ROLES)
    def cancel_the_caller(self, caller: str, role: str) -> None:
        """Cancel a call from outside: the conversation stays, for its caller may go on."""
        if (caller, role) not in self.model:
            return
        self.patience()
        message = self.message("wait")

        async def cut_off() -> None:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self.talks.call, caller, role, message, self)
                    await anyio.wait_all_tasks_blocked()
                    scope.cancel()

        self.run_all(cut_off())
        assert self.model[caller, role].heard[-1] == message.content

    @rule(caller=CALLERS, running=st.booleans())
    def end(self, caller: str, running: bool) -> None:
        """End a caller's run, with a turn under way or without."""
        mine = [role for one, role in self.model if one == caller]
        self.patience()
        calls = []
        if running and mine:
            calls = [self.talks.call(caller, mine[0], self.message("wait"), self)]

        async def end() -> None:
            await anyio.wait_all_tasks_blocked()
            await self.talks.end(caller)

        *told, _ = self.run_all(*calls, end())
        assert all(one.error.code == "request_cancelled" for one in told)
        self.callers.discard(caller)
        for role in mine:
            del self.model[caller, role]

    # ---- What is always so ----

    @invariant()
    def what_is_found_is_what_goes_on(self) -> None:
        for caller in ("chat", "other chat"):
            roles = {role for one, role in self.model if one == caller}
            assert set(self.talks.roles(caller)) == roles

    @invariant()
    def each_ends_once_and_in_order(self) -> None:
        alive = list(self.model.values())
        for book in self.books:
            assert book.ends == ([] if book in alive else ["consolidate", "close"])
            assert not book.running

    def teardown(self) -> None:
        for caller in sorted(self.callers):
            self.run_all(self.talks.end(caller))
        assert all(book.ends == ["consolidate", "close"] for book in self.books)
        self.loop.close()


TestConversations = pytest.mark.timeout(120)(ConversationsMachine.TestCase)
TestConversations.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
