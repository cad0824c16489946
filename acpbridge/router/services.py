"""What every session is handed: one value, made once."""

from collections.abc import Callable
from dataclasses import dataclass

from acpbridge.model.agents import AgentDefinition
from acpbridge.model.ports import Clock, Faults, Ids
from acpbridge.permissions.broker import PermissionBroker
from acpbridge.router.places import Places
from acpbridge.router.scribe import Scribe
from acpbridge.runtimes.base import Runtime
from acpbridge.store.ledger import Ledger
from acpbridge.store.sessionlog import SessionLog


@dataclass(frozen=True, slots=True)
class Services:
    """What sessions work with.

    Attributes:
        ledger: records of sessions and runs.
        log: their events.
        scribe: writes to the ledger what nobody waits for.
        broker: decides permissions.
        runtime: how an agent of a definition is run.
        places: how many processes may live.
        clock: wall and monotonic time.
        ids: unique names.
        faults: named points for tests.
        idle_ttl: seconds that a process may be without a turn.
    """

    ledger: Ledger
    log: SessionLog
    scribe: Scribe
    broker: PermissionBroker
    runtime: Callable[[AgentDefinition], Runtime]
    places: Places
    clock: Clock
    ids: Ids
    faults: Faults
    idle_ttl: Callable[[], float]

    def now(self) -> str:
        """Return the wall-clock time, ISO 8601, UTC."""
        return self.clock.wall().isoformat(timespec="milliseconds")
