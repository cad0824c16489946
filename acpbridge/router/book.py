"""A session's record: changed in memory at once, on disk as soon as the disk takes it.

Whoever looks at a session sees the memory. A full disk refuses new work elsewhere, but a session
that runs goes on: its record is stored again with its next change.
"""

from dataclasses import replace
from typing import Any

import structlog

from acpbridge.errors import BridgeError
from acpbridge.model.sessions import SessionRecord
from acpbridge.store.ledger import Ledger

log = structlog.get_logger(__name__)


class Book:
    """The one record of one session.

    Args:
        record: as it is in the ledger.
        ledger: where it is stored.
    """

    def __init__(self, record: SessionRecord, ledger: Ledger) -> None:
        self.record = record
        self._ledger = ledger
        self._retired = False

    def note(self, **changes: Any) -> None:
        """Change the record in memory; the next `save` stores it."""
        self.record = replace(self.record, **changes)

    def retire(self) -> None:
        """Store nothing any more: the record is being deleted, and must not come back."""
        self._retired = True

    async def save(self, **changes: Any) -> None:
        """Change the record, and store it. Never fails."""
        self.note(**changes)
        if self._retired:
            return
        try:
            await self._ledger.put_session(self.record)
        except BridgeError as error:
            log.warning("a session is not stored yet", key=str(self.record.key), code=error.code)
