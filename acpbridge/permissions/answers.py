"""What a person's answer to a question comes to. Pure; the broker above has it recorded."""

import shlex
from dataclasses import dataclass

from acpbridge.errors import BridgeError
from acpbridge.model.display import escape
from acpbridge.model.permission import (
    Decision,
    Effect,
    Lasts,
    Option,
    OptionKind,
    PermissionRequest,
    Question,
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


def answered(question: Question, requester: Requester, answer: Answer) -> Decision:
    """Return the decision that a person's answer comes to.

    Raises:
        BridgeError: `invalid_option`, or `confirmation_needed`; the question stays open.
    """
    request = question.request
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
        sent = policy.pick(
            ask,
            answer.option_id,
            allow_bypass=request.allow_bypass,
            forward_always=request.forward_always,
        )
        chosen = next(o for o in ask.options if o.option_id == answer.option_id)
    if chosen is None or sent is None:
        raise policy.invalid_option(ask, "There is not exactly one option that allows once.")
    _check_confirmed(request, chosen, answer.confirm)
    lasts = _lasts(question, chosen, sent)
    return Decision(policy.effect_of(sent), sent.option_id, Reason.OPERATOR, by, answer.note, lasts)


def always(request: PermissionRequest, *, granted: bool) -> Lasts | None:
    """Return how long a picked `allow_always` would hold; None if none is offered.

    Args:
        request: what is asked.
        granted: whether a grant would be made for it.
    """
    if all(option.kind is not OptionKind.ALLOW_ALWAYS for option in request.ask.options):
        return None
    if request.forward_always or policy.the_allow_once(request.ask) is None:
        return Lasts.AGENT
    return Lasts.SESSION if granted else Lasts.ONCE


def _lasts(question: Question, chosen: Option, sent: Option) -> Lasts:
    if sent.kind in (OptionKind.ALLOW_ALWAYS, OptionKind.REJECT_ALWAYS):
        return Lasts.AGENT
    if chosen.kind is not OptionKind.ALLOW_ALWAYS or policy.names_mode(chosen.option_id):
        return Lasts.ONCE
    return Lasts.ONCE if question.grant is None else Lasts.SESSION


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
