"""Sessions under any order of prompts, answers, cancels, crashes and kills, some of them at once.

Whatever happens: every accepted run gets exactly one outcome, on record and in the log; no question
stays open; no process and no place is left; nothing below a session that was ended is open (G12);
and nothing hangs.
"""

import asyncio
import shutil
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from acpbridge.config.snapshot import Limits
from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import Effect
from acpbridge.model.requesters import Requester
from acpbridge.router import ending, family, life, session
from acpbridge.router.api import RunReceipt
from acpbridge.router.receipts import RestartRequest
from tests.unit.router.world import OPERATOR, World, agent_in, world

WORDS = ["say x", "wait", "deaf", "stone", "late", "leaves", "crash", "ask 2", "raise", "end"]
STARTS = ["ok", "ok", "ok", "fail", "hang"]
ACTS = ["cancel", "kill", "close", "restart", "crash", "finish", "finish", "vanish", "answer"]
REFUSALS = {
    "already_resolved",
    "busy",
    "no_such_question",
    "reopen_refused",
    "request_cancelled",
    "session_closed",
    "start_failed",
    "subagent_policy",
}
GRACE = 0.01


class SessionMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.loop = asyncio.new_event_loop()
        self.accepted: list[RunReceipt] = []
        self.keys: list[SessionKey] = []
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(life, "ANSWER_WAIT", GRACE)
        self.patch.setattr(ending, "VANISHED_GRACE", GRACE)
        self.patch.setattr(session, "RESTART_GRACE", GRACE)
        self.patch.setattr(family, "LEVEL_WAIT", GRACE)

    @initialize()
    def start(self) -> None:
        self.ready, self.leaving = asyncio.Event(), asyncio.Event()
        self.task = self.loop.create_task(self.live())
        self.step(self.ready.wait())

    async def live(self) -> None:
        limits = Limits(max_processes=3, max_depth=2, max_children_per_session=2)
        async with world(self.directory, limits=limits, patience=300) as self.world:
            self.ready.set()
            await self.leaving.wait()

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

    # What may happen.

    async def prompt(
        self, word: str, key: SessionKey | None, *, one_shot: bool, by: Requester = OPERATOR
    ) -> None:
        receipt = await self.w.run(word, key=key, one_shot=one_shot, by=by)
        self.accepted.append(receipt)
        if receipt.key not in self.keys:
            self.keys.append(receipt.key)

    async def act(self, key: SessionKey, what: str) -> None:
        agent = self.w.runtime.running.get(str(key))
        if what == "cancel":
            receipt = await self.w.router.cancel(str(key), GRACE, OPERATOR)
            assert receipt.turn_ended
        elif what == "kill":
            kills = await self.w.router.kill([str(key)], GRACE, OPERATOR)
            assert key in {kill.key for kill in kills}
            assert not any(kill.survivors for kill in kills)
            assert not {str(kill.key) for kill in kills} & set(self.w.runtime.running)
        elif what == "close":
            await self.w.router.close(str(key), OPERATOR)
            assert str(key) not in self.w.runtime.running
        elif what == "restart":
            self.w.runtime.script.starts = "ok"
            # There may be no place for it for as long as others work.
            with anyio.move_on_after(5 * GRACE):
                await self.w.router.restart(RestartRequest(str(key), force=True), OPERATOR)
        elif what == "crash" and agent is not None:
            agent.die()
        elif what == "finish" and agent is not None:
            agent.answer("end_turn")
        elif what == "vanish":
            await self.w.router.vanished("terminal")
        elif what == "answer":
            for question in self.w.broker.questions():
                await self.w.router.answer(
                    question.request.id, OPERATOR, option_id=None, effect=Effect.ALLOW, note=""
                )

    @rule(
        words=st.lists(st.sampled_from(WORDS), min_size=1, max_size=3),
        starts=st.sampled_from(STARTS),
        one_shot=st.booleans(),
    )
    def new_session(self, words: list[str], starts: str, one_shot: bool) -> None:
        self.w.runtime.script.starts = starts
        self.step(self.prompt(words[0], None, one_shot=one_shot))
        for word in words[1:]:
            self.step(self.prompt(word, self.keys[-1], one_shot=one_shot))

    @precondition(lambda self: self.keys)
    @rule(
        data=st.data(),
        words=st.lists(st.sampled_from(WORDS), max_size=2),
        spawns=st.lists(st.sampled_from(WORDS), max_size=2),
        acts=st.lists(st.sampled_from(ACTS), max_size=3),
        breaths=st.integers(0, 30),
    )
    def several_at_once(
        self,
        data: st.DataObject,
        words: list[str],
        spawns: list[str],
        acts: list[str],
        breaths: int,
    ) -> None:
        key = data.draw(st.sampled_from(self.keys), "session")

        async def breathe() -> None:
            for _ in range(breaths):
                await asyncio.sleep(0)

        self.step(breathe())
        prompts = [self.prompt(word, key, one_shot=False) for word in words]
        by = agent_in(key)
        children = [self.prompt(word, None, one_shot=False, by=by) for word in spawns]
        self.step(*prompts, *children, *(self.act(key, what) for what in acts))

    # What must hold in the end.

    def teardown(self) -> None:
        try:
            if hasattr(self, "task"):
                self.step(self.check(self.w.router.stop))
        finally:
            if hasattr(self, "task"):
                self.leaving.set()
                self.loop.run_until_complete(self.task)
            self.loop.run_until_complete(self.loop.shutdown_default_executor())
            self.loop.close()
            shutil.rmtree(self.directory)
            self.patch.undo()

    async def check(self, stop: Callable[[], Awaitable[None]]) -> None:
        await stop()
        w = self.w
        results = [(receipt, await w.wait(receipt)) for receipt in self.accepted]
        assert not w.runtime.running
        assert not w.broker.questions()
        assert w.services.places.taken == 0
        await w.services.scribe.written()
        assert not await w.ledger._rows("SELECT id FROM questions WHERE decided_at IS NULL")
        for receipt, result in results:
            record = await w.ledger.run(receipt.run_id)
            assert record is not None
            assert record.outcome is result.outcome
        assert not await w.ledger._rows("SELECT run_id FROM runs WHERE outcome IS NULL")
        above = w.router._directory.above(w.made())
        closed = {session.key for session in w.made() if session.closed}
        for key in self.keys:
            assert not w.session(key).live
            assert key in closed or not closed & set(above[key])
            await w.rest(key)
            events = await w.events(key)
            ends = Counter(e["turn"] for e in events if e["type"] in ("turn_ended", "turn_failed"))
            mine = [receipt.run_id for receipt in self.accepted if receipt.key == key]
            assert ends == Counter(mine)
            self.check_order(events)

    def check_order(self, events: list[dict[str, Any]]) -> None:
        """One turn at a time; what belongs to a turn lies between its ends; questions too."""
        running: str | None = None
        asked, over = set[str](), set[str]()
        for event in events:
            kind, turn = event["type"], event["turn"]
            assert turn not in over, f"{kind} after the end of its turn"
            if kind == "turn_started":
                assert running is None
                running = turn
            elif kind in ("turn_ended", "turn_failed"):
                over.add(turn)
                running = None if running == turn else running
            elif kind == "permission_asked":
                asked.add(event["id"])
            elif kind == "permission_decided":
                asked.remove(event["id"])
        assert not asked
        assert running is None


TestSession = pytest.mark.timeout(120)(SessionMachine.TestCase)
TestSession.settings = settings(max_examples=25, stateful_step_count=12, deadline=None)
