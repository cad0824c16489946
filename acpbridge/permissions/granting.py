"""Makes grants of answers, and has the audit know of each: made, used, expired, revoked (row 26).

Above is the broker; below are the grants in force, which know nothing of the audit.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from acpbridge.errors import BridgeError
from acpbridge.model.permission import Decision, GrantOffer, Lasts, PermissionRequest
from acpbridge.model.requesters import Requester
from acpbridge.permissions.answers import always
from acpbridge.permissions.entries import Entry
from acpbridge.permissions.grants import Grant, Grants
from acpbridge.permissions.policy import RUN_ASK
from acpbridge.permissions.record import requester_fields
from acpbridge.permissions.recorder import Recorder
from acpbridge.permissions.scope import Scope, scope_of
from acpbridge.permissions.verdict import NO_MATCH

# What is asked because no rule has an opinion. What a rule wants asked, a grant does not change.
_NO_OPINION: Final = frozenset({NO_MATCH.rule, RUN_ASK})


class Granting:
    """Makes grants and ends them.

    Args:
        grants: those in force.
        recorder: takes the records.
    """

    def __init__(self, grants: Grants, recorder: Recorder) -> None:
        self._grants = grants
        self._recorder = recorder

    def offered(self, entry: Entry) -> tuple[Scope | None, GrantOffer | None]:
        """Return what an "always" would grant of a request, and how it is shown beforehand."""
        request = entry.request
        if entry.rule not in _NO_OPINION or always(request, granted=True) is not Lasts.SESSION:
            return None, None
        scope = scope_of(request, entry.facts)
        return scope, self._grants.offer(scope)

    async def made(self, entry: Entry, decision: Decision, requester: Requester) -> Decision:
        """Put in force what was granted; return the decision, which is for once if it cannot be.

        The audit has it first. What was taken back meanwhile is not in force.
        """
        offer = None if entry.question is None else entry.question.grant
        grant = None
        if offer is not None and entry.scope is not None:
            by = requester.label()
            made = self._grants.make(entry.request.id, entry.scope, by, offer.seconds)
            fields = {**grant_fields(made), **_who(requester), "seconds": offer.seconds}
            if await self._note("grant_made", fields, durable=True):
                grant = self._grants.put(made, in_time=entry.withdrawn is None)
        return decision if grant is not None else replace(decision, lasts=Lasts.ONCE)

    async def used(self, rule: str, request: PermissionRequest) -> bool:
        """Tell whether the audit has it that a grant allows a request."""
        grant = self._grants.use(rule)
        if grant is None:
            return False
        fields = {**grant_fields(grant), "request_uid": request.id, "uses": grant.uses}
        return await self._note("grant_used", fields)

    async def revoke(self, ids: list[str], requester: Requester) -> list[Grant]:
        """End grants at once, then record it; return them.

        Raises:
            BridgeError: `no_such_grant`, once those that there are have been revoked.
        """
        found = [(id, self._grants.revoke(id)) for id in dict.fromkeys(ids)]
        revoked = [grant for _, grant in found if grant is not None]
        for grant in revoked:
            fields = {**grant_fields(grant), **_who(requester)}
            await self._note("grant_revoked", fields)
        missing = [id for id, grant in found if grant is None]
        if missing:
            names = ", ".join(repr(id) for id in missing)
            data = {"revoked": [grant.id for grant in revoked], "unknown": missing}
            raise BridgeError("no_such_grant", f"No grant is in force as {names}.", data=data)
        return revoked

    async def tell(self) -> None:
        """Record which grants are over; what cannot be recorded now is told the next time."""
        while (ended := self._grants.take_ended()) is not None:
            grant, why = ended
            fields = {**grant_fields(grant), "reason": why, "expires_at": grant.expires_at}
            if not await self._note("grant_expired", fields):
                self._grants.not_told(ended)
                return

    async def _note(self, kind: str, fields: dict[str, Any], *, durable: bool = False) -> bool:
        return await self._recorder.recorded(kind, lambda: fields, durable=durable)


def grant_fields(grant: Grant) -> dict[str, Any]:
    """Return the fields that say which grant a record is about."""
    scope = grant.scope
    return {
        "grant": grant.id,
        "agent": scope.session.agent,
        "session": str(scope.session),
        "tool_kind": scope.kind,
        "tool": scope.tool,
        "server": scope.server,
        "argv": list(scope.argv) or None,
        "paths": [{"literal": literal, "resolved": to} for literal, to in scope.paths],
        "scope": scope.words(),
    }


def _who(requester: Requester) -> Mapping[str, Any]:
    return {"decided_by": requester_fields(requester)}
