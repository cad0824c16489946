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


def tell_audit(services: Services, key: SessionKey, turn: str | None, event: Fact) -> None:
    """Put what an event says of a mode into the audit, if it can be told."""
    found = record(event)
    if found is None:
        return
    kind, fields = found
    values = {"agent": key.agent, "session": str(key), "turn": turn, **fields}

    async def note() -> None:
        try:
            with anyio.fail_after(NOTE_WAIT):
                await services.audited(kind, values)
        except (BridgeError, TimeoutError) as error:
            log.warning("the audit was not told", kind=kind, key=str(key), error=repr(error))

    services.scribe.put(note)
