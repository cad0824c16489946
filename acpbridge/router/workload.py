"""What runs there are in which sessions, and how each is told: the rows of runs and of tasks.

Above are the tools that look; below are the ledger, which has every run that was accepted, and the
turns of those that this daemon has under way. A row holds nothing that its session's own row does
not say, but it says it of one run.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from acpbridge.model.requesters import Requester
from acpbridge.model.sessions import Outcome, RunRecord, TurnState
from acpbridge.router.announce import ANNOUNCER
from acpbridge.router.authorize import Action
from acpbridge.router.directory import Directory
from acpbridge.router.runs import Runs
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.router.telling import runtime_word
from acpbridge.router.turns import Turn

# Runs that one look goes through, the ones accepted last.
MOST: Final = 1000

# How a run is told that is not over. Any other status is an outcome.
QUEUED: Final = "queued"
RUNNING: Final = "running"
BLOCKED: Final = "blocked"  # only a person can bring it on

NO_DELIVERY: Final = "not_required"


@dataclass(frozen=True, slots=True)
class Work:
    """One run, where it runs, and its turn while this daemon has it under way.

    Attributes:
        index: its number among those that were looked at, from 1, in the order of acceptance.
        session: in which it runs, or ran.
        run: its record.
        turn: None once its outcome is on record.
        delivery: how far its completion has come: `pending`, `sent`, `delivered`, `blocked`,
            `dismissed`, or that none is due.
    """

    index: int
    session: Session
    run: RunRecord
    turn: Turn | None = None
    delivery: str = NO_DELIVERY

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; None while it is under way."""
        if self.turn is not None and self.turn.outcome is not None:
            return self.turn.outcome
        return self.run.outcome

    @property
    def over(self) -> bool:
        """Whether its end is on record, so that whoever hears of it can rely on it."""
        return self.outcome is not None and (self.turn is None or self.turn.done.is_set())

    @property
    def status(self) -> str:
        """Where it stands, in one word."""
        if self.outcome is not None:
            return self.outcome
        if self.turn is None or self.turn.state is TurnState.QUEUED:
            return QUEUED
        return BLOCKED if self.turn.open_questions else RUNNING


