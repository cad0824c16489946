"""What the audit has of a session's modes: each change, and each that was refused (G30).

Above is the host of a session, which sees every event; below is the scribe, so that neither a slow
disk nor a failing audit holds anybody up.
"""

from collections.abc import Mapping
from typing import Any, Final

import anyio
import structlog

from acpbridge.errors import BridgeError
from acpbridge.model.events import Fact
from acpbridge.model.keys import SessionKey
from acpbridge.router.services import Services

log = structlog.get_logger(__name__)

# A note in the audit holds up what is written after it for so long at most. Seconds.
NOTE_WAIT: Final = 2.0

# Of one session so many wait to be written: beyond that they are only counted, for the scribe's
# room is for the ledger. An agent may change its mode as fast as it can write.
MOST_WAITING: Final = 32


def record(event: Fact) -> tuple[str, dict[str, Any]] | None:
    """Return kind and fields of an event's record in the audit, None if it has none."""
    values: Mapping[str, Any] = event.values
    if event.type == "mode_changed":
        told = {"from": values.get("before"), "to": values.get("mode")}
        return "mode_changed", {**told, "by": values.get("by"), "bypass": values.get("bypass")}
    if event.type == "notice" and values.get("kind") == "mode_refused":
        return "mode_refused", {"by": values.get("by"), "reason": values.get("message")}
    if event.type == "notice" and values.get("kind") == "bypass":
        return "mode_changed", {"to": values.get("what"), "by": "agent", "bypass": True}
    return None


class ModeAudit:
    """Tells the audit of one session's modes; what an agent says too fast is told in one.

    Args:
        services: audit and scribe.
        key: of the session.
    """

    def __init__(self, services: Services, key: SessionKey) -> None:
        self._services = services
        self._key = key
        self._waiting = 0
        self._left_out = 0

    def tell(self, turn: str | None, event: Fact) -> None:
        """Put what an event says of a mode into the audit, if it can be told."""
        found = record(event)
        if found is None:
            return
        if self._waiting >= MOST_WAITING:
            self._left_out += 1
            return
        kind, fields = found
        place = {"agent": self._key.agent, "session": str(self._key), "turn": turn}
        self._waiting += 1
        self._services.scribe.put(lambda: self._note(kind, {**place, **fields}))

    async def _note(self, kind: str, values: dict[str, Any]) -> None:
        left_out, self._left_out = self._left_out, 0
        self._waiting -= 1
        try:
            with anyio.fail_after(NOTE_WAIT):
                await self._services.audited(kind, {**values, "left_out": left_out})
        except (BridgeError, TimeoutError) as error:
            log.warning("the audit was not told", kind=kind, key=str(self._key), error=repr(error))
