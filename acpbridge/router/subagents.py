"""`subagents`: what the caller started, at any depth, and what it may do with it.

Only what lies below the caller, by stored lineage, can be named. Ending goes the one way on which
everything ends here; messages go through the tool that sends messages. Above is the router.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

from acpbridge.controller.census import ProcessInfo
from acpbridge.errors import BridgeError
from acpbridge.model.requesters import Requester
from acpbridge.router.authorize import unreachable
from acpbridge.router.awaiting import Awaiting
from acpbridge.router.directory import Directory
from acpbridge.router.history import History
from acpbridge.router.look_requests import HistoryRequest, SubagentsRequest
from acpbridge.router.receipts import KillReceipt
from acpbridge.router.said import final_text
from acpbridge.router.services import Services
from acpbridge.router.surroundings import Inspector
from acpbridge.router.targets import resolve
from acpbridge.router.workload import Work, Workload, runtime_of

ALL: Final = "all"

# Of what an agent said last, in a row. Characters.
SUMMARY: Final = 300

# Rows of a list, the newest.
MOST_SHOWN: Final = 100

Dispatch = Callable[[str, Mapping[str, Any], Requester], Awaitable[dict[str, Any]]]
"""Serves a call of another tool by its name and params."""

Kill = Callable[[list[str], float | None, Requester], Awaitable[list[KillReceipt]]]
"""Ends sessions with all below them; see `RouterApi.kill`."""


class Subagents:
    """Serves the actions.

    Args:
        directory: the sessions that there are.
        services: clock, log and what takes secrets out.
        inspector: what really runs.
        home: the state directory.
        workload: the runs.
        history: what was said.
        awaiting: waits for tasks.
        kill: ends sessions.
        dispatch: calls the tool that sends messages.
    """

    def __init__(  # noqa: PLR0913 -- wired in one place, by name
        self,
        *,
        directory: Directory,
        services: Services,
        inspector: Inspector,
        home: str,
        workload: Workload,
        history: History,
        awaiting: Awaiting,
        kill: Kill,
        dispatch: Dispatch,
    ) -> None:
        self._directory = directory
        self._services = services
        self._inspector = inspector
        self._home = home
        self._workload = workload
        self._history = history
        self._kill = kill
        self._dispatch = dispatch
        self._actions: Mapping[
            str, Callable[[SubagentsRequest, Requester], Awaitable[dict[str, Any]]]
        ] = {
            "list": self._list,
            "info": self._info,
            "log": self._log,
            "kill": self._end,
            "cancel": self._cancel,
            "send": self._send,
            "steer": self._send,
            "wait": awaiting.wait,
        }

    async def serve(self, request: SubagentsRequest, requester: Requester) -> dict[str, Any]:
        """Serve one action.

        Raises:
            BridgeError: `invalid_params`; `no_such_session` for what is not below the caller;
                `ambiguous_key`; `survivors` for an end that is not complete.
        """
        request.check()
        return await self._actions[request.action](request, requester)

    async def _meant(self, request: SubagentsRequest, requester: Requester) -> Work:
        return resolve(request.target, await self._workload.tasks(requester))

    # ---- Looking ----

    async def _list(self, request: SubagentsRequest, requester: Requester) -> dict[str, Any]:
        """Return what runs below the caller, and what ended not long ago."""
        sessions = self._workload.below(requester)
        works = await self._workload.tasks(requester)
        since = self._services.clock.wall() - timedelta(minutes=request.recent_minutes)
        limit = since.isoformat(timespec="milliseconds")
        active = [work for work in works if work.outcome is None]
        recent = [work for work in works if work.outcome and (work.run.ended_at or "") >= limit]
        shown = sorted([*active, *recent], key=lambda work: work.index)[-MOST_SHOWN:]
        rows = dict(zip((w.run.run_id for w in shown), await self.run_rows(shown), strict=True))
        own = None if requester.session is None else self._directory.get(requester.session)
        key = None if requester.session is None else str(requester.session)
        return {
            "status": "ok",
            "action": "list",
            "requesterSessionKey": key,
            "callerSessionKey": key,
            "callerIsSubagent": own is not None and own.record.lineage.parent is not None,
            "total": len(sessions),
            "taskTotal": len(works),
            "tasks": [await self._task(work) for work in shown],
            "active": [rows[work.run.run_id] for work in shown if work.outcome is None],
            "recent": [rows[work.run.run_id] for work in shown if work.outcome is not None],
            "text": _in_words(shown),
        }

    async def _info(self, request: SubagentsRequest, requester: Requester) -> dict[str, Any]:
        """Return all that there is to say of one run."""
        work = await self._meant(request, requester)
        (row,) = await self.run_rows([work])
        record = work.session.record
        place = Path(self._home, "agents", record.key.agent, "sessions", "events.db")
        said = {} if work.turn is None else dict(work.turn.request.provenance)
        return {
            "status": "ok",
            "action": "info",
            "run": row,
            "task": await self._task(work),
            "createdAt": record.created_at,
            "transcriptPath": str(place),
            "cleanup": record.cleanup,
            "provenance": said,
            "requestedBy": work.run.requested_by,
            "correlationId": work.run.correlation_id,
            "usage": None if work.run.usage is None else dict(work.run.usage),
        }

    async def _log(self, request: SubagentsRequest, requester: Requester) -> dict[str, Any]:
        """Return what was said last in the session of a run."""
        work = await self._meant(request, requester)
        wanted = HistoryRequest(
            session_key=str(work.session.key),
            limit=request.limit,
            include_tools=request.include_tools,
        )
        history = await self._history.of(work.session, wanted)
        return {"status": "ok", "action": "log", "runId": work.run.run_id, **history}

    async def _task(self, work: Work) -> dict[str, Any]:
        """Return the row of a task with what its agent said last."""
        row = self._workload.task_row(work)
        try:
            await work.session.open_log()
            text = await final_text(self._services.log, work.session.key, work.run.run_id)
        except BridgeError:
            return row  # where the log cannot be read, the rest is true all the same
        which = "progressSummary" if work.outcome is None else "terminalSummary"
        return {**row, which: text[:SUMMARY] or None}

    async def run_rows(self, works: Sequence[Work]) -> list[dict[str, Any]]:
        """Return the row of each run; of external agents with what their trees take, right now."""
        now = self._services.now()
        external = {
            str(work.session.key)
            for work in works
            if work.outcome is None and runtime_of(work.session) == "acp"
        }
        trees = await self._inspector.trees(sorted(external)) if external else {}
        return [
            {**self._workload.run_row(work, now), **_taken(trees.get(str(work.session.key), []))}
            for work in works
        ]

    # ---- Ending ----

    async def _end(self, request: SubagentsRequest, requester: Requester) -> dict[str, Any]:
        """End a run, or all of them, with their whole trees."""
        works = await self._workload.tasks(requester)
        if request.target == ALL:
            below = self._workload.below(requester)
            wanted = [session for session in below if not session.closed]
        else:
            wanted = [resolve(request.target, works).session]
        if not request.cascade and request.target != ALL:
            (session,) = wanted
            if pending := self._workload.pending_below(session):
                message = f"{pending} sessions below {session.key} are active; they end with it."
                raise BridgeError("invalid_params", message, hint="Leave cascade out.")
        runs = {work.session.key: work.run.run_id for work in works}
        receipts: list[KillReceipt] = []
        if wanted:
            receipts = await self._kill([str(s.key) for s in wanted], None, requester)
        told = [
            {
                "sessionKey": None if receipt.key is None else str(receipt.key),
                "runId": None if receipt.key is None else runs.get(receipt.key),
                "killed": list(receipt.killed),
                "survivors": list(receipt.survivors),
            }
            for receipt in receipts
        ]
        stopped = [one for one in told if not one["survivors"]]
        failed = [one for one in told if one["survivors"]]
        if failed:
            message = f"{len(stopped)} sessions are ended, {len(failed)} are not: processes live."
            data = {"stopped": stopped, "failed": failed}
            raise BridgeError("survivors", message, data=data)
        return {"status": "ok", "action": "kill", "stopped": stopped, "failed": failed}

    async def _cancel(self, request: SubagentsRequest, requester: Requester) -> dict[str, Any]:
        """End one task by its id; nothing is done to one that is over."""
        task = request.task_id
        found = [w for w in await self._workload.tasks(requester) if w.run.run_id == task]
        if not found:
            raise unreachable()
        answer = {"action": "cancel", "taskId": task, "found": True}
        if found[0].outcome is not None:
            reason = f"The task is over: {found[0].outcome}."
            return {"status": "error", **answer, "cancelled": False, "reason": reason}
        receipts = await self._kill([str(found[0].session.key)], None, requester)
        left = [pid for receipt in receipts for pid in receipt.survivors]
        if left:
            reason = f"Processes are left: {left}."
            return {"status": "error", **answer, "cancelled": False, "reason": reason}
        return {"status": "cancelled", **answer, "cancelled": True}

    # ---- Speaking ----

    async def _send(self, request: SubagentsRequest, requester: Requester) -> dict[str, Any]:
        """Hand a message over to the tool that sends them."""
        work = await self._meant(request, requester)
        params: dict[str, Any] = {
            "sessionKey": str(work.session.key),
            "message": request.message,
            "mode": "followup" if request.action == "send" else "steer",
        }
        if request.action == "send":
            params["timeoutSeconds"] = int(request.timeout_seconds)
        return {"action": request.action, **await self._dispatch("tool/send", params, requester)}


def _taken(tree: Sequence[ProcessInfo]) -> dict[str, Any]:
    """Return which process the agent is, and what its whole tree takes."""
    agent = next((process for process in tree if process.role == "agent"), None)
    if agent is None:
        return {}
    return {
        "pid": agent.pid,
        "pgid": agent.pgid,
        "cpuSeconds": round(sum(process.cpu_seconds for process in tree), 2),
        "rssBytes": sum(process.rss_bytes for process in tree),
    }


def _in_words(works: Sequence[Work]) -> str:
    if not works:
        return "No sub-agent runs, and none ended lately."
    lines = []
    for work in works:
        record = work.session.record
        name = record.task_name or record.label or str(work.session.key)
        lines.append(f"{work.index}. {name}: {work.status} (run {work.run.run_id})")
    return "\n".join(lines)
