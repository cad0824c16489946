"""What became of questions that are settled, for those who come too late (G21). Pure."""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from acpbridge.errors import BridgeError
from acpbridge.model.permission import Decision, Reason

# So many are remembered, to say by whom and when to one who comes too late.
REMEMBERED: Final = 1024

# Somebody said something; everything else is a question whose time was over.
_DECIDED: Final = frozenset({Reason.OPERATOR, Reason.RULE})


@dataclass(frozen=True, slots=True)
class _End:
    decision: Decision
    at: str


class Settled:
    """The latest questions that are settled."""

    def __init__(self) -> None:
        self._ends: OrderedDict[str, _End] = OrderedDict()

    def remember(self, question: str, decision: Decision, at: str) -> None:
        """Take note of what a question came to, and forget the oldest one if there are too many."""
        self._ends[question] = _End(decision, at)
        while len(self._ends) > REMEMBERED:
            self._ends.popitem(last=False)

    def gone(self, question: str) -> BridgeError:
        """Return the error for an answer to a question that is not open."""
        end = self._ends.get(question)
        if end is None:
            return BridgeError("no_such_question", f"There is no question {question!r}.")
        return too_late(question, end.decision, end.at)


def too_late(question: str, decision: Decision, at: str) -> BridgeError:
    """Return `already_resolved`, which says who was first and when, or what it expired of."""
    by = decision.by or str(decision.reason)
    if decision.reason in _DECIDED:
        message = f"Question {question} is already decided by {by} at {at}: {decision.effect}."
    else:
        message = f"Question {question} has expired: {by} at {at}: {decision.effect}."
    data = {
        "by": by,
        "at": at,
        "effect": decision.effect,
        "reason": decision.reason,
        "expired": decision.reason not in _DECIDED,
    }
    return BridgeError("already_resolved", message, data=data)
