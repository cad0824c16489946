"""Delivers completions: each accepted run that somebody is to hear of is told to that session once.

A run's outcome and the order to tell of it are on record together. From there on it is a turn of
the session's own queue, accepted by the one way by which runs begin, and tried again until its
words have gone out; what went out is never repeated by itself. Agents that the bridge does not run
fetch theirs. Above is the router; below are `accepting`, the ledger and `telling`.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio
import structlog
from anyio.abc import TaskGroup

from acpbridge.errors import BridgeError
from acpbridge.model.agents import RuntimeKind
from acpbridge.model.events import Fact
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.model.sessions import RunRecord
from acpbridge.router.api import RunReceipt, RunRequest
from acpbridge.router.directory import Directory
from acpbridge.router.reporting import Reporting
from acpbridge.router.runs import Runs
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.router.surroundings import Surroundings
from acpbridge.router.telling import plain, protected
from acpbridge.router.turns import Turn
from acpbridge.store.outbox import Settled
from acpbridge.store.records import OutboxEntry
from acpbridge.transport.tasks import background

log = structlog.get_logger(__name__)

ANNOUNCER: Final = Requester(Role.SYSTEM, client_id="announce")

# Contract 7.2.6: tried again after 15 s, then less and less often, for half an hour. Seconds.
FIRST_PAUSE: Final = 15.0
LONGEST_PAUSE: Final = 300.0
PATIENCE: Final = 1800.0

# A ledger that cannot be read is looked at again after so long. Seconds.
RETRY: Final = 1.0

# Between two rungs of the ladder for an attempt that takes too long. Seconds.
GRACE: Final = 2.0

# With these another attempt cannot be more than the first: a person has to do something.
_LASTING: Final = frozenset({"resume_not_found", "auth_required", "agent_not_found"})

Accept = Callable[[RunRequest, Requester], Awaitable[RunReceipt]]


@dataclass(eq=False, slots=True)
class Due:
    """A completion that is still to be told.

    Attributes:
        entry: as it is on record.
        run: that has ended.
        tries: attempts of this daemon.
        since: monotonic seconds of the first one.
        resting: whether it waits for the next attempt.
        turn: the one that tells of it, while it waits or runs.
    """

    entry: OutboxEntry
    run: RunRecord
    tries: int = 0
    since: float = 0.0
    resting: bool = False
    turn: Turn | None = None

    @property
    def pulled(self) -> bool:
        """Whether it is fetched."""
        return bool(self.entry.payload.get("pulled"))


class Announcing:
    """Delivers completions.

    Args:
        directory: the sessions that there are.
        runs: the runs under way.
        services: ledger, log, clock and tidings.
        around: limits, and the environment of a session that lost its own.
        reporting: makes a completion of a run.
        accept: accepts a turn.
    """

    def __init__(
        self,
        directory: Directory,
        runs: Runs,
        services: Services,
        around: Surroundings,
        reporting: Reporting,
        accept: Accept,
    ) -> None:
        self._directory = directory
        self._runs = runs
        self._services = services
        self._around = around
        self._reporting = reporting
        self._accept = accept
        self._due: dict[str, Due] = {}
        self._under_way: set[SessionKey] = set()
        self._held: dict[str, int] = {}
        self._claimed: set[str] = set()
        self._stopping = False

    # ---- What others ask ----

    def stop(self) -> None:
        """Tell nobody any more; what is pending is told by the next daemon."""
        self._stopping = True

    @property
    def busy(self) -> bool:
        """Whether somebody is to be told of something by this daemon, sooner or later."""
        return any(not (due.pulled or due.entry.payload.get("quiet")) for due in self._due.values())

    @contextmanager
    def holding(self, run_id: str) -> Iterator[None]:
        """Announce the end of a run to nobody within the block: somebody waits for it himself."""
        self._held[run_id] = self._held.get(run_id, 0) + 1
        try:
            yield
        finally:
            self._held[run_id] -= 1
            if not self._held[run_id]:
                del self._held[run_id]
            self._services.tidings.tell()

    async def claim(self, run_id: str) -> bool:
        """Take a completion that somebody got otherwise; False: it was told, or goes out now.

        Raises:
            BridgeError: `store_full`.
        """
        entry_id = f"announce:{run_id}"
        note = {"by": "claim", "at": self._services.now()}
        step = Settled(entry_id, ("pending",), "delivered", note)
        if await self._services.ledger.settle_outbox(step):
            await self._drop(entry_id)
            return True
        if await self._services.ledger.delivery(entry_id) is None:
            self._claimed.add(entry_id)  # its outcome is not on record yet
            return True
        return False

    async def withdraw(self, entry_id: str) -> None:
        """Have no attempt under way at a completion that was settled otherwise."""
        await self._drop(entry_id)

    async def due(self) -> dict[str, Due]:
        """Return what is still to be told, by the id of its entry, as it is on record now."""
        entries = {entry.id: entry for entry in await self._services.ledger.outbox()}
        for entry_id in self._due.keys() - entries.keys():
            if self._due[entry_id].turn is None:
                del self._due[entry_id]
        for entry in entries.values():
            known = self._due.get(entry.id)
            if known is not None:
                known.entry = entry
            elif not await self._is_claimed(entry.id):
                run = await self._services.ledger.run(entry.run_id)
                if run is not None and run.outcome is not None:
                    self._due.setdefault(entry.id, Due(entry, run))
        return dict(self._due)

    def ready(self, due: Due) -> bool:
        """Tell whether a completion is whole: nobody waits for it, and nothing below it goes on."""
        return due.run.run_id not in self._held and not self._goes_on_below(due)

    # ---- The task ----

    async def serve(self) -> None:
        """Tell of what has ended, until cancelled."""
        async with background() as tasks:
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

    async def _look(self, tasks: TaskGroup) -> None:
        prompted = self._services.tidings.take_prompted()
        for due in (await self.due()).values():
            if self._stopping:
                return
            if due.pulled or due.resting or due.turn is not None or not self.ready(due):
                continue
            target = self._target(due)
            if target is None:
                await self._block(due, "no_session")
            elif due.entry.payload.get("quiet") and target.key not in prompted:
                continue
            elif target.key not in self._under_way:
                self._under_way.add(target.key)
                due.resting = True
                tasks.start_soon(self._deliver, due, target)

    def _goes_on_below(self, due: Due) -> bool:
        """Tell whether something that the run's session had asked for is not over and told."""
        top = due.run.session
        session = self._directory.get(top)
        below = [] if session is None else self._directory.with_descendants([session])[1:]
        under_way = any(
            turn is not None and turn.request.delivery
            for one in below
            for turn in (one.turn, *one.inbox.waiting())
        )
        keys = {one.key for one in below}
        return under_way or any(
            other.run.session in keys and not other.pulled and not other.entry.payload.get("quiet")
            for other in self._due.values()
        )

    def _target(self, due: Due) -> Session | None:
        """Return who hears of it: the session that asked, else the nearest above that there is."""
        asked = SessionKey.parse(due.entry.address)
        line = (asked, *self._directory.line_above(asked))
        if self._directory.get(asked) is None:
            line = self._directory.line_above(due.run.session)
        found = (self._directory.get(key) for key in line)
        return next((s for s in found if s is not None and not s.closing), None)

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
            self._due.pop(due.entry.id, None)
            due.resting = False
            self._services.tidings.tell()
        elif not self._stopping:
            self._services.tidings.tell()
            await self._again(due, why, target)

    async def _attempt(self, due: Due, target: Session) -> str | None:
        """Make one attempt; return why the completion is still to be told, None if it is not."""
        due.since = due.since or self._services.clock.monotonic()
        due.tries += 1
        if not await self._services.ledger.try_outbox(due.entry.id):
            return None
        request = await self._request(due, target)
        receipt = await self._accept(request, ANNOUNCER)
        known = self._runs.turn(receipt.run_id)
        if known is not None:
            due.turn = turn = known[1]
            async with background(lambda: self._watch_time(turn, target)):
                await turn.done.wait()
        entry = await self._services.ledger.delivery(due.entry.id)
        if entry is None or entry.state != "pending":
            return None
        return "internal" if known is None else _why(known[1])

    async def _watch_time(self, turn: Turn, target: Session) -> None:
        """End an attempt that takes too long; how long it waits in the queue does not count."""
        assert turn.errand is not None
        await turn.errand.began.wait()
        await self._services.sleep(self._around.config().limits.announce_seconds)
        if not turn.errand.told:
            turn.errand.late = True
            await target.cancel_turn(turn, GRACE)

    async def _request(self, due: Due, target: Session) -> RunRequest:
        completion = await self._reporting.completion(due.run)
        python = target.definition.kind is RuntimeKind.PYTHON
        text = (protected if python else plain)(completion)
        return RunRequest(
            content=({"type": "text", "text": text},),
            session=str(target.key),
            env={} if target.env else self._around.plain_environment(),
            one_shot=target.record.one_shot,
            detached=True,
            correlation_id=due.run.correlation_id,
            provenance=_provenance(due, target, completion.runtime),
            task=f"announce {due.run.session}",
            announces=due.entry.id,
        )

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
            due.resting = False
            return
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (due.tries - 1))
        if not target.closing:
            await self._services.sleep(pause)
        due.resting = False
        self._services.tidings.tell()

    # ---- On record ----

    async def _is_claimed(self, entry_id: str) -> bool:
        if entry_id not in self._claimed:
            return False
        note = {"by": "claim", "at": self._services.now()}
        step = Settled(entry_id, ("pending",), "delivered", note)
        await self._services.ledger.settle_outbox(step)
        self._claimed.discard(entry_id)
        return True

    async def _block(self, due: Due, why: str) -> None:
        """Give up for now: a person may have it told after all."""
        await self._settle(due, "blocked", {"reason": why, "at": self._services.now()})
        self._due.pop(due.entry.id, None)
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

    async def _drop(self, entry_id: str) -> None:
        due = self._due.pop(entry_id, None)
        if due is not None and due.turn is not None:
            session = self._directory.get(due.turn.request.key)
            if session is not None:
                await session.cancel_turn(due.turn, GRACE)
        self._services.tidings.tell()


def _why(turn: Turn) -> str:
    """Return why a turn ended before its words went out."""
    if turn.errand is not None and turn.errand.late:
        return "start_timeout"
    return "cancelled" if turn.error is None else turn.error.code


def _provenance(due: Due, target: Session, runtime: str) -> dict[str, Any]:
    return {
        "kind": "inter_session",
        "sourceTool": "subagent_announce",
        "runtime": runtime,
        "sourceSessionKey": str(due.run.session),
        "targetSessionKey": str(target.key),
        "runId": due.run.run_id,
        "correlationId": due.run.correlation_id,
    }
