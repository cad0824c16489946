"""Grants: what a person allowed for longer than once (row 26). In memory only.

A grant is acpbridge's own and never an option of the agent's that lasts, whose reach is the agent's
to choose. It covers one scope, until it expires, is revoked, or its session ends; a rule that
denies goes before it. Above are the broker, which makes grants, and the judge, which asks for them.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final

from acpbridge.model.keys import SessionKey
from acpbridge.model.permission import GrantOffer, PermissionRequest
from acpbridge.model.ports import Clock
from acpbridge.permissions.rules.facts import Facts
from acpbridge.permissions.scope import Scope, scope_of
from acpbridge.permissions.verdict import Ruling, Verdict

# More at once are not made: whoever says "always" so often needs a rule. Each has some kilobytes.
PER_SESSION: Final = 64
IN_ALL: Final = 1024

# Before a grant's id, in the name of the rule that it is.
_RULE: Final = "grant:"


class Ended(StrEnum):
    """Why a grant is over, other than revoked."""

    EXPIRED = "expired"
    REPLACED = "replaced"
    SESSION = "session_ended"
    DIED = "agent_died"
    NOT_IN_FORCE = "not_in_force"


@dataclass(frozen=True, slots=True)
class Grant:
    """One grant.

    Attributes:
        id: that of the question which was answered with it.
        scope: what it covers.
        by: label of who granted it.
        made_at: ISO 8601, UTC, for display only; so is `expires_at`.
        until: when it expires, monotonic.
        uses: how often it has allowed something.
    """

    id: str
    scope: Scope
    by: str
    made_at: str
    expires_at: str
    until: float
    uses: int = 0

    @property
    def rule(self) -> str:
        """The name of the rule that it is, in decisions and in the audit."""
        return _RULE + self.id

    def to_json(self) -> dict[str, Any]:
        """Return the shape of the list of grants."""
        return {
            "id": self.id,
            "scope": self.scope.words(),
            **self.scope.to_json(),
            "by": self.by,
            "madeAt": self.made_at,
            "expiresAt": self.expires_at,
            "uses": self.uses,
        }


class Grants:
    """Those that are in force.

    Args:
        clock: its monotonic time ends them.
        seconds: how long one that is made now is in force.
    """

    def __init__(self, clock: Clock, seconds: Callable[[], float] = lambda: 3600.0) -> None:
        self._clock = clock
        self._seconds = seconds
        self._found: dict[Scope, Grant] = {}
        self._ended: deque[tuple[Grant, Ended]] = deque(maxlen=IN_ALL)

    def verdict(self, request: PermissionRequest, facts: Facts | None = None) -> Verdict | None:
        """Return that a request is granted, None if it is not.

        Args:
            request: what is asked.
            facts: what the judge knows of it, as when it was granted.
        """
        if not self._found:
            return None
        scope = scope_of(request, facts)
        grant = None if scope is None else self._in_force().get(scope)
        return None if grant is None else Verdict(Ruling.ALLOW, grant.rule)

    def offer(self, scope: Scope | None) -> GrantOffer | None:
        """Return what would be granted, to be shown beforehand; None if nothing can be."""
        if scope is None or not self._has_room(scope):
            return None
        return GrantOffer(scope.words(), self._seconds())

    def make(self, id: str, scope: Scope, by: str, seconds: float) -> Grant:
        """Return a grant that begins now; it is not in force yet."""
        made = self._clock.wall()
        expires = made + timedelta(seconds=seconds)
        until = self._clock.monotonic() + seconds
        return Grant(id, scope, by, made.isoformat(), expires.isoformat(), until)

    def put(self, grant: Grant, *, in_time: bool = True) -> Grant | None:
        """Put a grant in force, in the place of one for the same; None if it is not.

        Args:
            grant: as `make` made it.
            in_time: whether what it was an answer to still stands.
        """
        if not in_time or not self._has_room(grant.scope):
            self._ended.append((grant, Ended.NOT_IN_FORCE))
            return None
        if grant.scope in self._found:
            self._end(self._found[grant.scope], Ended.REPLACED)
        self._found[grant.scope] = grant
        return grant

    def holds(self, rule: str) -> bool:
        """Tell whether the grant that a rule is is in force."""
        return any(grant.rule == rule for grant in self._in_force().values())

    def use(self, rule: str) -> Grant | None:
        """Count a use of the grant that a rule is; None if it is none, or not in force any more."""
        for scope, grant in self._in_force().items():
            if grant.rule == rule:
                self._found[scope] = used = replace(grant, uses=grant.uses + 1)
                return used
        return None

    def listed(self) -> list[Grant]:
        """Return those in force, the oldest first."""
        return sorted(self._in_force().values(), key=lambda grant: grant.until)

    def revoke(self, id: str) -> Grant | None:
        """End one at once, and return it; None if there is none with that id."""
        for grant in self._in_force().values():
            if grant.id == id:
                del self._found[grant.scope]
                return grant
        return None

    def end(self, session: SessionKey | None, why: Ended) -> None:
        """End all of a session, or of all sessions."""
        for scope, grant in list(self._found.items()):
            if session in (None, scope.session):
                self._end(grant, why)

    def take_ended(self) -> tuple[Grant, Ended] | None:
        """Return the one that is over for longest, to be told of; None if there is none.

        Nobody else is given it, unless `not_told` gives it back.
        """
        self._in_force()
        return self._ended.popleft() if self._ended else None

    def not_told(self, ended: tuple[Grant, Ended]) -> None:
        """Give one back that could not be told of."""
        self._ended.appendleft(ended)

    def _has_room(self, scope: Scope) -> bool:
        found = self._in_force()
        of_session = sum(other.session == scope.session for other in found)
        return scope in found or (of_session < PER_SESSION and len(found) < IN_ALL)

    def _in_force(self) -> dict[Scope, Grant]:
        now = self._clock.monotonic()
        for grant in [grant for grant in self._found.values() if grant.until <= now]:
            self._end(grant, Ended.EXPIRED)
        return self._found

    def _end(self, grant: Grant, why: Ended) -> None:
        del self._found[grant.scope]
        self._ended.append((grant, why))


def is_grant(rule: str) -> bool:
    """Tell whether the name of a rule is that of a grant."""
    return rule.startswith(_RULE)
