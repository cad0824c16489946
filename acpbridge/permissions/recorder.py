"""Puts records into the audit within a bound of time, and tells whether they are there.

Above are the broker and those who work for it. What cannot be recorded in time counts as not
recorded: whether that denies something is theirs to say.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

import anyio

from acpbridge.model.faults import Faults, no_faults
from acpbridge.permissions.audit import Audit

# Longest time for a record to be written; a disk that takes longer counts as one that fails.
AUDIT_SECONDS: Final = 5.0


class Recorder:
    """Records decisions and what belongs to them.

    Args:
        audit: takes the records.
        faults: points at which a test may fail.
    """

    def __init__(self, audit: Audit, faults: Faults = no_faults) -> None:
        self._audit = audit
        self._faults = faults

    async def recorded(
        self, kind: str, fields: Callable[[], Mapping[str, Any]], *, durable: bool
    ) -> bool:
        """Tell whether the audit has a record: shielded from cancellation, bounded in time.

        Args:
            kind: of the record.
            fields: returns what it says; called once.
            durable: whether it must be on disk.
        """
        with anyio.move_on_after(AUDIT_SECONDS, shield=True):
            try:
                self._faults("permission.record")
                await self._audit.record(kind, fields(), durable=durable)
                self._faults("permission.recorded")
            except Exception:  # noqa: BLE001 -- the boundary of a call: whatever it was, deny
                return False
            return True
        return False
