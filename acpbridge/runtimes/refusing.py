"""What an agent is told of a call that was not allowed: that nothing was done, and why.

Above are the calls that we serve to agents; below is the decision.
"""

from collections.abc import Mapping
from typing import Final

from acpbridge.errors import BridgeError
from acpbridge.model.permission import Decision, Effect, Reason

_WHY: Final[Mapping[Reason, str]] = {
    Reason.RULE: "a rule denies it",
    Reason.OPERATOR: "the user said no",
    Reason.DEADLINE: "nobody answered in time",
    Reason.AUDIT_FAILED: "it could not be recorded",
    Reason.FLOOD: "too many questions are open",
    Reason.JUDGE_FAILED: "it could not be judged",
    Reason.GRANT_ENDED: "what had allowed it is over",
}


def not_allowed(what: str, decision: Decision, *, cancelled: bool) -> BridgeError:
    """Return the error that answers a call which was denied, or whose turn was cancelled.

    Args:
        what: would have been done.
        decision: of it.
        cancelled: whether the turn was cancelled since, whatever was decided.
    """
    if cancelled or decision.effect is Effect.CANCEL:
        return BridgeError("request_cancelled", f"Cancelled, and not done: {what}.")
    why = _WHY.get(decision.reason, "it was not allowed")
    if decision.reason is Reason.RULE and decision.by:
        why += f" ({decision.by})"
    said = f" They say: {decision.note}" if decision.note else ""
    return BridgeError(
        "permission_denied",
        f"Not allowed, and not done: {what}: {why}.{said}",
        hint="Go on without it, or ask the user.",
    )