class Workload:
    """Looks at runs.

    Args:
        directory: the sessions that there are.
        runs: those under way.
        services: the ledger, the clock and what takes secrets out.
    """

    def __init__(self, directory: Directory, runs: Runs, services: Services) -> None:
        self._directory = directory
        self._runs = runs
        self._services = services

    def below(self, requester: Requester) -> list[Session]:
        """Return what lies below who asks; below nobody, everything that somebody started.

        From stored lineage alone: nothing that anybody says of himself has a part in it.
        """
        if requester.session is not None:
            top = self._directory.get(requester.session)
            found = [] if top is None else self._directory.with_descendants([top])[1:]
            return [s for s in found if self._directory.may(Action.SEE, requester, s.key)]
        visible = self._directory.visible(requester)
        return [session for session in visible if session.record.lineage.parent is not None]

    async def tasks(self, requester: Requester) -> list[Work]:
        """Return the runs below who asks, numbered in the order they were accepted.

        A turn in which a session is told of the end of another one is nobody's task.
        """
        works = await self.of(self.below(requester))
        asked = (work for work in works if work.run.requested_by != ANNOUNCER.label())
        return [replace(work, index=index) for index, work in enumerate(asked, 1)]

    async def of(
        self, sessions: Iterable[Session], *, since: str = "", newest: int = MOST
    ) -> list[Work]:
        """Return the runs of sessions, in the order they were accepted; see `Ledger.runs_of`."""
        by_key = {session.key: session for session in sessions}
        ledger = self._services.ledger
        runs = await ledger.runs_of(by_key, since=since, newest=newest)
        deliveries = await ledger.delivery_states(run.run_id for run in runs)
        return [
            Work(
                index,
                by_key[run.session],
                run,
                self.turn(run.run_id),
                deliveries.get(run.run_id, NO_DELIVERY),
            )
            for index, run in enumerate(runs, 1)
        ]

    def turn(self, run_id: str) -> Turn | None:
        """Return the turn of a run that is under way here, None for one of long ago."""
        known = self._runs.turn(run_id)
        return None if known is None else known[1]

    # ---- Rows ----

    def task_row(self, work: Work) -> dict[str, Any]:
        """Return the row of a task: what it is, where it stands, what it waits for."""
        over = work.outcome is not None
        return {
            "taskId": work.run.run_id,
            "sessionKey": str(work.session.key),
            "taskName": work.session.record.task_name or None,
            "runtime": runtime_of(work.session),
            "status": work.status,
            "deliveryStatus": work.delivery,
            "execution": self._execution(work),
            "label": work.session.record.label or None,
            "progressSummary": None,
            "terminalSummary": None,
            "terminalOutcome": work.outcome if over else None,
            "error": self._error(work),
        }

    def run_row(self, work: Work, now: str) -> dict[str, Any]:
        """Return the row of a run, without its processes: they take a look at the kernel."""
        started = work.run.started_at if work.turn is None else work.turn.started_at
        record = work.session.record
        model = record.settings.model or work.session.definition.settings.model
        return {
            "index": work.index,
            "runId": work.run.run_id,
            "sessionKey": str(work.session.key),
            "taskName": record.task_name or None,
            "label": record.label or None,
            "task": work.run.task or None,
            "status": work.status,
            "deliveryStatus": work.delivery,
            "pendingDescendants": self.pending_below(work.session),
            "runtime": runtime_of(work.session),
            "runtimeMs": _milliseconds(started, work.run.ended_at or now),
            "model": self._services.redact(model),
            "totalTokens": total_tokens(work.run.usage),
            "acceptedAt": work.run.accepted_at,
            "startedAt": started,
            "endedAt": work.run.ended_at,
        }

    def pending_below(self, session: Session) -> int:
        """Return in how many sessions below one there is still something to do."""
        return sum(one.active for one in self._directory.with_descendants([session])[1:])

    def _execution(self, work: Work) -> dict[str, Any]:
        """Return what a run waits for, if it is anything but its own agent."""
        turn = work.turn
        if turn is None or work.outcome is not None or work.session.turn is not turn:
            return {}
        if turn.open_questions:
            return {"wait": {"kind": "approval"}}
        return {"wait": {"kind": "children"}} if self._directory.asked_by(work.session) else {}

    def _error(self, work: Work) -> dict[str, Any] | None:
        if work.turn is not None and work.turn.error is not None:
            error: Mapping[str, Any] = self._services.clean(work.turn.error).to_json()
        elif work.run.error is not None:
            error = work.run.error
        else:
            return None
        return {"code": error.get("code"), "message": error.get("message")}


def runtime_of(session: Session) -> str:
    """Return what runs a session: `acp`, or `subagent` for an agent of the house."""
    return runtime_word(session.record.runtime)


def names(works: Sequence[Work]) -> str:
    """Return runs as candidates for somebody who has to choose."""
    return ", ".join(f"{work.run.run_id} ({work.session.key}, {work.status})" for work in works)


def total_tokens(usage: Mapping[str, Any] | None) -> int | None:
    """Return how many tokens an agent said that a run took; None: it did not say."""
    known = usage or {}
    total = known.get("totalTokens")
    if type(total) is int:
        return total
    parts = [known.get("inputTokens"), known.get("outputTokens")]
    counted = [count for count in parts if type(count) is int]
    return sum(counted) if counted else None


def _milliseconds(since: str | None, until: str) -> int | None:
    if since is None:
        return None
    span = datetime.fromisoformat(until) - datetime.fromisoformat(since)
    return max(0, round(span.total_seconds() * 1000))
