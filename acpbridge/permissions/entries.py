"""A permission request from when it came in until it is settled, and the decision that claims it.

The broker above keeps entries and is the only one that settles them. A claim is synchronous and the
first one wins: it ends the entry's waiting, be it for a judge or for a person.
"""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

import anyio

from acpbridge.model.permission import Decision, Effect, PermissionRequest, Question
from acpbridge.model.requesters import Requester
from acpbridge.permissions.rules.facts import Facts
from acpbridge.permissions.scope import Scope

# The rule in the record of a request that came to its end before any rule was looked at.
UNJUDGED: Final = "not_judged"


@dataclass(frozen=True, slots=True)
class Claim:
    """A decision that won, with who made it and when; it is not in the audit yet.

    Attributes:
        picked: id of the option that its maker named, which may not be the one that is sent.
    """

    decision: Decision
    at: str
    requester: Requester | None = None
    picked: str | None = None


@dataclass(slots=True, eq=False)
class Entry:
    """A request from when it came in until it is settled.

    Attributes:
        came: wall time, to be shown.
        started: monotonic.
        rule: id of the rule that decided it, or that sent it to a person.
        policy_sha256: of the policy that was looked at, "" for none.
        facts: what was known of it when it was judged.
        scope: what may be granted of it, None if nothing.
        question: what people see; None while it is judged, and if nobody needs to be asked.
        claim: the decision, once there is one.
        withdrawn: set if the request was withdrawn while its decision was being recorded.
        final: what was returned.
        waiting: what its task does until there is a claim; a claim ends it.
    """

    request: PermissionRequest
    came: datetime
    started: float
    rule: str = UNJUDGED
    policy_sha256: str = ""
    facts: Facts | None = None
    scope: Scope | None = None
    question: Question | None = None
    claim: Claim | None = None
    withdrawn: Claim | None = None
    final: Decision | None = None
    waiting: anyio.CancelScope = field(default_factory=anyio.CancelScope)
    settled: anyio.Event = field(default_factory=anyio.Event)

    def decide(self, claim: Claim) -> bool:
        """Claim the request; the first one wins."""
        if self.claim is not None:
            return False
        self.claim = claim
        self.waiting.cancel()
        return True

    def withdraw(self, claim: Claim) -> bool:
        """Take the request back, even from a decision that is still being recorded."""
        if self.claim is None:
            return self.decide(claim)
        gone = self.withdrawn is not None or self.claim.decision.effect is Effect.CANCEL
        if gone or self.final is not None:
            return False
        self.withdrawn = claim
        return True

    def is_open(self) -> bool:
        """Tell whether a person may answer: there is a question and no decision yet."""
        return self.question is not None and self.claim is None
