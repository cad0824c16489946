"""One session: one task, one bounded inbox, one turn at a time.

The task enters the runtime when there is a turn to run, opens the agent's session, serves turns,
and leaves it again; a prompt is never sent twice. Everything else (`submit`, `cancel`, `end`)
changes values and wakes the task, or waits for it. Above is the router; below are the runtimes.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import anyio
import structlog

from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.events import Fact
from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import Reason
from acpbridge.model.sessions import (
    LIVE_STATES,
    CancelRung,
    CloseReason,
    SessionRecord,
    SessionState,
    TurnState,
)
from acpbridge.protocol import acp
from acpbridge.router.host import Host
from acpbridge.router.ladder import descend, ended_within
from acpbridge.router.services import Services
from acpbridge.router.turns import Inbox, Turn
from acpbridge.runtimes.base import Load, New, Opening, Resume, RuntimeSession, SessionSpec
from acpbridge.transport.tasks import background

log = structlog.get_logger(__name__)

# A session that failed to open this often within so many seconds is left alone until `restart`.
OPENS_FAILED: Final = 3
OPENS_WINDOW: Final = 60.0

# A killed turn may still answer within this, so that its end is the agent's own. Seconds.
ANSWER_WAIT: Final = 1.0

# Between two rungs of the ladder for a turn that ran into its own limit. Seconds.
TIMEOUT_GRACE: Final = 2.0


class Session:
    """One session of the router.

    Args:
        record: what the ledger has of it.
        definition: the snapshot that it keeps.
        build_spec: builds the runtime's spec, with the environment of the last caller.
        services: what it works with.

    Attributes:
        env: environment of the last caller; in memory only.
        agent: what runs it, while it runs.
    """

    def __init__(
        self,
        record: SessionRecord,
        definition: AgentDefinition,
        build_spec: Callable[["Session"], SessionSpec],
        services: Services,
    ) -> None:
        self.record = record
        self.definition = definition
        self.env: Mapping[str, str] = {}
        self.inbox = Inbox()
        self.agent: RuntimeSession | None = None
        self._host = Host(record.key, services)
        self._build_spec = build_spec
        self._services = services
        self._failures: deque[float] = deque(maxlen=OPENS_FAILED)
        self._idle_since: float | None = None
        self._life = anyio.CancelScope()
        self._waiting = anyio.CancelScope()
        self._ending = False
        self._died = False
        self._gone = anyio.Event()
        self._gone.set()

    def __repr__(self) -> str:
        return f"Session({self.key}, {self.record.state}, {len(self.inbox)} waiting)"

    @property
    def key(self) -> SessionKey:
        """Its address."""
        return self.record.key

    @property
    def live(self) -> bool:
        """Whether it has a process, or is about to have one."""
        return self.record.state in LIVE_STATES

    @property
    def closed(self) -> bool:
        """Whether it is ended for good."""
        return self.record.state is SessionState.CLOSED

    @property
    def closing(self) -> bool:
        """Whether it takes no more work."""
        return self._ending or self.closed

    @property
    def turn(self) -> Turn | None:
        """The turn under way."""
        return self._host.turn

    @property
    def mode(self) -> str | None:
        """The agent's session mode: as told now, else as it was on record."""
        return self.record.mode if self.agent is None else self.agent.mode

    # ---- What others ask ----

    def check_open(self) -> None:
        """Check that it may be prompted.

        Raises:
            BridgeError: `session_closed`, `reopen_refused`, `busy`.
        """
        if self.closing:
            raise BridgeError("session_closed", f"The session {self.key} is closed.")
        if self.agent is None and self._must_rest():
            message = f"The session failed to open {OPENS_FAILED} times in {OPENS_WINDOW:g} s."
            raise BridgeError("reopen_refused", message)
        self.inbox.check_room()

    def submit(self, turn: Turn) -> bool:
        """Take a turn into the inbox, after `check_open`; tell whether `serve` must be started."""
        self.inbox.put(turn)
        self._host.queue(turn, len(self.inbox))
        if self._gone.is_set():
            self._gone = anyio.Event()
            return True
        return False

    def _must_rest(self) -> bool:
        if len(self._failures) < OPENS_FAILED:
            return False
        return self._services.clock.monotonic() - self._failures[0] < OPENS_WINDOW

    async def cancel(self, grace: float) -> tuple[CancelRung, bool, str | None]:
        """End the running turn and all that wait behind it, down the ladder as far as needed.

        Returns:
            The rung that was reached, whether no turn is left running, and the stop reason.
        """
        await self._drop_waiting()
        turn = self.turn
        if turn is None:
            return CancelRung.NONE, True, None
        self._mark_cancelling(turn)
        if self.agent is None or self.record.state is SessionState.STARTING:
            self._life.cancel()
            await ended_within(turn, grace)
            rung = CancelRung.CANCEL
        else:
            rung = await descend(turn, self.agent, grace)
        return rung, turn.done.is_set(), turn.stop_reason

    async def cancel_turn(self, run_id: str, grace: float) -> None:
        """Cancel one turn only: out of the inbox, or with all behind it when it runs."""
        if self.turn is not None and self.turn.run_id == run_id:
            await self.cancel(grace)
            return
        for turn in self.inbox.waiting():
            if turn.run_id == run_id and self.inbox.remove(turn):
                await self._host.cancelled(turn)

    async def _drop_waiting(self) -> None:
        for queued in self.inbox.take_all():
            await self._host.cancelled(queued)

    def _mark_cancelling(self, turn: Turn) -> None:
        turn.cancelling = True
        turn.state = TurnState.CANCELLING
        self._services.broker.withdraw(self.key, Reason.CANCELLED)

    def mark_ending(self) -> None:
        """Refuse all further work, and allow nothing more, from now on."""
        self._ending = True
        self._host.closing = True

    async def end(self, reason: CloseReason | None, grace: float | None) -> tuple[int, ...]:
        """End the session's turn, questions and process; return the pids that are left.

        Args:
            reason: closes the session for good; None leaves it to be taken up by a later daemon.
            grace: seconds after stdin was closed; None for the agent's own, 0 for at once.
        """
        self.mark_ending()
        await self._drop_waiting()
        turn, agent = self.turn, self.agent
        if turn is not None:
            self._mark_cancelling(turn)
            if agent is not None:
                agent.cancel()
            if agent is not None and grace != 0:
                await ended_within(turn, ANSWER_WAIT)
        left = await agent.stop(grace) if agent is not None else ()
        self._life.cancel()
        self._waiting.cancel()
        await self._gone.wait()
        if reason is not None:
            await self._set(SessionState.CLOSED, close_reason=reason)
        elif self.live:
            await self._set(SessionState.IDLE)
        return left

    # ---- A holder of a place ----

    def idle_since(self) -> float | None:
        """Monotonic seconds since when its process could give way, None if it cannot."""
        if self.agent is None or self._idle_since is None:
            return None
        caps = self.agent.capabilities
        can = acp.can(caps, "loadSession") or acp.can(caps, "sessionCapabilities", "resume")
        return self._idle_since if can else None

    def give_way(self) -> None:
        """End the idle process; the next prompt reopens the session."""
        self._idle_since = None
        self._waiting.cancel()

    # ---- The task ----

    async def serve(self) -> None:
        """Run what is in the inbox until nothing is left of it and of the process: the task."""
        try:
            while not self._ending and (turn := self.inbox.take()) is not None:
                self._host.begin(turn)
                await self._one_life(turn)
        finally:
            self._gone.set()

    async def _one_life(self, turn: Turn) -> None:
        """One process: from the start for a turn to its end."""
        after, error = SessionState.IDLE, None
        self._died = False
        try:
            with anyio.CancelScope() as self._life:
                await self._set(SessionState.STARTING)
                await self._services.places.acquire(self)
                await self._with_agent(turn)
        except BridgeError as failure:
            after, error = SessionState.FAILED, failure
        except Exception as failure:
            # The top of a task: a fault of ours ends this life, and no other session's.
            log.exception("session failed", key=str(self.key))
            after = SessionState.FAILED
            error = BridgeError("internal", f"acpbridge failed: {type(failure).__name__}.")
        finally:
            with anyio.CancelScope(shield=True):
                self._services.places.release(self)
                await self._after_life(SessionState.DIED if self._died else after, turn, error)

    async def _with_agent(self, turn: Turn) -> None:
        runtime = self._services.runtime(self.definition)
        async with runtime.connect(self._build_spec(self), self._host) as agent:
            self.agent = agent
            self._host.emit(Fact("process_started", {"pid": agent.pid}))
            await self._open(agent)
            self._failures.clear()
            opens = self.record.opens + 1
            await self._set(SessionState.READY, mode=agent.mode, opens=opens, last_error=None)
            async with background(lambda: self._watch_death(agent)):
                await self._turns(agent, turn)
            if not self._ending:
                await self._set(SessionState.STOPPING)

    async def _watch_death(self, agent: RuntimeSession) -> None:
        error = await agent.died()
        self._died = True
        self._record_error(error)
        self._services.broker.withdraw(self.key, Reason.AGENT_DIED)
        self._waiting.cancel()

    async def _after_life(self, after: SessionState, turn: Turn, error: BridgeError | None) -> None:
        agent, self.agent = self.agent, None
        if error is not None:
            self._record_error(error)
            if after is SessionState.FAILED:
                self._failures.append(self._services.clock.monotonic())
        if agent is not None:
            self._host.emit(Fact("process_exited", {"pid": agent.pid, "died": self._died}))
        if not self._ending:
            # Before the turn is told to be over, so that nobody sees it over and running.
            await self._set(after)
        if not turn.done.is_set():
            await self._host.fail(turn, error)
        await self._services.log.committed(self.key)

    def _record_error(self, error: BaseException) -> None:
        if isinstance(error, BridgeError):
            self.record = replace(self.record, last_error=error.to_json())

    # ---- Opening ----

    async def _open(self, agent: RuntimeSession) -> None:
        try:
            result = await agent.open(self._how_to_open(agent))
        except BridgeError as error:
            if error.code != "resume_not_found":
                raise
            self._context_lost(error.message)
            result = await agent.open(New())
        session_id = result.get("sessionId")
        self.record = replace(
            self.record, agent_session_id=session_id if isinstance(session_id, str) else None
        )

    def _how_to_open(self, agent: RuntimeSession) -> Opening:
        known = self.record.agent_session_id
        if known is None:
            return New()
        if acp.can(agent.capabilities, "sessionCapabilities", "resume"):
            return Resume(known)
        if acp.can(agent.capabilities, "loadSession"):
            return Load(known)
        self._context_lost("the agent can neither resume nor load a session")
        return New()

    def _context_lost(self, why: str) -> None:
        values = {"kind": "context_lost", "was": self.record.agent_session_id}
        self._host.emit(Fact("notice", {**values, "message": f"previous context lost: {why}"}))

    # ---- Turns ----

    async def _turns(self, agent: RuntimeSession, first: Turn) -> None:
        """Run a turn and those that come after it, while the agent is there."""
        turn: Turn | None = first
        while turn is not None:
            self._host.begin(turn)
            await self._set(SessionState.RUNNING)
            await self._run(agent, turn)
            if self._died:
                return
            await self._set(SessionState.READY, mode=agent.mode)
            turn = self.inbox.take()
            if turn is None and not self.record.one_shot:
                turn = await self._next()

    async def _next(self) -> Turn | None:
        """Wait for a turn; None when the process was idle too long, has died, or must go."""
        self._idle_since = self._services.clock.monotonic()
        self._services.places.check()
        try:
            with anyio.CancelScope() as self._waiting:
                if self._died or self._ending:
                    return None
                with anyio.move_on_after(self._services.idle_ttl()):
                    await self.inbox.news()
            return None if self._died or self._ending else self.inbox.take()
        finally:
            self._idle_since = None

    async def _run(self, agent: RuntimeSession, turn: Turn) -> None:
        """Run one turn to its outcome."""
        self._services.faults("session.before_prompt")
        try:
            async with background(lambda: self._limit(agent, turn)):
                result = await agent.prompt(turn.request.content)
        except BridgeError as error:
            self._died = self._died or error.code == "agent_died"
            if error.code == "agent_died":
                self._record_error(error)
            await self._host.fail(turn, error)
        else:
            await self._host.complete(turn, result)

    async def _limit(self, agent: RuntimeSession, turn: Turn) -> None:
        """End the turn when its own limit has passed."""
        if turn.request.timeout is None:
            return
        await anyio.sleep(turn.request.timeout)
        turn.timed_out = True
        self._mark_cancelling(turn)
        await descend(turn, agent, TIMEOUT_GRACE)

    async def _set(self, state: SessionState, **changes: Any) -> None:
        self.record = replace(self.record, state=state, **changes)
        await self._services.ledger.put_session(self.record)
