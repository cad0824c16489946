"""What a person's answer to a question comes to. Pure; the broker above has it recorded."""

import shlex
from dataclasses import dataclass

from acpbridge.errors import BridgeError
from acpbridge.model.display import escape
from acpbridge.model.permission import (
    Decision,
    Effect,
    Option,
    OptionKind,
    PermissionRequest,
    Reason,
    ToolKind,
)
from acpbridge.model.requesters import Requester
from acpbridge.permissions import policy
from acpbridge.permissions.confirming import doubt


@dataclass(frozen=True, slots=True)
class Answer:
    """What a person says to a question.

    Attributes:
        option_id: the exact id of an offered option, or None.
        effect: what is wanted where no option is named; exactly one of the two is given.
        note: the person's words.
        confirm: the option's id once more, where the choice is doubtful.
    """

    option_id: str | None = None
    effect: Effect | None = None
    note: str = ""
    confirm: str | None = None


def answered(request: PermissionRequest, requester: Requester, answer: Answer) -> Decision:
    """Return the decision that a person's answer comes to.

    Raises:
        BridgeError: `invalid_option`, or `confirmation_needed`; the question stays open.
    """
    ask, by = request.ask, requester.label()
    if (answer.option_id is None) == (answer.effect is None):
        raise policy.invalid_option(ask, "Answer with either an option or an effect.")
    if answer.effect is Effect.DENY:
        return policy.denial(ask, Reason.OPERATOR, by=by, note=answer.note)
    if answer.effect is Effect.CANCEL:
        return policy.cancellation(Reason.OPERATOR, by=by, note=answer.note)
    if answer.option_id is None:
        chosen = sent = policy.the_allow_once(ask)
    else:
        sent = policy.pick(ask, answer.option_id, allow_bypass=request.allow_bypass)
        chosen = next(o for o in ask.options if o.option_id == answer.option_id)
    if chosen is None or sent is None:
        raise policy.invalid_option(ask, "There is not exactly one option that allows once.")
    _check_confirmed(request, chosen, answer.confirm)
    return Decision(policy.effect_of(sent), sent.option_id, Reason.OPERATOR, by, answer.note)


def _check_confirmed(request: PermissionRequest, chosen: Option, confirm: str | None) -> None:
    """Have a doubtful choice said twice (rows 4 and 27)."""
    subject = request.ask.subject
    # A kind that is unknown to us stays so, even if the agent's word for it is one that is known.
    kind = "" if chosen.kind is OptionKind.UNKNOWN else chosen.kind
    why = doubt(chosen.option_id, kind, switches=subject.kind is ToolKind.SWITCH_MODE)
    if not why or confirm == chosen.option_id:
        return
    # To be copied to a shell, and the agent chose it.
    shown = shlex.quote(escape(chosen.option_id))
    raise BridgeError(
        "confirmation_needed",
        f"Not answered: {why}.",
        hint=f"If it is meant, name the option once more: --confirm {shown}",
        data={"optionId": chosen.option_id, "reason": why},
    )
