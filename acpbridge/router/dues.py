"""What is still to be told of runs that have ended: to whom, and whether its time has come.

The ledger has it; what is known beside that is in memory only, and a later daemon begins anew with
it. Above are those who tell; below are the ledger and the sessions that there are.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import anyio

from acpbridge.model.keys import SessionKey
from acpbridge.model.sessions import RunRecord
from acpbridge.router.directory import Directory
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.router.turns import Turn
from acpbridge.store.outbox import Settled
from acpbridge.store.records import OutboxEntry


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
        woken: whether its session was prompted since it was put off until then.
    """

    entry: OutboxEntry
    run: RunRecord
    tries: int = 0
    since: float = 0.0
    resting: bool = False
    turn: Turn | None = None
    woken: bool = False

    @property
    def pulled(self) -> bool:
        """Whether it is fetched."""
        return bool(self.entry.payload.get("pulled"))

    @property
    def quiet(self) -> bool:
        """Whether nobody is woken for it."""
        return bool(self.entry.payload.get("quiet")) and not self.woken


def put_off(due: Due, target: Session) -> bool:
    """Tell whether a session hears of a completion only once it is prompted.

    So does one that somebody has stopped, with what it had asked for; not one above it, and not
    one that works again.
    """
    working = target.turn is not None and not target.turn.cancelling
    works = working or target.inbox.expected > 0
    return due.quiet and due.entry.address == str(target.key) and not works


class Dues:
    """The completions that are still to be told.

    Args:
        directory: the sessions that there are.
        services: ledger, clock and tidings.
    """

    def __init__(self, directory: Directory, services: Services) -> None:
        self._directory = directory
        self._services = services
        self._due: dict[str, Due] = {}
        self._held: dict[str, int] = {}
        self._claimed: set[str] = set()
        self._reading = anyio.Lock()

    @property
    def busy(self) -> bool:
        """Whether somebody is to be told of something by this daemon, sooner or later."""
        return any(not (due.pulled or due.quiet) for due in self._due.values())

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

    async def all(self) -> list[Due]:
        """Return what is still to be told, the oldest first, as it is on record now.

        Raises:
            BridgeError: `store_full`.
        """
        async with self._reading:
            entries = {entry.id: entry for entry in await self._services.ledger.outbox()}
            for entry_id in self._due.keys() - entries.keys():
                if self._due[entry_id].turn is None:
                    del self._due[entry_id]
            for entry in entries.values():
                await self._add(entry)
            return list(self._due.values())

    async def _add(self, entry: OutboxEntry) -> None:
        known = self._due.get(entry.id)
        if known is not None:
            known.entry = entry
        elif not await self._is_claimed(entry.id):
            run = await self._services.ledger.run(entry.run_id)
            if run is not None and run.outcome is not None:
                self._due[entry.id] = Due(entry, run)

    def drop(self, entry_id: str) -> Due | None:
        """Forget one that is told, or that nobody is to be told of; return it if it was known."""
        return self._due.pop(entry_id, None)

    def claim_later(self, entry_id: str) -> None:
        """Have one told to nobody whose run is over, but not on record yet."""
        self._claimed.add(entry_id)

    def quiet(self) -> frozenset[str]:
        """Return the addresses at which something waits for a prompt."""
        return frozenset(due.entry.address for due in self._due.values() if due.quiet)

    def wake(self, prompted: Collection[SessionKey]) -> None:
        """Take note of sessions that go on: what was put off is to be told to them now."""
        asked = {str(key) for key in prompted}
        for due in self._due.values():
            due.woken = due.woken or due.entry.address in asked

    def ready(self, due: Due) -> bool:
        """Tell whether a completion is whole: nobody waits for it, and nothing below it goes on."""
        return due.run.run_id not in self._held and not self._goes_on_below(due)

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
            other.run.session in keys and not (other.pulled or other.quiet)
            for other in self._due.values()
        )

    def target(self, due: Due) -> Session | None:
        """Return who hears of it: the session that asked, else the nearest above that there is."""
        asked = SessionKey.parse(due.entry.address)
        line = (asked, *self._directory.line_above(asked))
        if self._directory.get(asked) is None:
            line = self._directory.line_above(due.run.session)
        found = (self._directory.get(key) for key in line)
        return next((s for s in found if s is not None and not s.closing), None)

    async def _is_claimed(self, entry_id: str) -> bool:
        if entry_id not in self._claimed:
            return False
        note = {"by": "claim", "at": self._services.now()}
        step = Settled(entry_id, ("pending",), "delivered", note)
        await self._services.ledger.settle_outbox(step)
        self._claimed.discard(entry_id)
        return True
