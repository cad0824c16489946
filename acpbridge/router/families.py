"""`acpbridge tree` and `acpbridge runs`: families of sessions, and runs with what became of them.

Above is the router. The rows are those of `sessions`, from the one projection, with a few fields
beside; whoever asks sees of them what it may see.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester
from acpbridge.model.sessions import RunRecord
from acpbridge.router.authorize import Action
from acpbridge.router.directory import Directory
from acpbridge.router.look_requests import RunsRequest, TreeRequest
from acpbridge.router.looking import Looking
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.router.workload import Work, Workload

# Without `--all` runs are listed that are under way or ended in the last day. Hours.
RECENT: Final = 24


class Families:
    """Shows families and runs.

    Args:
        directory: the sessions that there are.
        looking: the one projection of their state.
        services: the ledger, and the clock.
        workload: the runs.
    """

    def __init__(
        self, directory: Directory, looking: Looking, services: Services, workload: Workload
    ) -> None:
        self._directory = directory
        self._looking = looking
        self._services = services
        self._workload = workload

    async def tree(self, request: TreeRequest, requester: Requester) -> dict[str, Any]:
        """Return families as nested rows; the family that began last comes last.

        Raises:
            BridgeError: `no_such_session`, `ambiguous_key`.
        """
        visible = {s.key: s for s in self._directory.visible(requester)}
        if request.key:
            tops = [self._directory.find(request.key, requester, Action.SEE)]
        else:
            tops = [s for s in visible.values() if s.record.lineage.parent not in visible]
        families = [
            [s for s in self._directory.with_descendants([top]) if s.key in visible] for top in tops
        ]
        if not request.all and not request.key:
            families = [family for family in families if any(s.active for s in family)]
        families.sort(key=lambda family: family[0].record.created_at)
        shown = [session for family in families for session in family]
        rows = dict(zip((s.key for s in shown), self._looking.rows(shown, requester), strict=True))
        latest = await self._services.ledger.latest_runs(rows)
        return {"families": [self._node(family[0], rows, latest) for family in families]}

    def _node(
        self,
        session: Session,
        rows: Mapping[SessionKey, dict[str, Any]],
        latest: Mapping[SessionKey, RunRecord],
    ) -> dict[str, Any]:
        run = latest.get(session.key)
        work = None if run is None else Work(0, session, run, self._workload.turn(run.run_id))
        record = session.record
        return {
            **rows[session.key],
            "label": record.label or None,
            "taskName": record.task_name or None,
            "depth": record.lineage.depth,
            "runStatus": None if work is None else work.status,
            "children": [
                self._node(child, rows, latest)
                for child in self._directory.children(session.key)
                if child.key in rows
            ],
        }

    async def runs(self, request: RunsRequest, requester: Requester) -> dict[str, Any]:
        """Return runs, the one accepted last comes last.

        Raises:
            BridgeError: `no_such_session`, `ambiguous_key`.
        """
        if request.key:
            top = self._directory.find(request.key, requester, Action.SEE)
            below = {session.key for session in self._directory.with_descendants([top])}
            sessions = [s for s in self._directory.visible(requester) if s.key in below]
        else:
            sessions = self._directory.visible(requester)
        since = ""
        if not request.all and not request.key:
            day = self._services.clock.wall() - timedelta(hours=RECENT)
            since = day.isoformat(timespec="milliseconds")
        works = await self._workload.of(sessions, since=since, newest=request.newest)
        now = self._services.now()
        return {"runs": [self._run(work, now, requester) for work in works]}

    def _run(self, work: Work, now: str, requester: Requester) -> dict[str, Any]:
        row = self._workload.run_row(work, now)
        del row["index"]  # it counts what was looked at here, and means nothing elsewhere
        task = self._workload.task_row(work)
        parent = work.session.record.lineage.parent
        stop = work.run.stop_reason if work.turn is None else work.turn.stop_reason
        return {
            **row,
            "outcome": task["terminalOutcome"],
            "stopReason": stop,
            "error": task["error"],
            "requestedBy": work.run.requested_by,
            # Of a parent that it may not see, nobody learns the key.
            "parentSessionKey": None
            if parent is None or not self._directory.may(Action.SEE, requester, parent)
            else str(parent),
            "correlationId": work.run.correlation_id,
        }
