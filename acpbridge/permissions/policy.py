"""What may be answered to a permission request: pure rules, no clock, no I/O.

`judge` says what the rules want, `choose` what that comes to with the options that were offered,
`pick` what a person's choice comes to. Whatever is doubtful goes to a person, whatever is
malformed is refused, and nothing here ever selects an option that lasts.
"""

import re
from collections import Counter
from dataclasses import dataclass
from typing import Final

from acpbridge.errors import BridgeError
from acpbridge.model.display import escape, hides
from acpbridge.model.permission import (
    Decision,
    Effect,
    OnPermission,
    Option,
    OptionKind,
    PermissionAsk,
    PermissionRequest,
    Reason,
    ToolKind,
)
from acpbridge.permissions.verdict import Ruling, Verdict

# An id or a name is a word or a sentence; what is longer is there to hide something.
LONGEST_WORD: Final = 256

# Modes in which nobody is asked any more, and those in which fewer questions are, as letters
# only: `acceptEdits`, `accept-edits` and `ACCEPT_EDITS` read alike.
BYPASS_MODES: Final = ("bypasspermissions", "skippermissions", "fullaccess", "yolo")
MODES: Final = (*BYPASS_MODES, "acceptedits", "autoedit", "autoapprove", "dontask")
# A mode as well, but too short to be looked for inside of other words.
_AUTO: Final = "auto"

_NO_LETTER = re.compile(r"[^a-z]+")
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")

# The rule of a run that leaves it to a person: no opinion.
RUN_ASK: Final = "run:ask"

_REJECTS: Final = (OptionKind.REJECT_ONCE, OptionKind.REJECT_ALWAYS)


@dataclass(frozen=True, slots=True)
class Choice:
    """What a ruling comes to with the options at hand.

    Attributes:
        effect: of the answer; None: a person must be asked.
        option_id: the option to select; None with an effect: the outcome `cancelled`.
        reason: why.
    """

    effect: Effect | None
    option_id: str | None = None
    reason: Reason = Reason.RULE


ASK_A_PERSON: Final = Choice(None)


def judge(request: PermissionRequest) -> Verdict:
    """Return what the run's rule says of a request; an allow only of what is beyond doubt."""
    if request.run_rule is OnPermission.DENY:
        return Verdict(Ruling.DENY, "run:deny")
    if request.run_rule is OnPermission.ASK:
        return Verdict(Ruling.ASK, RUN_ASK)
    why = doubt(request)
    return Verdict(Ruling.ASK, why) if why else Verdict(Ruling.ALLOW, "run:allow")


def doubt(request: PermissionRequest) -> str:
    """Return why neither rule nor grant may allow a request, "" if one may (rows 8, 9, 14, 27)."""
    subject = request.ask.subject
    if request.turn is None:
        return "outside_turn"
    if not subject.known_kind or subject.kind is ToolKind.OTHER:
        return "unknown_kind"
    if subject.kind is ToolKind.SWITCH_MODE:
        return "switch_mode"
    if subject.cautions:
        return "caution"
    return "changed_since_announced" if subject.changed else ""


def choose(ask: PermissionAsk, ruling: Ruling) -> Choice:
    """Return what a ruling comes to: an offered option, the outcome `cancelled`, or a person."""
    malformed = _malformed(ask)
    if malformed is not None:
        return malformed
    if ruling is Ruling.ALLOW:
        option = the_allow_once(ask)
        return ASK_A_PERSON if option is None else Choice(Effect.ALLOW, option.option_id)
    return ASK_A_PERSON if ruling is Ruling.ASK else _denial(ask, Reason.RULE)


def denial(ask: PermissionAsk, reason: Reason, *, by: str = "", note: str = "") -> Decision:
    """Return the decision that denies: by an offered `reject_once`, else `cancelled`."""
    return Decision(Effect.DENY, _denial(ask, reason).option_id, reason, by, note)


def cancellation(reason: Reason, *, by: str = "", note: str = "") -> Decision:
    """Return the decision whose outcome is `cancelled`: no option is selected."""
    return Decision(Effect.CANCEL, None, reason, by, note)


def the_allow_once(ask: PermissionAsk) -> Option | None:
    """Return the one `allow_once` that is offered, if there is exactly one and it may be used."""
    offered = [option for option in ask.options if option.kind is OptionKind.ALLOW_ONCE]
    if len(offered) != 1 or offered[0] not in _usable(ask):
        return None
    return offered[0]


