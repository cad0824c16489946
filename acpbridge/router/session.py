"""One session: one task, one bounded inbox, one turn at a time.

The task lives one process after the other, each started when there is a turn to run, or a person
wants it restarted; a prompt is never sent twice. Everything else (`submit`, `cancel`, `restart`,
`end`) changes values and wakes the task, or waits for it. Above is the router; below are the life
of a process and the host of its turns.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

import anyio
import structlog

from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.events import Fact
from acpbridge.model.keys import SessionKey
from acpbridge.model.sessions import (
    LIVE_STATES,
    CancelRung,
    CloseReason,
    SessionRecord,
    SessionState,
)
from acpbridge.router.book import Book
from acpbridge.router.cancelling import Cancelling
from acpbridge.router.closing import Closing
from acpbridge.router.host import Host
from acpbridge.router.life import Life
from acpbridge.router.opening import REFUSED, Failures
from acpbridge.router.order import RestartOrder, turn_under_way, would_forget
from acpbridge.router.preparing import note_servers
from acpbridge.router.services import Services
from acpbridge.router.turns import Inbox, Turn
from acpbridge.runtimes.base import RuntimeSession, SessionSpec

log = structlog.get_logger(__name__)

# Between two rungs of the ladder for a turn that a restart cancels. Seconds.
RESTART_GRACE: Final = 2.0

# For an ended session's records; a disk that hangs holds up nobody for longer. Seconds.
GONE_WAIT: Final = 10.0


class Session:
    """One session of the router.

    Args:
        record: what the ledger has of it.
        definition: the snapshot that it keeps.
        build_spec: builds the runtime's spec, with the environment of the last caller.
        services: what it works with.
        bereave: told once its process is gone and nobody here had wanted that.

    Attributes:
        env: environment of the last caller; in memory only.
        open_log, keep: see `Closing.open_log` and `Book.save`.
        mcp_servers: those that the last run gave which gave any; in memory only.
    """

    def __init__(
        self,
        record: SessionRecord,
        definition: AgentDefinition,
        build_spec: Callable[["Session"], SessionSpec],
        services: Services,
        bereave: Callable[["Session"], None] = lambda _session: None,
    ) -> None:
        self.definition = definition
        self.env: Mapping[str, str] = {}
        self.mcp_servers: tuple[Mapping[str, Any], ...] = ()
        self.inbox = Inbox()
        self._book = Book(record, services.ledger)
        self._host = Host(record, services, definition)
        self._closing = Closing(self._book, self._host, services)
        self.open_log = self._closing.open_log
        self.keep = self._book.save
        self._build_spec = build_spec
        self._services = services
        self._bereave = bereave
        self._failures = Failures(services.clock)
        self._life: Life | None = None
        self._cancelling = Cancelling(self._host, self.inbox, lambda: self._life)
        self._restart: RestartOrder | None = None
        self._gone: anyio.Event | None = None  # while its task runs; set once that has ended

    def __repr__(self) -> str:
        return f"Session({self.key}, {self.record.state}, {len(self.inbox)} waiting)"

    # ---- What is shown ----

    @property
    def record(self) -> SessionRecord:
        """What the ledger has of it, or will have in a moment."""
        return self._book.record

    @property
    def key(self) -> SessionKey:
        """Its address."""
        return self.record.key

    @property
    def live(self) -> bool:
        """Whether it has a process, or is about to have one."""
        return self.record.state in LIVE_STATES

    @property
    def active(self) -> bool:
        """Whether it has a process or anything to do."""
        busy = self.turn is not None or self.inbox.expected > 0
        return self.live or busy or self._restart is not None

    @property
    def has_place(self) -> bool:
        """Whether it holds one of the places for processes."""
        return self._services.places.holds(self._life)

    @property
    def at_rest(self) -> bool:
        """Whether nothing of it runs, waits, or is still being written down."""
        return not self.active and self._gone is None

    @property
    def closed(self) -> bool:
        """Whether it is ended for good."""
        return self.record.state is SessionState.CLOSED

    @property
    def closing(self) -> bool:
        """Whether it takes no more work."""
        return self._host.closing or self.closed

    @property
    def turn(self) -> Turn | None:
        """The turn under way."""
        return self._host.turn

    @property
    def agent(self) -> RuntimeSession | None:
        """What runs it, while it runs."""
        return None if self._life is None else self._life.agent

    @property
    def may_spawn(self) -> bool:
        """Whether what is started under it now is started by a process that is to go on."""
        life, turn = self._life, self.turn
        going_on = self.active and self._restart is None and (life is None or life.died is None)
        return going_on and not self.closing and (turn is None or not turn.cancelling)

    @property
    def prompted_ticks(self) -> int | None:
        """When its process got its first prompt, as the kernel counts; None if it got none."""
        return None if self._life is None else self._life.prompted_ticks

    @property
    def mode(self) -> str | None:
        """The agent's session mode: as told now, else as it was on record."""
        return self.record.mode if self.agent is None else self.agent.mode

    async def near_limits(self) -> list[str]:
        """Return a warning for each limit that its tree is near to, asked from the kernel now."""
        return [] if self._life is None else await self._life.overuse.near()

    # ---- What others ask ----

    def check_open(self) -> None:
        """Check that it may be prompted.

        Raises:
            BridgeError: `session_closed`, `reopen_refused`.
        """
        if self.closing:
            raise BridgeError("session_closed", f"The session {self.key} is closed.")
        self._failures.check()

    def submit(self, turn: Turn) -> bool:
        """Take a turn into the room reserved for it; tell whether `serve` must be started."""
        self.inbox.put(turn)
        self._host.queue(turn, len(self.inbox))
        if self._gone is None:
            self._gone = anyio.Event()
            return True
        return False

    async def cancel(self, grace: float) -> tuple[CancelRung, bool, str | None]:
        """End the running turn and all that wait behind it; see `Cancelling.everything`."""
        return await self._cancelling.everything(grace)

    async def cancel_turn(self, turn: Turn, grace: float) -> None:
        """Cancel one turn only, whether it runs or waits."""
        await self._cancelling.one(turn, grace)

    async def restart(
        self,
        env: Mapping[str, str],
        start: Callable[["Session"], None],
        end_below: Callable[[], Awaitable[tuple[int, ...]]],
        *,
        force: bool,
        fresh: bool,
    ) -> RestartOrder:
        """End the process if there is one, start another, and wait until the session is open.

        Args:
            env: the environment of whoever wants it; empty for that of the last caller.
            start: runs the session's task.
            end_below: ends, first of all, what it has spawned; returns the pids that are left.
            force: whether a turn that is under way is cancelled first, else it refuses.
            fresh: begin anew if the agent cannot take up the conversation, else it refuses.

        Raises:
            BridgeError: `session_closed`, `busy`, `resume_not_found`, `survivors`, or why it
                could not be opened.
        """
        order = self._ordered(env, force=force, fresh=fresh)
        # Nothing was awaited: no turn has come in between, and none is begun any more.
        if self._gone is None:
            self._gone = anyio.Event()
            start(self)
        try:
            await self._make_way(order, end_below)
            await order.done.wait()
        finally:
            order.fail(self._ended())  # if this was cut off, nothing is started for it any more
            order.go.set()
            self._restart = None
        if order.error is not None:
            raise order.error
        return order

    def _ordered(self, env: Mapping[str, str], *, force: bool, fresh: bool) -> RestartOrder:
        if self.closing:
            raise BridgeError("session_closed", f"The session {self.key} is closed.")
        if self._restart is not None:
            raise BridgeError("busy", f"The session {self.key} is being restarted already.")
        if not force and (self.turn is not None or self.inbox.expected):
            raise turn_under_way(self.key)
        if not fresh and self._life is not None and self._life.would_forget():
            raise would_forget(self.key)
        self._restart = RestartOrder(fresh)
        self._failures.forgive()
        self.env = env or self.env
        if self._life is not None:
            self._life.leave()
        return self._restart

    async def _make_way(
        self, order: RestartOrder, end_below: Callable[[], Awaitable[tuple[int, ...]]]
    ) -> None:
        """End what runs, turns and all."""
        life = self._life  # it may end by itself meanwhile, and leave something
        left = await end_below()
        if not left:
            await self.cancel(RESTART_GRACE)
            left = () if life is None else await life.end(None, None)
        if left:
            message = f"Processes of {self.key} are left: {list(left)}."
            order.fail(BridgeError("survivors", message, data={"survivors": list(left)}))
        order.go.set()

    def retire(self) -> None:
        """Take no more work and write nothing more: the session is being deleted."""
        self._host.closing = True
        self._book.retire()

    def mark_ending(self, reason: CloseReason | None) -> None:
        """Refuse all further work, and allow nothing more, from now on.

        Args:
            reason: closes the session for good; None leaves it to be taken up by a later daemon.
        """
        self._closing.begin(reason)

    async def end(
        self,
        reason: CloseReason | None,
        grace: float | None,
        first: Callable[[], Awaitable[None]] | None = None,
    ) -> tuple[int, ...]:
        """End the session's turn, questions and process; return the pids that are left.

        Args:
            reason: as for `mark_ending`.
            grace: as for `Life.end`.
            first: as for `Life.end`.
        """
        self.mark_ending(reason)
        turn, life = self.turn, self._life
        if turn is not None:
            self._host.mark_cancelling(turn)
        left: tuple[int, ...] = ()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._cancelling.waiting, self.inbox.take_all())
            if life is not None:
                left = await life.end(turn, grace, first)
        with anyio.move_on_after(GONE_WAIT):
            if self._gone is not None:
                await self._gone.wait()
            await self._closing.finish()
        self._forget_caller()
        return left

    # ---- The task ----

    async def serve(self) -> None:
        """Run what is in the inbox until nothing is left of it and of the process: the task."""
        try:
            while not self.closing:
                order = self._restart
                if order is not None and not order.taken:
                    order.taken = True
                    await order.go.wait()
                    if order.error is None and not self.closing:
                        await self._one_life(None, order)
                elif (turn := self.inbox.take()) is not None:
                    await self._one_life(turn)
                else:
                    break
        except Exception:
            # The top of a task: a fault of ours ends no other session.
            log.exception("session failed", key=str(self.key))
        finally:
            with anyio.CancelScope(shield=True):
                await self._cancelling.waiting(self.inbox.take_all())
            if self._restart is not None:
                self._restart.fail(self._ended())
            if self.closing:
                with anyio.CancelScope(shield=True):
                    await self._closing.finish()
            self._forget_caller()
            gone, self._gone = self._gone, None
            if gone is not None:
                gone.set()

    def _forget_caller(self) -> None:
        if self.closed:  # nothing is started for it any more
            self.env, self.mcp_servers = {}, ()

    def _ended(self) -> BridgeError:
        return BridgeError("session_closed", f"The session {self.key} was ended meanwhile.")

    async def _one_life(self, turn: Turn | None, order: RestartOrder | None = None) -> None:
        """Have one process live, and draw the conclusions."""
        if turn is not None:
            self._host.take(turn)
        if order is not None:
            message = "a new process was asked for"
            self._host.emit(Fact("notice", {"kind": "restart", "message": message}))
        life = self._life = Life(self._book, self._host, self.inbox, self._services, order)
        error: BridgeError | None = None
        try:
            self._failures.check()
            await life.run(turn, self.definition, lambda: self._spec_for(turn))
        except BridgeError as failure:
            error = failure
        except Exception as failure:
            # The top of a task: a fault of ours ends this life, and no other session's.
            log.exception("session failed", key=str(self.key))
            error = BridgeError("internal", f"acpbridge failed: {type(failure).__name__}.")
        finally:
            with anyio.CancelScope(shield=True):
                await self._after(life, error)
                if order is not None:
                    order.fail(self._ended() if error is None else self._services.clean(error))

    def _spec_for(self, turn: Turn | None) -> SessionSpec:
        if turn is not None:
            self.mcp_servers = turn.request.mcp_servers or self.mcp_servers
        spec = self._build_spec(self)
        note_servers(self._book, self._host, spec, tuple(s["name"] for s in self.mcp_servers))
        return spec

    async def _after(self, life: Life, error: BridgeError | None) -> None:
        """Say what became of the session, before the turn is told to be over."""
        if life.killed_past is not None:
            self.mark_ending(life.killed_past)
        after = self._closing.state_after(life, error)
        if error is not None:
            self._book.note(last_error=self._services.clean(error).to_json())
        if life.opened:
            self._failures.clear()
        elif error is not None and error.code not in {"reopen_refused", *REFUSED}:
            self._failures.add()
        if life.unspoken:
            # Many agents keep no session in which nothing was said: there is nothing to take up.
            self._book.note(agent_session_id=None)
        self._closing.note(after)
        if after is SessionState.DIED or life.killed_past is not None:
            self._bereave(self)
        if life.agent is not None:
            values = {"pid": life.agent.pid, "died": life.died is not None}
            why = {} if life.died is None else {"message": life.died.message}
            self._host.emit(Fact("process_exited", {**values, **why}))
        self._life = None
        turn = self.turn
        if turn is not None:
            await self._host.fail(turn, error)
        await self._book.save()
