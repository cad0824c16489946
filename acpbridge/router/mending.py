"""The last events of turns that a daemon's crash cut off, for whoever follows their session's log.

A run's outcome is in the ledger, or put there by the next start; its event may not have come into
the log any more. Whichever daemon opens such a log first appends what is missing, as it is on
record, before anything of its own: once, for what it appends is found by the next one. Above is the
session; below are ledger and log.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from acpbridge.errors import BridgeError
from acpbridge.model.events import Event, Fact
from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import Decision, Effect, Reason
from acpbridge.model.sessions import Outcome, RunRecord
from acpbridge.router.turns import INBOX_LIMIT
from acpbridge.store.ledger import Ledger
from acpbridge.store.traces import Traces

# A run that was accepted, and of which the log has nothing at all, was in the inbox or on its way
# there. Where a log was damaged or deleted all runs look so: then no more than these are told of,
# and of a log that has no turn left only those that were never told to be over.
UNTRACED: Final = INBOX_LIMIT + 1

Missing = list[tuple[str | None, Event]]

# Says of each such event that it was written afterwards, with its time, not when it happened.
_AFTERWARDS: Final = {"recovered": True}

_NOT_DECIDED: Final = Decision(Effect.CANCEL, None, Reason.STOPPING, by="system:recovery")


async def missing_ends(key: SessionKey, traces: Traces, ledger: Ledger) -> Missing:
    """Return what the log of a session lacks, in order.

    Raises:
        BridgeError: `store_full`, when the ledger cannot be read.
    """
    if traces.closed:
        return []  # nothing comes after a session's end
    decisions = {}
    for name in traces.asked:
        record = await ledger.question(name)
        decisions[name] = None if record is None else record.decision
    return missing(traces, await ledger.runs(key), decisions)


def missing(
    traces: Traces, runs: Sequence[RunRecord], decisions: Mapping[str, Mapping[str, Any] | None]
) -> Missing:
    """Return the events that are missing: first of questions, then of turns.

    Args:
        traces: what the log has.
        runs: of the session, in the order they were accepted.
        decisions: on record for each question of `traces.asked`, None where there is none.
    """
    asked = [(name, event) for name, event in traces.asked.items()]
    return [
        *((_turn(event), _decided(name, event, decisions.get(name))) for name, event in asked),
        *((run.run_id, _end(run, traces)) for run in _endless(traces, runs)),
    ]


def _endless(traces: Traces, runs: Sequence[RunRecord]) -> list[RunRecord]:
    """Return the runs that are over and have no last event, in the order they were accepted."""
    last_seen = max((i for i, run in enumerate(runs) if run.run_id in traces.seen), default=-1)
    first = max(last_seen + 1, len(runs) - UNTRACED)
    return [
        run
        for index, run in enumerate(runs)
        if (run.run_id in traces.seen or (index >= first and _may_be_new(run, traces)))
        and run.run_id not in traces.ended
        and run.outcome is not None
    ]


def _may_be_new(run: RunRecord, traces: Traces) -> bool:
    return bool(traces.seen) or run.outcome is Outcome.INTERRUPTED


def _turn(asked: Mapping[str, Any]) -> str | None:
    turn = asked.get("turn")
    return turn if isinstance(turn, str) else None


def _decided(name: str, asked: Mapping[str, Any], decision: Mapping[str, Any] | None) -> Fact:
    subject = asked.get("subject")
    values = {
        "id": name,
        "title": asked.get("title"),
        "kind": asked.get("kind"),
        "toolCallId": subject.get("toolCallId") if isinstance(subject, Mapping) else None,
        **(decision or _NOT_DECIDED.to_json()),
        **_AFTERWARDS,
    }
    return Fact("permission_decided", values)


def _end(run: RunRecord, traces: Traces) -> Fact:
    """Return a turn's end as it is on record: what the agent said with it, nobody kept."""
    error = run.error
    if run.outcome is Outcome.INTERRUPTED:
        error = _interrupted(began=run.run_id in traces.started).to_json()
    if error is not None:
        return Fact("turn_failed", {"error": dict(error), **_AFTERWARDS})
    return Fact("turn_ended", {"stopReason": run.stop_reason, "result": {}, **_AFTERWARDS})


def _interrupted(*, began: bool) -> BridgeError:
    if began:
        return BridgeError("interrupted", "The daemon ended in the middle of this turn.")
    hint = "Nothing was done of it: send the prompt again."
    return BridgeError("interrupted", "The daemon ended before this turn began.", hint=hint)
