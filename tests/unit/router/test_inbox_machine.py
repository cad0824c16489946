"""The inbox under any order of work, ends, failures, cancels and restarts, against a plain model.

Whatever happens: each item is worked on once at most and in order, two pieces for one target never
overlap, an item stands where the model says, and its end is told exactly once.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import anyio
import anyio.lowlevel
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from acpbridge.errors import BridgeError
from acpbridge.model.inbox import ChatRequest, InboxMessage, InboxStatus, ReplyEvent
from acpbridge.router.inbox import InboxManager
from acpbridge.router.processor import TeamProcessor
from acpbridge.transport.tasks import background

S = InboxStatus
TARGETS = ("a", "b")
SOURCE = "src"

# Turns of the event loop in which whatever can go on has gone on.
ROUNDS = 60


class Store:
    """A disk: it outlives the process."""

    def __init__(self) -> None:
        self.rows: dict[str, InboxMessage] = {}

    async def put(self, message: InboxMessage, *, told: bool) -> None:
        await anyio.lowlevel.checkpoint()
        if told:
            self.rows.pop(message.id, None)
        else:
            self.rows[message.id] = message

    async def untold(self) -> list[InboxMessage]:
        return list(self.rows.values())


class Agents:
    """Agents that answer when a test says so; what was once asked of them is known by name."""

    def __init__(self) -> None:
        self.ends: dict[str, str | BridgeError] = {}
        self.asked: list[str] = []
        self.open: dict[str, anyio.Event] = {}
        self.working: list[str] = []

    async def call(self, agent_id: str, request: ChatRequest) -> Mapping[str, Any]:
        name = request.name
        if name not in self.asked:
            self.asked.append(name)
            if name.endswith(":work"):
                assert agent_id not in self.working, "two pieces for one target overlap"
                self.working.append(agent_id)
            self.open[name] = anyio.Event()
            try:
                await self.open[name].wait()
            except anyio.get_cancelled_exc_class():
                self.ends[name] = BridgeError("interrupted", "cut off")
                raise
            finally:
                del self.open[name]
                if name.endswith(":work"):
                    self.working.remove(agent_id)
        end = self.ends[name]
        if isinstance(end, BridgeError):
            raise end
        return {"response": end}

    def end(self, name: str, *, well: bool) -> None:
        self.ends[name] = f"of {name}" if well else BridgeError("turn_failed", "it failed")
        self.open[name].set()


class Processor(TeamProcessor):
    def __init__(self) -> None:
        self.events: list[ReplyEvent] = []

    async def on_reply(self, event: ReplyEvent) -> None:
        await anyio.lowlevel.checkpoint()
        self.events.append(event)


@dataclass
class Item:
    """One item of the model; `telling` while the source is asked."""

    id: str
    target: str
    status: InboxStatus = S.QUEUED
    telling: bool = False
    text: str | None = None
    ended: bool = False

    def end(self, status: InboxStatus, text: str | None = None) -> None:
        self.status, self.text, self.ended, self.telling = status, text, True, False


@dataclass
class Model:
    items: list[Item] = field(default_factory=list)

    def working(self, target: str) -> Item | None:
        return next((i for i in self.items if i.target == target and i.status is S.RUNNING), None)

    def advance(self) -> None:
        for target in TARGETS:
            if self.working(target) is None:
                waiting = [i for i in self.items if i.target == target and i.status is S.QUEUED]
                if waiting:
                    waiting[0].status = S.RUNNING


class InboxMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.store, self.agents, self.processor = Store(), Agents(), Processor()
        self.model = Model()

    @initialize()
    def start(self) -> None:
        self.begin()

    def begin(self) -> None:
        self.leaving = asyncio.Event()
        self.life = self.loop.create_task(self.live())
        self.settle()

    async def live(self) -> None:
        async with background() as tasks:
            self.manager = InboxManager(
                tasks=tasks,
                caller=self.agents,
                processor=self.processor,
                store=self.store,
                parallel=True,
            )
            await self.manager.restore()
            self.manager.start()
            await self.leaving.wait()

    def settle(self) -> None:
        async def rounds() -> None:
            for _ in range(ROUNDS):
                await asyncio.sleep(0)

        self.loop.run_until_complete(rounds())

    # ---- What can happen ----

    @rule(agent=st.sampled_from(TARGETS))
    def enqueue(self, agent: str) -> None:
        async def put() -> str:
            inbox_id = self.manager.enqueue(
                target_agent_id=agent,
                source_agent_id=SOURCE,
                source_thread_id="T",
                message="do it",
                user_id=1,
            )
            await self.manager.stored(inbox_id)
            return inbox_id

        self.model.items.append(Item(self.loop.run_until_complete(put()), agent))
        self.model.advance()
        self.settle()

    @rule(agent=st.sampled_from(TARGETS), well=st.booleans())
    def finish_work(self, agent: str, well: bool) -> None:
        item = self.model.working(agent)
        if item is None:
            return
        self.agents.end(f"{item.id}:work", well=well)
        item.status, item.telling = (S.REPLYING if well else S.FAILED), True
        self.model.advance()
        self.settle()

    @rule(number=st.integers(0, 30), well=st.booleans())
    def finish_reply(self, number: int, well: bool) -> None:
        telling = [item for item in self.model.items if item.telling]
        if not telling:
            return
        item = telling[number % len(telling)]
        name = f"{item.id}:reply"
        self.agents.end(name, well=well)
        good = item.status is S.REPLYING and well
        item.end(S.DONE if good else S.FAILED, f"of {name}" if well else None)
        self.settle()

    @rule(number=st.integers(0, 30))
    def cancel(self, number: int) -> None:
        if not self.model.items:
            return
        item = self.model.items[number % len(self.model.items)]
        can = item.status in (S.QUEUED, S.RUNNING, S.REPLYING)

        async def cancelled() -> bool:
            return self.manager.cancel(item.id)

        assert self.loop.run_until_complete(cancelled()) is (can and self.knows(item))
        if can:
            item.end(S.CANCELLED)
            self.model.advance()
        self.settle()

    @rule()
    def restart(self) -> None:
        """The process ends in the middle of all that goes on, and another one takes it up."""
        self.leaving.set()
        self.loop.run_until_complete(self.life)
        for item in self.model.items:
            if item.telling:
                item.end(S.FAILED)  # nobody knows whether it was heard: it is not said twice
            elif item.status is S.RUNNING:
                item.status, item.telling = S.FAILED, True
        self.model.advance()
        self.begin()

    def knows(self, item: Item) -> bool:
        return self.manager.get(item.id) is not None

    # ---- What holds ----

    @invariant()
    def everything_stands_where_it_should(self) -> None:
        if not hasattr(self, "manager"):
            return
        for item in self.model.items:
            found = self.manager.get(item.id)
            assert found is not None or item.ended
            assert found is None or found.status is item.status
        ended = {item.id: (item.status, item.text) for item in self.model.items if item.ended}
        told = [
            (event.inbox_id, (event.status, event.reply_text)) for event in self.processor.events
        ]
        assert dict(told) == ended
        assert len(told) == len(ended), "an end was told twice"
        assert set(self.store.rows) == {i.id for i in self.model.items if not i.ended}
        assert len(self.agents.asked) == len(set(self.agents.asked))

    @invariant()
    def the_first_of_a_target_is_the_first_that_is_worked_on(self) -> None:
        for target in TARGETS:
            order = [f"{i.id}:work" for i in self.model.items if i.target == target]
            begun = [name for name in self.agents.asked if name in order]
            assert begun == [name for name in order if name in begun]

    def teardown(self) -> None:
        try:
            if hasattr(self, "manager"):
                for _ in range(2 * len(self.model.items) + 1):
                    for agent in TARGETS:
                        self.finish_work(agent, well=True)
                    self.finish_reply(0, well=True)
                self.everything_stands_where_it_should()
                assert all(item.ended for item in self.model.items)
                self.leaving.set()
                self.loop.run_until_complete(self.life)
        finally:
            self.loop.close()


Test4_6And4_7b = InboxMachine.TestCase
Test4_6And4_7b.settings = settings(max_examples=40, stateful_step_count=20, deadline=None)
