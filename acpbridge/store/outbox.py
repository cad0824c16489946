"""The table of what is to be delivered, and what a restart makes of it. Blocking, for the ledger.

A delivery is `pending`; `sent` is written just before its words go out, and what was sent is never
sent again by itself. Above are the ledger and its tables.
"""

import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from acpbridge.store.records import OutboxEntry, ascii_text, read_outbox, write_outbox

OUTBOX: Final = "SELECT payload, state, attempts FROM outbox"

# Why a delivery is blocked of which nobody knows whether it was heard.
AMBIGUOUS: Final = "ambiguous"


@dataclass(frozen=True, slots=True)
class Settled:
    """A step of a delivery, from any of some states to one.

    Attributes:
        id: of the entry.
        origins: the states from which it is taken.
        state: where it stands from now on.
        note: put into its payload, in place of what an earlier step put there.
        address: where it goes from now on; "" for where it went.
    """

    id: str
    origins: tuple[str, ...]
    state: str
    note: Mapping[str, Any] = field(default_factory=dict)
    address: str = ""


def insert_entry(connection: sqlite3.Connection, entry: OutboxEntry) -> bool:
    """Store a delivery to be made; False, and nothing stored, if its id is taken."""
    row = (entry.id, ascii_text(entry.run_id), ascii_text(entry.address), entry.state)
    done = connection.execute(
        "INSERT INTO outbox (id, run_id, address, state, attempts, payload)"
        " VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (*row, entry.attempts, write_outbox(entry)),
    )
    return done.rowcount == 1


def move_entry(connection: sqlite3.Connection, step: Settled) -> bool:
    """Take a step of a delivery; False, and nothing stored, if it stands elsewhere."""
    row = connection.execute(f"{OUTBOX} WHERE id = ?", (step.id,)).fetchone()
    if row is None or row[1] not in step.origins:
        return False
    entry = read_outbox(*row)
    payload = {**entry.payload, **step.note}
    moved = replace(entry, payload=payload, address=step.address or entry.address)
    connection.execute(
        "UPDATE outbox SET state = ?, address = ?, payload = ? WHERE id = ?",
        (step.state, ascii_text(moved.address), write_outbox(moved), step.id),
    )
    return True


def recover_entries(connection: sqlite3.Connection, now: str) -> None:
    """Block what a daemon had sent that ended before its turn did: nobody knows if it was heard."""
    note = {"reason": AMBIGUOUS, "at": now}
    for (name,) in connection.execute("SELECT id FROM outbox WHERE state = 'sent'").fetchall():
        move_entry(connection, Settled(name, ("sent",), "blocked", note))
