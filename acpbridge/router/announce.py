"""Delivers completions: each accepted run that somebody is to hear of is told to that session once.

A run's outcome and the order to tell of it are on record together. From there on it is a turn of
the session's own queue, accepted by the one way by which runs begin, and tried again until its
words have gone out; what went out is never repeated by itself. Agents that the bridge does not run
fetch theirs. Above is the router; below are `accepting`, the ledger and `telling`.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Any, Final

import anyio
import structlog
from anyio.abc import TaskGroup

from acpbridge.errors import BridgeError
from acpbridge.model.events import Fact
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.router.api import RunReceipt, RunRequest
from acpbridge.router.directory import Directory
from acpbridge.router.dues import Due, Dues, put_off
from acpbridge.router.reporting import Reporting
from acpbridge.router.runs import Runs
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.router.turns import Turn
from acpbridge.store.outbox import Settled
from acpbridge.store.records import OutboxEntry
from acpbridge.transport.tasks import background

log = structlog.get_logger(__name__)

ANNOUNCER: Final = Requester(Role.SYSTEM, client_id="announce")

# Tried again after 15 s, then less and less often, for half an hour. Seconds.
FIRST_PAUSE: Final = 15.0
LONGEST_PAUSE: Final = 300.0
PATIENCE: Final = 1800.0

# A ledger that cannot be read is looked at again after so long. Seconds.
RETRY: Final = 1.0

# Between two rungs of the ladder for an attempt that takes too long. Seconds.
GRACE: Final = 2.0

# What is blocked is kept for a person so long.
KEPT: Final = timedelta(days=7)
DAY: Final = 86400.0

# With these another attempt cannot be more than the first: a person has to do something.
_LASTING: Final = frozenset({"resume_not_found", "auth_required", "agent_not_found"})

Accept = Callable[[RunRequest, Requester], Awaitable[RunReceipt]]


class Announcing:
    """Delivers completions.

    Args:
        directory: the sessions that there are.
        runs: the runs under way.
        services: ledger, log, clock and tidings.
        reporting: says what a session is prompted with.
        dues: what is still to be told.
        accept: accepts a turn.
    """

    def __init__(
        self,
        directory: Directory,
        runs: Runs,
        services: Services,
        reporting: Reporting,
        dues: Dues,
        accept: Accept,
    ) -> None:
        self._directory = directory
        self._runs = runs
        self._services = services
        self._reporting = reporting
        self._accept = accept
        self._dues = dues
        self._under_way: set[SessionKey] = set()

    # ---- What others ask ----

    def holding(self, run_id: str) -> AbstractContextManager[None]:
        """Announce the end of a run to nobody within the block: see `Dues.holding`."""
        return self._dues.holding(run_id)

    async def claim(self, run_id: str) -> bool:
        """Take a completion that somebody got otherwise; False: it was told, or goes out now.

        Raises:
            BridgeError: `store_full`.
        """
        entry_id = f"announce:{run_id}"
        note = {"by": "claim", "at": self._services.now()}
        step = Settled(entry_id, ("pending",), "delivered", note)
        if await self._services.ledger.settle_outbox(step):
            await self.withdraw(entry_id)
            return True
        run = await self._services.ledger.run(run_id)
        if run is None or run.outcome is not None:
            return False
        self._dues.claim_later(entry_id)  # it is over, and that could not be put on record yet
        return True

    async def withdraw(self, entry_id: str) -> None:
        """Have no attempt under way at a completion that was settled otherwise."""
        due = self._dues.drop(entry_id)
        if due is not None and due.turn is not None:
            session = self._directory.get(due.turn.request.key)
            if session is not None:
                await session.cancel_turn(due.turn, GRACE)
        self._services.tidings.tell()

    # ---- The task ----

    async def serve(self) -> None:
        """Tell of what has ended, until cancelled."""
        async with background(self._give_up) as tasks:
            while True:
                news = self._services.tidings.news
                try:
                    await self._look(tasks)
                except BridgeError as error:
                    log.warning("completions cannot be read", code=error.code)
                    await anyio.sleep(RETRY)
                    continue
                except Exception:
                    # The top of a task.
                    log.exception("completions could not be told")
                await news.wait()

    async def _give_up(self) -> None:
        """Dismiss what was blocked for longer than a person is given, at the start and daily."""
        while True:
            now = self._services.clock.wall()
            try:
                for entry in await self._services.ledger.outbox(("blocked",)):
                    if _age(entry, now) > KEPT:
                        note = {"by": "expired", "at": self._services.now()}
                        step = Settled(entry.id, ("blocked",), "dismissed", note)
                        await self._services.ledger.settle_outbox(step)
            except BridgeError as error:
                log.warning("old deliveries cannot be given up", code=error.code)
            await anyio.sleep(DAY)

    async def _look(self, tasks: TaskGroup) -> None:
        found = await self._dues.all()
        self._dues.wake(self._services.tidings.take_prompted())
        self._services.tidings.awaited = self._dues.quiet()
        for due in found:
            if self._services.tidings.over:
                return
            if due.pulled or due.resting or due.turn is not None or not self._dues.ready(due):
                continue
            target = self._dues.target(due)
            if target is None:
                await self._block(due, "no_session")
            elif not put_off(due, target) and target.key not in self._under_way:
                self._under_way.add(target.key)
                due.resting = True
                tasks.start_soon(self._deliver, due, target)

    # ---- One attempt ----

    async def _deliver(self, due: Due, target: Session) -> None:
        """Make one attempt, and leave the completion as it is for the next if that came to nothing.

        That it rests is noted before the session is free for another one.
        """
        why: str | None = "internal"
        try:
            why = await self._attempt(due, target)
        except BridgeError as error:
            why = error.code
        except Exception:
            # The top of a task.
            log.exception("a completion could not be told", run=due.run.run_id)
        finally:
            due.turn = None
            self._under_way.discard(target.key)
        if why is None:
            self._dues.drop(due.entry.id)
            self._services.tidings.tell()
        elif not self._services.tidings.over:
            self._services.tidings.tell()
            await self._again(due, why, target)

    async def _attempt(self, due: Due, target: Session) -> str | None:
        """Make one attempt; return why the completion is still to be told, None if it is not."""
        due.since = due.since or self._services.clock.monotonic()
        due.tries += 1
        if not await self._services.ledger.try_outbox(due.entry.id):
            return None
        request = await self._reporting.request(due, target)
        receipt = await self._accept(request, ANNOUNCER)
        known = self._runs.turn(receipt.run_id)
        if known is not None:
            due.turn = turn = known[1]
            async with background(lambda: self._watch_time(turn, target)):
                await turn.done.wait()
            if turn.errand is not None and turn.errand.over(turn.error):
                return None
        entry = await self._services.ledger.delivery(due.entry.id)
        if entry is None or entry.state != "pending":
            return None
        return "internal" if known is None else _why(known[1])

    async def _watch_time(self, turn: Turn, target: Session) -> None:
        """End an attempt that takes too long; how long it waits in the queue does not count."""
        assert turn.errand is not None
        await turn.errand.began.wait()
        await self._services.sleep(self._services.announce())
        if not turn.errand.told:
            turn.errand.late = True
            await target.cancel_turn(turn, GRACE)

    async def _again(self, due: Due, why: str, target: Session) -> None:
        """Have it tried again later, or not at all by itself."""
        late = self._services.clock.monotonic() - due.since >= PATIENCE
        if why in _LASTING or late:
            await self._block(due, why)
            return
        if why == "cancelled" and not target.closing:
            # Whoever stopped the session is not to see it go on by itself: it hears of it once it
            # is prompted again.
            await self._settle(due, "pending", {"quiet": True})
            due.resting = due.woken = False
            self._services.tidings.tell()
            return
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (due.tries - 1))
        if not target.closing:
            await self._services.sleep(pause)
        due.resting = False
        self._services.tidings.tell()

    # ---- On record ----

    async def _block(self, due: Due, why: str) -> None:
        """Give up for now: a person may have it told after all."""
        await self._settle(due, "blocked", {"reason": why, "at": self._services.now()})
        self._dues.drop(due.entry.id)
        log.warning("a completion is blocked", run=due.run.run_id, why=why)
        key = SessionKey.parse(due.entry.address)
        if self._services.log.knows(key) and self._directory.get(key) is not None:
            message = f"the end of {due.run.session} could not be told ({why})"
            fact = Fact("notice", {"kind": "announce_blocked", "message": message})
            self._services.log.append(key, None, fact)
        self._services.tidings.tell()

    async def _settle(self, due: Due, state: str, note: Mapping[str, Any]) -> None:
        try:
            await self._services.ledger.settle_outbox(
                Settled(due.entry.id, ("pending",), state, note)
            )
        except BridgeError as error:
            log.warning("a delivery is not on record yet", run=due.run.run_id, code=error.code)


def _age(entry: OutboxEntry, now: datetime) -> timedelta:
    """Return since when a delivery is blocked; one without a readable moment is new."""
    try:
        return now - datetime.fromisoformat(entry.payload.get("at") or "")
    except (ValueError, TypeError):
        return timedelta()


def _why(turn: Turn) -> str:
    """Return why a turn ended before its words went out."""
    if turn.errand is not None and turn.errand.late:
        return "start_timeout"
    return "cancelled" if turn.error is None else turn.error.code
