"""What the rules want of a request, and how several of them come to one. Pure.

Deny beats ask beats allow, whatever the order: with the first match, moving a rule would change
what is safe, and which of two rules is the more special nobody can foresee.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from acpbridge.model.permission import Reason
from acpbridge.permissions.rules.facts import Facts


class Ruling(StrEnum):
    """What a rule, or all of them, want of a request."""

    DENY = "deny"
    ASK = "ask"
    ALLOW = "allow"


_STRICTEST_FIRST: Final = (Ruling.DENY, Ruling.ASK, Ruling.ALLOW)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the rules want.

    Attributes:
        effect: what is wanted.
        rule: id of the rule that decided it.
        reason: of a denial: a rule's word, or that the rules could not be asked.
        policy_sha256: of the policy that was looked at, "" for none.
        facts: what was known of the request when it was judged, None if nobody looked.
    """

    effect: Ruling
    rule: str
    reason: Reason = Reason.RULE
    policy_sha256: str = ""
    facts: Facts | None = field(default=None, compare=False)


NO_MATCH: Final = Verdict(Ruling.ASK, "no_match")


def merge(verdicts: Iterable[Verdict]) -> Verdict:
    """Return the strictest of several verdicts; of equals the first, of none: ask."""
    found = list(verdicts)
    for ruling in _STRICTEST_FIRST:
        for verdict in found:
            if verdict.effect is ruling:
                return verdict
    return NO_MATCH