def pick(
    ask: PermissionAsk,
    option_id: str,
    *,
    allow_bypass: bool = False,
    forward_always: bool = False,
) -> Option:
    """Return the option that a person's exact id comes to.

    An `allow_always` is lowered to the one `allow_once` that is offered, so that the agent keeps
    asking; without exactly one, or with `forward_always`, the option is sent as it is. A mode that
    may be entered under `allow_bypass` is not lowered: another mode would be an answer that nobody
    gave.

    Raises:
        BridgeError: `invalid_option`, naming what is offered.
    """
    found = [option for option in ask.options if option.option_id == option_id]
    if len(found) != 1:
        what = "was not offered" if not found else "is not unique in the request"
        raise invalid_option(ask, f"The option {_quoted(option_id)} {what}.")
    option = found[0]
    if _enters_bypass(ask, option) and not allow_bypass:
        message = f"The option {_quoted(option_id)} would end all questions; that is not allowed."
        raise invalid_option(ask, message)
    entered = allow_bypass and names_mode(option_id)
    if option.kind is OptionKind.ALLOW_ALWAYS and not (forward_always or entered):
        return the_allow_once(ask) or option
    return option


def effect_of(option: Option) -> Effect:
    """Return what selecting an option means; an unknown kind counts as an allow."""
    return Effect.DENY if option.kind in _REJECTS else Effect.ALLOW


def still_valid(ask: PermissionAsk, decision: Decision) -> bool:
    """Check once more, right before an answer is written, that it may be."""
    if decision.option_id is None:
        return decision.effect is not Effect.ALLOW
    found = [option for option in ask.options if option.option_id == decision.option_id]
    if len(found) != 1 or effect_of(found[0]) is not decision.effect:
        return False
    if decision.effect is Effect.ALLOW:
        by_person = decision.reason is Reason.OPERATOR
        by_rule = decision.reason is Reason.RULE and found[0] == the_allow_once(ask)
        return by_person or by_rule
    return decision.reason is Reason.OPERATOR or found[0].kind is OptionKind.REJECT_ONCE


def names_mode(option_id: str) -> bool:
    """Tell whether an option id names a mode in which less is asked."""
    letters = _NO_LETTER.sub("", option_id.lower())
    words = {word.lower() for word in _WORD.findall(option_id)}
    return _AUTO in words or any(mode in letters for mode in MODES)


def names_bypass(option_id: str) -> bool:
    """Tell whether an option id names a mode in which nothing is asked."""
    letters = _NO_LETTER.sub("", option_id.lower())
    return any(mode in letters for mode in BYPASS_MODES)


def invalid_option(ask: PermissionAsk, message: str) -> BridgeError:
    """Return the error for a choice that cannot be; it lists what is offered."""
    offered = ", ".join(f"{_quoted(option.option_id)} ({option.kind})" for option in ask.options)
    options = [option.to_json() for option in ask.options]
    return BridgeError(
        "invalid_option", f"{message} Offered: {offered or 'nothing'}.", data={"options": options}
    )


def _malformed(ask: PermissionAsk) -> Choice | None:
    if all(option.kind is OptionKind.UNKNOWN for option in ask.options):
        return Choice(Effect.CANCEL, None, Reason.MALFORMED)
    if max(_counts(ask).values()) > 1:
        return _denial(ask, Reason.MALFORMED)
    return None


def _denial(ask: PermissionAsk, reason: Reason) -> Choice:
    for option in _usable(ask):
        if option.kind is OptionKind.REJECT_ONCE:
            return Choice(Effect.DENY, option.option_id, reason)
    return Choice(Effect.DENY, None, reason)


def _counts(ask: PermissionAsk) -> Counter[str]:
    return Counter(option.option_id for option in ask.options)


def _usable(ask: PermissionAsk) -> list[Option]:
    """Return the options that may be selected without a person having named one."""
    counts = _counts(ask)
    return [
        option
        for option in ask.options
        if counts[option.option_id] == 1
        and _plain(option.option_id)
        and _plain(option.name)
        and not names_mode(option.option_id)
        and (option.kind in _REJECTS or not names_bypass(option.name))
    ]


def _enters_bypass(ask: PermissionAsk, option: Option) -> bool:
    """Tell whether selecting an option would end all questions, by its id or by what it is called.

    A name alone may be about this one step ("Full access to x, once"): there the id counts.
    """
    if option.kind in _REJECTS:
        return False
    once = option.kind is OptionKind.ALLOW_ONCE and ask.subject.kind is not ToolKind.SWITCH_MODE
    return names_bypass(option.option_id) or (not once and names_bypass(option.name))


def _plain(word: str) -> bool:
    size = len(word.encode("utf-8", "surrogatepass"))
    return word.strip() != "" and size <= LONGEST_WORD and not hides(word)


def _quoted(word: str) -> str:
    return f"`{escape(str(word)[:LONGEST_WORD])}`"
