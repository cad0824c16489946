"""The table of work that agents have handed to others and whose end nobody heard of yet.

A row goes with the end; `went_out` names the last call whose words were sent. Blocking, for the
ledger's one thread. Above are the ledger and its tables.
"""

import sqlite3
from collections.abc import Callable
from dataclasses import asdict, fields, replace
from typing import Any, Final

from acpbridge.model.inbox import InboxMessage, InboxStatus
from acpbridge.store.records import ascii_text, dumps, read_record

OWNERS: Final = """
            tenant_id TEXT NOT NULL DEFAULT '',
            user_id TEXT NOT NULL DEFAULT '',
            host_id TEXT NOT NULL DEFAULT ''
"""

# The session is the source's: its work goes with it.
DELEGATIONS_TABLE: Final = f"""
        CREATE TABLE IF NOT EXISTS delegations (
            id TEXT PRIMARY KEY, session_key TEXT NOT NULL, record TEXT NOT NULL,
            went_out TEXT NOT NULL DEFAULT '', {OWNERS})
"""

DELEGATIONS: Final = "SELECT record FROM delegations"

# What people and agents have said in an item.
_SAID: Final = ("message", "original_user_prompt", "error_text", "metadata")

_NAMES: Final = frozenset(field.name for field in fields(InboxMessage))


def put_delegation(connection: sqlite3.Connection, item: InboxMessage) -> None:
    """Store an item, in place of what was stored of it."""
    connection.execute(
        "INSERT INTO delegations (id, session_key, record) VALUES (?, ?, ?)"
        " ON CONFLICT (id) DO UPDATE SET record = excluded.record",
        (item.id, ascii_text(item.source_thread_id or ""), dumps(asdict(item))),
    )


def end_delegation(connection: sqlite3.Connection, name: str) -> None:
    """Delete an item whose end was told."""
    connection.execute("DELETE FROM delegations WHERE id = ?", (name,))


def redacted(item: InboxMessage, redact: Callable[[Any], Any]) -> InboxMessage:
    """Return an item as it may be stored."""
    return replace(item, **{name: redact(getattr(item, name)) for name in _SAID})


def read_delegation(text: str) -> InboxMessage:
    """Return the item of a row.

    Raises:
        UnreadableError: the text is damaged.
    """

    def build(values: dict[str, Any]) -> InboxMessage:
        known = {name: value for name, value in values.items() if name in _NAMES}
        item = InboxMessage(**{**known, "status": InboxStatus(values["status"])})
        texts = (item.id, item.target_agent_id, item.source_agent_id, item.message)
        if not all(isinstance(text, str) for text in texts) or not isinstance(item.metadata, dict):
            raise TypeError("a field is of another type")
        return item

    return read_record(text, build)
