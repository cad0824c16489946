"""Deletes sessions: those that a person gives up, and those that are older than is kept.

Only what has no process, nothing to do and nothing alive below it is ever deleted. Its events go
first, then its record with its runs and questions, so that what a crash leaves is found again.
"""

from collections.abc import Awaitable, Callable, Iterable
from datetime import UTC, datetime
from itertools import count
from typing import Final

import anyio
import structlog

from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester, Role
from acpbridge.model.sessions import SessionRecord
from acpbridge.permissions.audit import Audit
from acpbridge.router.authorize import Action, Target, authorize
from acpbridge.router.directory import Directory
from acpbridge.router.receipts import Pruned, PruneRequest
from acpbridge.router.retention import Candidate, believed, beyond, chosen
from acpbridge.router.runs import Runs
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.router.surroundings import Surroundings

log = structlog.get_logger(__name__)

# The bound of the store is looked at so often, ages once in a day. Seconds.
HOUR: Final = 3600.0

# Sessions that are deleted from the ledger, and told to the audit, at once.
BATCH: Final = 100

_RETENTION: Final = Requester(Role.SYSTEM, client_id="retention")


class Keeping:
    """Deletes sessions.

    Args:
        directory: the sessions that there are.
        runs: what is known of their runs.
        services: ledger, log and clock.
        audit: has who deleted what.
        around: how long they are kept.
        make: makes a session of a record that could not be deleted after all.
    """

    def __init__(
        self,
        directory: Directory,
        runs: Runs,
        services: Services,
        audit: Audit,
        around: Surroundings,
        make: Callable[[SessionRecord, AgentDefinition], Session],
    ) -> None:
        self._directory = directory
        self._runs = runs
        self._services = services
        self._audit = audit
        self._around = around
        self._make = make
        self._one = anyio.Lock()

    async def prune(self, request: PruneRequest, requester: Requester) -> list[Pruned]:
        """Delete what a request means; see `RouterApi.prune`."""
        authorize(Action.PRUNE, requester, Target())
        async with self._one:
            found = chosen(await self._candidates(), request, self._services.clock.wall())
            return await self._delete(found, requester, dry_run=request.dry_run)

    async def watch(self) -> None:
        """Delete what is older than is kept, or more, from the start on: a task."""
        for hour in count():
            if hour % 24 == 0:
                await self._attempt(self._keep_days)
            await self._attempt(self._keep_bound)
            await anyio.sleep(HOUR)

    async def _attempt(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except BridgeError as error:
            log.warning("old sessions could not be deleted", code=error.code)
        except Exception:
            # The top of a task.
            log.exception("old sessions could not be deleted")

    async def _keep_days(self) -> None:
        days = self._around.config().limits.retention_days
        authorize(Action.PRUNE, _RETENTION, Target())
        async with self._one:
            now = self._services.clock.wall()
            # Nobody looks at what is deleted here: a clock that jumped must not delete anything.
            made = [session.record.created_at for session in self._directory]
            used = [*await self._services.ledger.days_used(), *made]
            by = believed(now, map(_moment, used))
            if by != now:
                log.warning("the clock may have jumped; less counts as old", days=(now - by).days)
            request = PruneRequest(older_than=days * 24 * HOUR)
            await self._delete(chosen(await self._candidates(), request, by), _RETENTION)

    async def _keep_bound(self) -> None:
        bound = self._around.config().limits.max_store_mb
        if bound is None:
            return
        async with self._one:
            surplus = await self._services.log.bytes_on_disk() - bound * 1024**2
            if surplus <= 0:
                return
            candidates = await self._candidates()
            sizes: dict[str, int] = {}
            for agent in {candidate.key.agent for candidate in candidates}:
                sizes |= await self._services.log.sizes(agent)
            await self._delete(beyond(candidates, sizes, surplus), _RETENTION)

    # ---- What may be deleted ----

    async def _candidates(self) -> list[Candidate]:
        if not self._idle():
            return []
        used = await self._services.ledger.last_used()
        unfinished = await self._services.ledger.unfinished()
        return [
            Candidate(s.key, s.record.state, _moment(used.get(str(s.key)) or s.record.created_at))
            for s in self._idle().values()
            if str(s.key) not in unfinished
        ]

    def _idle(self) -> dict[SessionKey, Session]:
        """Return what may go, now; what lives below a session is found only by its key."""
        above = self._directory.above_active()
        agents = self._around.config().agents

        def goes(session: Session) -> bool:
            # A main session stays with its agent; one that was ended makes way for another.
            main = session.key.kind == "main" and session.key.agent in agents
            return session.at_rest and session.key not in above and (session.closed or not main)

        return {session.key: session for session in self._directory if goes(session)}

    # ---- Deleting ----

    async def _delete(
        self, found: list[Candidate], requester: Requester, *, dry_run: bool = False
    ) -> list[Pruned]:
        out: list[Pruned] = []
        try:
            for start in range(0, len(found), BATCH):
                # It may have been taken up since it was chosen; from here on nothing is awaited.
                idle = self._idle()
                batch = [c for c in found[start : start + BATCH] if c.key in idle]
                if not dry_run:
                    await self._delete_batch([idle[c.key] for c in batch], requester)
                out += [_pruned(candidate, idle[candidate.key]) for candidate in batch]
        finally:
            if out and not dry_run:
                await self._reclaim(out)
        return out

    async def _delete_batch(self, sessions: list[Session], requester: Requester) -> None:
        if not sessions:
            return
        for session in sessions:
            session.retire()
            self._directory.drop(session)
        keys = [session.key for session in sessions]
        try:
            for key in keys:
                await self._services.log.forget(key)
            await self._services.ledger.forget(keys)
            self._runs.forget(set(keys))
            for key in keys:
                self._services.log.drop(key)
        except BaseException:
            for session in sessions:
                self._directory.add(self._make(session.record, session.definition))
            raise
        log.info("sessions deleted", number=len(keys), by=requester.label())
        await self._note(keys, requester)

    async def _note(self, keys: Iterable[object], requester: Requester) -> None:
        values = {"by": requester.label(), "pid": requester.pid, "sessions": list(map(str, keys))}
        try:
            await self._audit.note("prune", values)
        except BridgeError as error:
            log.warning("the audit was not told", kind="prune", code=error.code)

    async def _reclaim(self, pruned: list[Pruned]) -> None:
        try:
            for agent in {one.key.agent for one in pruned}:
                await self._services.log.reclaim(agent)
        except BridgeError as error:
            log.warning("space could not be given back yet", code=error.code)


def _moment(text: str) -> datetime:
    """Return a moment on record; one that cannot be read is never long ago."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return datetime.max.replace(tzinfo=UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _pruned(candidate: Candidate, session: Session) -> Pruned:
    record = session.record
    at = candidate.last_used.isoformat(timespec="milliseconds")
    return Pruned(record.key, candidate.state, record.cwd, record.created_at, at)
