"""`sessions_list`: the sessions that a requester may see, chosen, a page at a time.

Above is the router. What a row says of a session's state is taken from the one projection that
`status` and `sessions` show; beside it stand names, lineage and how its last run went.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

from acpbridge.config.snapshot import Config
from acpbridge.errors import BridgeError
from acpbridge.model.keys import agent_id
from acpbridge.model.requesters import Requester, Role
from acpbridge.router.authorize import Action
from acpbridge.router.directory import Directory
from acpbridge.router.finding import channel_of, kind_of, session_id
from acpbridge.router.history import size_of
from acpbridge.router.look_requests import MOST_LISTED, SessionsRequest
from acpbridge.router.looking import Looking
from acpbridge.router.reading import Reading
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.router.workload import Work, Workload, total_tokens

# All rows of one answer, as JSON; an agent's line to the daemon is not longer either. Bytes.
SIZE: Final = 256 * 1024

# What of the projection is a row of this list too, under the same name and with the same value.
SHARED: Final = ("state", "turn", "queueDepth", "pendingPermissions", "questions", "questionsBelow")


class Listing:
    """Lists sessions for tools.

    Args:
        directory: the sessions that there are.
        looking: the one projection of their state.
        services: the ledger, and the clock.
        reading: reads the logs.
        workload: how runs are told.
        config: the configuration in force.
    """

    def __init__(
        self,
        directory: Directory,
        looking: Looking,
        services: Services,
        reading: Reading,
        workload: Workload,
        config: Callable[[], Config],
    ) -> None:
        self._directory = directory
        self._looking = looking
        self._services = services
        self._reading = reading
        self._workload = workload
        self._config = config

    async def sessions(self, request: SessionsRequest, requester: Requester) -> dict[str, Any]:
        """Return a page of rows, the sessions made last first."""
        of = agent_id(request.agent_id) if request.agent_id else ""
        visible = self._directory.visible(requester)
        found = [s for s in visible if of in ("", s.key.agent) and _fits(s, request)]
        if request.active_minutes is not None:
            found = await self._used_within(found, request.active_minutes)
        found.sort(key=lambda session: session.record.created_at)
        found.reverse()  # of those made in the same moment, too, the one made last comes first
        limit = min(request.limit, MOST_LISTED)
        wanted = found[request.offset : request.offset + limit]
        rows: list[dict[str, Any]] = []
        size = 0
        for row in await self.rows(wanted, requester, request.message_limit):
            size += size_of([row])
            if rows and size > SIZE:
                break
            rows.append(row)
        after = request.offset + len(rows)
        more = after < len(found)
        return {
            "count": len(rows),
            "sessions": rows,
            "hasMore": more,
            **({"nextOffset": after} if more else {}),
            "limitApplied": limit,
            **({"truncationReason": "byte-limit"} if len(rows) < len(wanted) else {}),
            **self._restricted(requester),
        }

    async def rows(
        self, sessions: list[Session], requester: Requester, messages: int = 0
    ) -> list[dict[str, Any]]:
        """Return the row of each session."""
        latest = await self._services.ledger.latest_runs(session.key for session in sessions)
        out = []
        for session, shown in zip(sessions, self._looking.rows(sessions, requester), strict=True):
            run = latest.get(session.key)
            work = None if run is None else Work(0, session, run, self._workload.turn(run.run_id))
            row = self._row(session, shown, work, requester)
            # Of one that nobody used there is no log, and none is made for a look.
            used = run is not None or row["childSessions"] or self._services.log.knows(session.key)
            row["stateVersion"] = await self.version(session) if used else 0
            if messages:
                said = await self._reading.last_messages(session, messages) if used else ([], False)
                row["messages"] = [message.to_json() for message in said[0][-messages:]]
            out.append(row)
        return out

    async def version(self, session: Session) -> int | None:
        """Return the number of a session's newest event; None where its log cannot be read."""
        try:
            return await session.open_log()
        except BridgeError:
            return None

    def _row(
        self, session: Session, shown: dict[str, Any], work: Work | None, requester: Requester
    ) -> dict[str, Any]:
        record, key = session.record, session.key
        parent = record.lineage.parent
        children = [
            str(child.key)
            for child in self._directory.children(key)
            if self._directory.may(Action.SEE, requester, child.key)
        ]
        model = record.settings.model or session.definition.settings.model
        return {
            "key": str(key),
            "sessionId": session_id(key),
            "agentId": key.agent,
            "kind": kind_of(key),
            "channel": channel_of(key),
            "label": record.label or None,
            "taskName": record.task_name or None,
            "runtime": record.runtime,
            # Of a parent that it may not see, nobody learns the key.
            "parentSessionKey": None
            if parent is None or not self._directory.may(Action.SEE, requester, parent)
            else str(parent),
            "spawnDepth": record.lineage.depth,
            "childSessions": children,
            "createdAt": record.created_at,
            "model": self._services.redact(model),
            "totalTokens": None if work is None else total_tokens(work.run.usage),
            "runStatus": None if work is None else work.status,
            "lastRunId": None if work is None else work.run.run_id,
            "endedAt": None if work is None else work.run.ended_at,
            **{name: shown[name] for name in SHARED},
        }

    def _restricted(self, requester: Requester) -> dict[str, Any]:
        """Return that a requester does not see all there is, and what could be changed for it."""
        if requester.role is not Role.AGENT:
            return {}
        mode = self._config().tools.sessions.visibility
        warning = (
            f"Listed is what this session may see: tools.sessions.visibility is {mode}, and between"
            " agents tools.agentToAgent decides. The user can change both in config.yaml."
        )
        return {"visibility": {"mode": mode, "restricted": True, "warning": warning}}

    async def _used_within(self, sessions: list[Session], minutes: float) -> list[Session]:
        used = await self._services.ledger.last_used()
        since = (self._services.clock.wall() - timedelta(minutes=minutes)).isoformat(
            timespec="milliseconds"
        )
        return [
            session
            for session in sessions
            if session.active or used.get(str(session.key), session.record.created_at) >= since
        ]


def _fits(session: Session, request: SessionsRequest) -> bool:
    record, key = session.record, session.key
    if request.archived != "all" and session.closed is not request.archived:
        return False
    if request.active_only and not session.active:
        return False
    if request.exclude_subagents and record.lineage.parent is not None:
        return False
    if request.kinds and kind_of(key) not in request.kinds:
        return False
    if request.label and record.label != request.label:
        return False
    words = request.search.casefold()
    return not words or any(
        words in text.casefold() for text in (str(key), record.label, record.task_name)
    )
