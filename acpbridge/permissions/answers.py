"""What a person's answer to a question comes to. Pure; the broker above has it recorded."""

from acpbridge.model.permission import Decision, Effect, PermissionRequest, Reason
from acpbridge.model.requesters import Requester
from acpbridge.permissions import policy


def answered(
    request: PermissionRequest,
    requester: Requester,
    option_id: str | None,
    effect: Effect | None,
    note: str,
) -> Decision:
    """Return the decision that a person's answer comes to.

    Args:
        request: what was asked.
        requester: who answers.
        option_id: the exact id of an offered option, or None.
        effect: what is wanted where no option is named; exactly one of the two is given.
        note: the person's words.

    Raises:
        BridgeError: `invalid_option`; the question stays open.
    """
    ask, by = request.ask, requester.label()
    if (option_id is None) == (effect is None):
        raise policy.invalid_option(ask, "Answer with either an option or an effect.")
    if option_id is not None:
        option = policy.pick(ask, option_id, allow_bypass=request.allow_bypass)
        effect = policy.effect_of(option)
        return Decision(effect, option.option_id, Reason.OPERATOR, by, note)
    if effect is Effect.DENY:
        return policy.denial(ask, Reason.OPERATOR, by=by, note=note)
    if effect is Effect.CANCEL:
        return policy.cancellation(Reason.OPERATOR, by=by, note=note)
    allow = policy.the_allow_once(ask)
    if allow is None:
        raise policy.invalid_option(ask, "There is not exactly one option that allows once.")
    return Decision(Effect.ALLOW, allow.option_id, Reason.OPERATOR, by, note)
