"""One process of a session, from what it was started for to the proof of its end.

It waits for a place, brings the agent up, opens its session, and runs turns until none comes, the
agent dies, or somebody wants it gone. What that makes of the session is the session's business.
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

import anyio

from acpbridge.controller import census
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.events import Fact
from acpbridge.model.permission import Reason
from acpbridge.model.sessions import CancelRung, CloseReason, SessionState
from acpbridge.router.book import Book
from acpbridge.router.host import Host
from acpbridge.router.ladder import ask, ended_within
from acpbridge.router.lane import take_place
from acpbridge.router.opening import (
    Opened,
    begin_anew,
    can_reopen,
    open_session,
    reload_pause,
)
from acpbridge.router.order import RestartOrder
from acpbridge.router.overtime import watch_time
from acpbridge.router.overuse import Overuse
from acpbridge.router.preparing import prepare
from acpbridge.router.services import Services
from acpbridge.router.silence import watch_silence
from acpbridge.router.stall import watch_stall
from acpbridge.router.turns import Inbox, Turn
from acpbridge.runtimes.base import RuntimeSession, SessionSpec, TurnResult
from acpbridge.runtimes.session_files import settle
from acpbridge.transport.tasks import background

# A killed turn may still answer within this, so that its end is the agent's own. Seconds.
ANSWER_WAIT: Final = 1.0


class Life:
    """One process; also the holder of its place.

    Args:
        book: the session's record.
        host: its side of the seam.
        inbox: where its turns come from.
        services: what it works with.
        order: told when the session is open, where somebody wants that without a turn.

    Attributes:
        agent: what runs it, once that is up.
        opened: whether the agent's session was opened.
        died: why the agent is gone, if nobody here wanted it gone.
        unspoken: whether nothing was said yet in a session that the agent opened anew.
        prompted_ticks: when this process got its first prompt, as the kernel counts; None before.
        killed_past: why it is closed, if it was killed while this daemon was frozen.
        overuse: what its tree may take.
    """

    def __init__(
        self,
        book: Book,
        host: Host,
        inbox: Inbox,
        services: Services,
        order: RestartOrder | None = None,
    ) -> None:
        self._book = book
        self._host = host
        self._inbox = inbox
        self._services = services
        self._order = order
        self.agent: RuntimeSession | None = None
        self.opened = False
        self.died: BridgeError | None = None
        self.unspoken = False
        self.prompted_ticks: int | None = None
        self.killed_past: CloseReason | None = None
        self.overuse = Overuse(host, services)
        self._leaving = False
        self._held = 0
        self._released = anyio.Event()
        self._grace: float | None = None
        self._idle_since: float | None = None
        self._scope = anyio.CancelScope()
        self._waiting = anyio.CancelScope()
        host.leaving = False

    # ---- What others ask ----

    def leave(self) -> None:
        """Run no further turn; that the agent is gone from now on is no death."""
        self._leaving = self._host.leaving = True
        self._waiting.cancel()

    def abandon(self) -> None:
        """End a process that no prompt was sent to yet, or the wait for one."""
        self.leave()
        self._scope.cancel()

    async def end(
        self,
        turn: Turn | None,
        grace: float | None,
        first: Callable[[], Awaitable[None]] | None = None,
    ) -> tuple[int, ...]:
        """End the turn and the process; return the pids that are left.

        Args:
            turn: under way, already marked as cancelling.
            grace: seconds after stdin was closed; None for the agent's own, 0 for at once.
            first: awaited between the two: what goes before the process.
        """
        self.leave()
        self._held += 1  # its own task does not end the process before what goes first
        self._grace = grace  # of one that has not answered initialize yet, too
        agent = self.agent
        left: tuple[int, ...] = ()
        try:
            if agent is not None and turn is not None and self.opened:
                ask(turn, agent)
                if grace != 0:
                    await ended_within(turn, ANSWER_WAIT)
            if first is not None:
                await first()
        finally:
            self._held -= 1
            self._released.set()
        agent = self.agent  # it may have come up meanwhile
        if agent is not None:
            if turn is not None and not turn.done.is_set():
                turn.reach(CancelRung.KILL)
            left = await agent.stop(grace)
        self._scope.cancel()
        return left

    def idle_since(self) -> float | None:
        """Monotonic seconds since when its process could give way, None if it cannot."""
        if self.agent is None or not can_reopen(self.agent.capabilities):
            return None
        return self._idle_since

    def would_forget(self) -> bool:
        """Whether the conversation is lost with this process, for the agent cannot take it up."""
        agent = self.agent
        if agent is None or not self.opened or self.unspoken:
            return False
        return not can_reopen(agent.capabilities)

    def give_way(self) -> None:
        """End the idle process; the next prompt reopens the session."""
        self.leave()

    # ---- The session's task ----

    async def run(
        self, turn: Turn | None, definition: AgentDefinition, build_spec: Callable[[], SessionSpec]
    ) -> None:
        """Live: start for a turn, or to wait for one, and return when the whole tree is gone.

        Raises:
            BridgeError: the agent could not be started, or its session not be opened.
        """
        self._definition = definition
        with self._scope:
            await take_place(self._services.places, self, self._book.record, self._host)
            try:
                if turn is not None:
                    self._host.begin(turn)
                await self._book.save(state=SessionState.STARTING)
                runtime = self._services.runtime(definition)
                spec = self._spec = replace(build_spec(), stop_grace=lambda: self._grace)
                self._load_at_once = await self._settle()
                async with (
                    background(self._watch_use),
                    runtime.connect(spec, self._host) as agent,
                ):
                    await self._with_agent(agent, turn)
            except BridgeError:
                self._look_for_kill()
                raise
            finally:
                self._services.places.release(self)
        if self.died is not None and not self.opened:
            raise self.died  # it was ended for what it took before it was ready

    async def _with_agent(self, agent: RuntimeSession, turn: Turn | None) -> None:
        self.agent = agent
        self._host.emit(Fact("process_started", {"pid": agent.pid}))
        try:
            opened = await self._open(agent, fresh=self._may_begin_anew(turn))
            async with background(lambda: self._watch_death(agent)):
                if self._order is not None:
                    await self._book.save()
                    self._order.up(agent.pid, context_lost=opened.lost is not None)
                await self._turns(agent, turn)
            while self._held and self.died is None:
                await self._released.wait()
                self._released = anyio.Event()
        finally:
            # Also of a dead agent: the rest of its tree is not gone yet (case 5).
            self._book.note(state=SessionState.STOPPING)

    def _may_begin_anew(self, turn: Turn | None) -> bool:
        if turn is not None:
            return turn.request.fresh
        return self._order is not None and self._order.fresh

    async def _open(self, agent: RuntimeSession, *, fresh: bool) -> Opened:
        record, now = self._book.record, self._services.clock.wall()
        pause = 0.0
        if not self._load_at_once:
            pause = reload_pause(self._definition.facts.reload_wait, record.opened_at, now)
        opened = await open_session(
            agent, self._host, record.agent_session_id, fresh=fresh, pause=pause
        )
        self.opened = True
        self._note_opened(opened, agent)
        if not opened.new:
            await self._settle(running=True)
        return opened

    def _note_opened(self, opened: Opened, agent: RuntimeSession) -> None:
        record = self._book.record
        self.unspoken = opened.new
        lost = () if opened.lost is None else (opened.lost,)
        self._book.note(
            state=self._shown(SessionState.READY),
            agent_session_id=opened.session_id,
            former_session_ids=(*record.former_session_ids, *lost),
            mode=agent.mode,
            opens=record.opens + 1,
            opened_at=self._services.now(),
            last_error=None,
        )

    async def _settle(self, *, running: bool = False) -> bool:
        """Have the agent's stored session survive its being loaded; see `session_files`."""
        files, known = self._definition.facts.session_files, self._book.record.agent_session_id
        now = self._services.clock.wall()
        return await settle(files, self._spec.env, known, now, running=running)

    async def _watch_use(self) -> None:
        """End the tree at once when it takes more than it may: what runs in it fails for that."""
        error = await self.overuse.beyond()
        if error is None or self._over():
            return
        turn = self._host.turn
        if turn is not None and not turn.cancelling:
            turn.verdict = error
        self._note_death(error)
        self._grace = 0.0
        self._waiting.cancel()
        if self.agent is None or not self.opened:
            self._scope.cancel()
        else:
            await self.agent.stop(0)

    async def _watch_death(self, agent: RuntimeSession) -> None:
        self._note_death(await agent.died())
        self._waiting.cancel()

    def _note_death(self, error: BaseException) -> None:
        # Asked first: a daemon that was continued may have been told to stop in the same moment.
        self._look_for_kill()
        if self._over():
            return
        if not isinstance(error, BridgeError):
            error = BridgeError("agent_died", "The agent is gone.")
        self.died = error
        self._book.note(last_error=self._services.clean(error).to_json())
        self._services.broker.withdraw(self._host.key, Reason.AGENT_DIED)

    def _look_for_kill(self) -> None:
        """Where a person killed it while this daemon was frozen, it is an end, and no death."""
        self.killed_past = self._services.killed_past(str(self._host.key))
        if self.killed_past is None:
            return
        self._services.broker.withdraw(self._host.key, Reason.KILLED)
        self._host.closing = True
        self._host.because = self.killed_past
        if self._host.turn is not None:
            self._host.mark_cancelling(self._host.turn)

    # ---- Turns ----

    def _over(self) -> bool:
        return self._leaving or self._host.closing or self.died is not None

    def _shown(self, state: SessionState) -> SessionState:
        return SessionState.STOPPING if self._over() else state

    async def _turns(self, agent: RuntimeSession, first: Turn | None) -> None:
        """Run a turn and those that come after it, while the agent is there."""
        turn = first
        if turn is None and (turn := await self._next()) is not None:
            self._host.take(turn)
            self._host.begin(turn)
        while turn is not None:
            await self._run(agent, turn)
            if self._over():
                return
            turn = self._inbox.take()
            if turn is None and not self._book.record.one_shot:
                turn = await self._next()
            if turn is not None:
                self._host.take(turn)
                self._host.begin(turn)

    async def _next(self) -> Turn | None:
        """Wait for a turn; None when the process was idle too long, has died, or must go."""
        self._idle_since = self._services.clock.monotonic()
        self._waiting = anyio.CancelScope()
        self._services.places.check()
        try:
            with self._waiting, anyio.move_on_after(self._services.idle_ttl()):
                while not self._over():
                    await self._inbox.news()
                    # It may have been cancelled since: then wait on.
                    if not self._over() and (turn := self._inbox.take()) is not None:
                        return turn
        finally:
            self._idle_since = None
        return None if self._over() else self._inbox.take()

    async def _run(self, agent: RuntimeSession, turn: Turn) -> None:
        """Run one turn to its outcome."""
        await self._book.save(state=self._shown(SessionState.RUNNING), mode=agent.mode)
        if turn.cancelling:
            self._turn_over()
            await self._host.cancelled(turn)  # a prompt sent now would never hear of it (case 25)
        else:
            await self._prompt(agent, turn)
        await self._book.save(mode=agent.mode)

    async def _prompt(self, agent: RuntimeSession, turn: Turn) -> None:
        self._services.faults("session.before_prompt")
        try:
            async with background(
                lambda: watch_time(turn, agent, self._host, self.leave),
                lambda: self._watch_silence(agent, turn),
                lambda: watch_stall(turn, agent, self._host, self._services, self.leave),
            ):
                result = await self._answer(agent, turn)
        except BridgeError as error:
            if error.code == "agent_died":
                self._note_death(error)
            self._turn_over()
            await self._host.fail(turn, error)
            if turn.error is not None:
                self._book.note(last_error=turn.error.to_json())
        else:
            self._turn_over()
            await self._host.complete(turn, result)

    async def _watch_silence(self, agent: RuntimeSession, turn: Turn) -> None:
        hint = self._definition.facts.silence_hint
        await watch_silence(turn, agent, self._host, self._services, hint)

    async def _answer(self, agent: RuntimeSession, turn: Turn) -> TurnResult:
        try:
            return await self._prompt_prepared(agent, turn)
        except BridgeError as error:
            if error.code != "resume_not_found":
                raise
            why = error.message.rstrip(".")
        # Only now did the agent look for the conversation; it has not taken the prompt.
        known, fresh = self._book.record.agent_session_id, turn.request.fresh
        self._note_opened(await begin_anew(agent, self._host, known, why, fresh=fresh), agent)
        self._book.note(state=self._shown(SessionState.RUNNING))
        return await self._prompt_prepared(agent, turn)

    async def _prompt_prepared(self, agent: RuntimeSession, turn: Turn) -> TurnResult:
        await prepare(agent, turn, self._definition, self._spec, self._book)
        if turn.cancelling:
            # A prompt sent now would never hear of it (case 25).
            raise BridgeError("request_cancelled", "The turn was cancelled.")
        await self._host.announce(turn)
        self.unspoken = False
        if self.prompted_ticks is None:
            self.prompted_ticks = census.now_ticks()
        return await agent.prompt(self._host.prompt_of(turn))

    def _turn_over(self) -> None:
        """Change what is shown before the turn is told to be over: nobody sees it run on."""
        self._book.note(state=self._shown(SessionState.READY))
