"""Completions under any order of ends, failures, stops and crashes of the daemon.

Whatever happens: each accepted run that somebody is to hear of is told at most once over all
daemons; what stands as delivered was told; and what was not told stands somewhere with the reason.
"""

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from acpbridge.config.snapshot import Limits
from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.router import announce, family, life
from acpbridge.router.api import RunReceipt
from tests.unit.router.world import OPERATOR, REPORT, World, agent_in, world

WORDS = ["say x", "wait", "wait", "crash", "raise", "end", "say NO_REPLY"]
HEARS = ["end end_turn", "end end_turn", "say fine", "wait", "crash", "raise"]
ACTS = ["finish", "finish", "crash", "cancel", "close", "kill"]
STARTS = ["ok", "ok", "ok", "fail"]
REFUSALS = {
    "busy",
    "no_such_session",
    "reopen_refused",
    "request_cancelled",
    "session_closed",
    "subagent_policy",
    "daemon_stopping",
}
OVER = ("delivered", "blocked", "dismissed")
GRACE = 0.01


class AnnounceMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.homes = 0
        self.loop = asyncio.new_event_loop()
        self.owed: list[RunReceipt] = []
        self.keys: list[SessionKey] = []
        self.told = Counter[str]()
        self.copy_to: Path | None = None
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(life, "ANSWER_WAIT", GRACE)
        self.patch.setattr(family, "LEVEL_WAIT", GRACE)

    # Daemons.

    def faults(self, point: str) -> None:
        """Take a copy of what a daemon leaves that is cut off now, in the ledger's one thread."""
        if self.copy_to is not None and point.startswith("ledger."):
            target, self.copy_to = self.copy_to, None
            self.cut = self.reports()
            shutil.copytree(self.home, target, ignore=shutil.ignore_patterns("*-shm"))

    def reports(self) -> Counter[str]:
        lines = [line for line in self.world.diary.lines if line.startswith(f"prompt {REPORT}")]
        return Counter(r.run_id for r in self.owed for line in lines if f"run {r.run_id};" in line)

    @property
    def home(self) -> Path:
        return self.directory / str(self.homes)

    @initialize()
    def start(self) -> None:
        self.home.mkdir(exist_ok=True)
        self.ready, self.leaving = asyncio.Event(), asyncio.Event()
        self.task = self.loop.create_task(self.live())
        self.step(self.ready.wait())

    async def live(self) -> None:
        limits = Limits(max_children_per_session=20, max_depth=2)
        async with world(self.home, limits=limits, patience=300, faults=self.faults) as self.world:
            self.ready.set()
            await self.leaving.wait()

    def leave(self) -> None:
        self.leaving.set()
        self.loop.run_until_complete(self.task)

    @property
    def w(self) -> World:
        return self.world

    def step(self, *steps: Coroutine[Any, Any, Any]) -> None:
        async def all_at_once() -> None:
            with anyio.fail_after(15):
                await asyncio.gather(*map(self.tolerated, steps))

        self.loop.run_until_complete(all_at_once())

    async def tolerated(self, step: Awaitable[Any]) -> None:
        try:
            await step
        except BridgeError as error:
            assert error.code in REFUSALS, error  # noqa: PT017

    async def breathe(self, breaths: int) -> None:
        for _ in range(breaths):
            await asyncio.sleep(0)

    # What may happen.

    async def top(self, word: str, *, one_shot: bool) -> None:
        receipt = await self.w.run(word, one_shot=one_shot)
        self.keys.append(receipt.key)

    async def child(self, parent: SessionKey, word: str) -> None:
        receipt = await self.w.run(word, by=agent_in(parent), deliver_to=parent, detached=True)
        self.owed.append(receipt)
        self.keys.append(receipt.key)

    @rule(word=st.sampled_from(["wait", "wait", "say x"]), one_shot=st.booleans())
    def new_session(self, word: str, *, one_shot: bool) -> None:
        self.w.runtime.script.starts = "ok"
        self.step(self.top(word, one_shot=one_shot))

    @precondition(lambda self: self.keys)
    @rule(
        data=st.data(),
        words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
        starts=st.sampled_from(STARTS),
        hears=st.sampled_from(HEARS),
        breaths=st.integers(0, 40),
    )
    def children(
        self, data: st.DataObject, words: list[str], starts: str, hears: str, breaths: int
    ) -> None:
        parent = data.draw(st.sampled_from(self.keys), "parent")
        script = self.w.runtime.script
        script.starts, script.hears = starts, hears
        self.step(*(self.child(parent, word) for word in words), self.breathe(breaths))

    @precondition(lambda self: self.keys)
    @rule(
        data=st.data(),
        acts=st.lists(st.sampled_from(ACTS), min_size=1, max_size=3),
        starts=st.sampled_from(STARTS),
        breaths=st.integers(0, 40),
    )
    def something_ends(
        self, data: st.DataObject, acts: list[str], starts: str, breaths: int
    ) -> None:
        self.w.runtime.script.starts = starts
        chosen = [data.draw(st.sampled_from(self.keys), "session") for _ in acts]
        self.step(self.breathe(breaths), *map(self.act, chosen, acts))

    async def act(self, key: SessionKey, what: str) -> None:
        agent = self.w.runtime.running.get(str(key))
        if what == "finish" and agent is not None:
            agent.answer("end_turn")
        elif what == "crash" and agent is not None:
            agent.die()
        elif what == "cancel":
            await self.w.router.cancel(str(key), GRACE, OPERATOR)
        elif what == "close":
            await self.w.router.close(str(key), OPERATOR)
        elif what == "kill":
            await self.w.router.kill([str(key)], GRACE, OPERATOR)

    @precondition(lambda self: self.owed)
    @rule(data=st.data())
    def somebody_got_it_otherwise(self, data: st.DataObject) -> None:
        receipt = data.draw(st.sampled_from(self.owed), "run")
        self.step(self.claim(receipt))

    async def claim(self, receipt: RunReceipt) -> None:
        record = await self.w.ledger.run(receipt.run_id)
        over = record is not None and record.outcome is not None
        if over and await self.w.router._completing.announcing.claim(receipt.run_id):
            self.told[receipt.run_id] += 1

    @rule(seconds=st.sampled_from([15.0, 300.0, announce.PATIENCE]))
    def time_goes_by(self, seconds: float) -> None:
        self.w.clock.advance(seconds)
        self.step(self.breathe(10))

    @rule(breaths=st.integers(0, 60))
    def the_daemon_is_cut_off(self, breaths: int) -> None:
        """At the next commit, or at one that comes after some more was done."""
        self.copy_to = self.directory / str(self.homes + 1)
        self.step(self.breathe(breaths), self.a_commit())
        self.leave()
        self.told += self.cut
        self.homes += 1
        self.start()

    async def a_commit(self) -> None:
        await self.w.ledger._update("UPDATE runs SET outcome = outcome WHERE run_id = ''", ())

    # What must hold in the end.

    def teardown(self) -> None:
        try:
            if hasattr(self, "task"):
                self.step(self.check(self.settle))
        finally:
            if hasattr(self, "task"):
                self.leave()
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()
            shutil.rmtree(self.directory)
            self.patch.undo()

    async def settle(self) -> None:
        """Have all that waits end, and all that can be told be told."""
        script = self.w.runtime.script
        script.starts, script.hears = "ok", "end end_turn"
        while await self.unsettled():
            for agent in list(self.w.runtime.running.values()):
                if agent.word in ("wait", "What"):
                    agent.answer("end_turn")
            self.w.clock.advance(announce.LONGEST_PAUSE)
            await self.breathe(20)

    async def unsettled(self) -> list[str]:
        rows = await self.w.ledger._rows("SELECT run_id FROM runs WHERE outcome IS NULL")
        entries = await self.w.ledger.outbox(("pending", "sent"))
        waiting = [entry.run_id for entry in entries if not entry.payload.get("quiet")]
        return [run_id for (run_id,) in rows] + waiting

    async def check(self, settle: Callable[[], Awaitable[None]]) -> None:
        await settle()
        self.told += self.reports()
        for receipt in self.owed:
            run = await self.w.ledger.run(receipt.run_id)
            entry = await self.w.ledger.delivery(f"announce:{receipt.run_id}")
            times = self.told[receipt.run_id]
            assert times <= 1, receipt
            if run is None:
                assert times == 0  # it was cut off before it was accepted
                continue
            assert entry is not None, run
            if entry.state == "delivered":
                assert times == 1, entry
            elif entry.payload.get("reason") != "ambiguous":
                assert times == 0, entry
                assert entry.state == "blocked" or entry.payload.get("quiet"), entry


TestAnnounce = pytest.mark.timeout(180)(AnnounceMachine.TestCase)
TestAnnounce.settings = settings(max_examples=20, stateful_step_count=10, deadline=None)
