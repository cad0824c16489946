"""What one check came to, and what all of them say together. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from acpbridge.errors import EXIT_AGENT, EXIT_LOGIN, EXIT_OK, EXIT_USAGE, BridgeError


class Status(StrEnum):
    """How a check ended."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


# Of several failures the one that has to be mended first gives the exit status.
_FIRST: Final = (EXIT_USAGE, EXIT_AGENT, EXIT_LOGIN)


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at.

    Attributes:
        kind: `bridge` or `agent`.
        id: `acpbridge`, `config`, `policy`, `home` or `daemon` of the bridge; the id of an agent.
        status: how it ended.
        message: what was found, for people.
        next: what to do, "" for nothing.
        error: why it failed.
        facts: JSON fields of its own.
    """

    kind: str
    id: str
    status: Status
    message: str
    next: str = ""
    error: BridgeError | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the row in `checks`."""
        return {
            "kind": self.kind,
            "id": self.id,
            "status": self.status,
            "message": self.message,
            "next": self.next or None,
            "error": None if self.error is None else self.error.to_json(),
            **self.facts,
        }


def failed(
    kind: str, name: str, error: BridgeError, facts: Mapping[str, Any] | None = None
) -> Check:
    """Return a check that failed with an error."""
    return Check(kind, name, Status.FAILED, error.message, error.hint, error, facts or {})


def exit_status(checks: Iterable[Check]) -> int:
    """Return 0 if nothing failed, else the status of what must be mended first."""
    found = [check.error.kind.exit for check in checks if check.error is not None]
    first = (status for status in _FIRST if status in found)
    return next(first, found[0] if found else EXIT_OK)
