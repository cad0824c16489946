"""What the sender of a message gets to know: the results of `sessions_send`. Pure.

What went wrong before a message was sent is an error of the call; what became of the run that it
began is data.
"""

from collections.abc import Mapping
from typing import Any, Final

from acpbridge.model.sessions import Outcome
from acpbridge.router.api import RunReceipt, RunResult
from acpbridge.router.session import Session

_UNSTEERED: Final = (
    "The agent takes nothing in while a turn of it runs: the message waits for the end of that one."
)


def delivery(*, pending: bool) -> dict[str, str]:
    """Return whether anything more is to come of a message by itself."""
    return {"status": "pending" if pending else "skipped", "mode": "announce"}


def accepted(receipt: RunReceipt, *, announced: bool, steer: bool) -> dict[str, Any]:
    """Return the result while the run goes on.

    Args:
        receipt: of the run.
        announced: whether the sender hears of its end.
        steer: whether it was to go into a running turn.
    """
    return {
        "status": "accepted",
        **_of(receipt),
        "targetDisposition": "queued",
        "delivery": delivery(pending=announced),
        **({"message": _UNSTEERED} if steer else {}),
    }


def resumed(receipt: RunReceipt, task_run_id: str) -> dict[str, Any]:
    """Return the result for a paused child that goes on."""
    return {
        "status": "accepted",
        "mode": "resume",
        **_of(receipt),
        "taskRunId": task_run_id,
        "completion": "task",
    }


def under_way(receipt: RunReceipt) -> dict[str, Any]:
    """Return the result for a message that was sent before, and whose run goes on."""
    error = "This message was sent before, by the same idempotencyKey; its run is under way."
    sent = {"error": error, "errorCode": "busy", "sentBeforeError": True}
    return {"status": "error", **_of(receipt), **sent}


def noted(session: Session, note_id: str) -> dict[str, Any]:
    """Return the result for what a session is told with its next turn."""
    return {
        "status": "queued",
        "sessionKey": str(session.key),
        "notificationId": note_id,
        "durability": "process",
        "runStarted": False,
    }


def ended(
    receipt: RunReceipt, result: RunResult, text: str, *, pending: bool = False
) -> dict[str, Any]:
    """Return the result for a run that has ended.

    Args:
        receipt: of the run.
        result: of it.
        text: the last that its agent said.
        pending: whether the two go on to speak of it.
    """
    if result.outcome is Outcome.CANCELLED:
        return {"status": "cancelled", **_of(receipt)}
    if result.outcome is not Outcome.COMPLETED:
        return {**_failed(result), **_of(receipt), "sentBeforeError": True}
    if not text.strip():
        message = "The turn ended, and nothing visible was said in it."
        return {"status": "no_reply", **_of(receipt), "message": message}
    return {"status": "ok", **_of(receipt), "reply": text, "delivery": delivery(pending=pending)}


def _of(receipt: RunReceipt) -> dict[str, str]:
    return {"runId": receipt.run_id, "sessionKey": str(receipt.key)}


def _failed(result: RunResult) -> dict[str, Any]:
    error: Mapping[str, Any] = result.error or {}
    message = error.get("message") or f"The turn ended: {result.stop_reason or result.outcome}."
    if result.outcome is Outcome.TIMED_OUT:
        return {"status": "timeout", "error": message}
    return {"status": "error", "error": message, "errorCode": error.get("code", "turn_failed")}
