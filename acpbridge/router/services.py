"""What every session is handed: one value, made once."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import anyio

from acpbridge.controller.bounds import NO_BOUNDS, Bounds, Usage
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.faults import Faults
from acpbridge.model.keys import SessionKey
from acpbridge.model.ports import Clock, Ids
from acpbridge.model.sessions import CloseReason
from acpbridge.permissions.broker import PermissionBroker
from acpbridge.router.notes import Notes
from acpbridge.router.places import Places
from acpbridge.router.remarks import Remarks
from acpbridge.router.scribe import Scribe
from acpbridge.router.tidings import Tidings
from acpbridge.router.watching import Watching
from acpbridge.runtimes.base import Runtime
from acpbridge.store.ledger import Ledger
from acpbridge.store.sessionlog import SessionLog

# What of an error may be an agent's own words.
_SAID: Final = ("message", "hint", "data")


async def _unaudited(_kind: str, _fields: Mapping[str, Any]) -> None:
    return None


async def _unknown(_name: str, _limits: Bounds) -> Usage | None:
    return None


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
        redact: takes the secrets out of JSON.
        sleep: waits for seconds of the clock.
        killed_past: why a session is closed that was killed while this daemon was frozen, None for
            every other.
        bounds: what the tree of a session that starts now may take.
        usage: what the tree of a session takes, from the kernel; None if it has none.
        remarks: what people said with denials, for agents to be told.
        notes: what sessions are to be told with their next turn.
        watching: who wants to know what becomes of a session.
        attended: at how many clients a person is asked what a session asks.
        stall: seconds without an update after which a turn fails; 0 for never.
        announce: seconds that an attempt at telling of a completion may take.
        audited: puts what is no decision into the audit.
        tidings: wakes whoever delivers completions.
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
    redact: Callable[[Any], Any]
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    killed_past: Callable[[str], CloseReason | None] = lambda _key: None
    bounds: Callable[[], Bounds] = lambda: NO_BOUNDS
    usage: Callable[[str, Bounds], Awaitable[Usage | None]] = _unknown
    stall: Callable[[], float] = lambda: 0.0
    announce: Callable[[], float] = lambda: 120.0
    remarks: Remarks = field(default_factory=Remarks)
    notes: Notes = field(default_factory=Notes)
    watching: Watching = field(init=False)
    audited: Callable[[str, Mapping[str, Any]], Awaitable[None]] = _unaudited
    attended: Callable[[SessionKey], int] = lambda _key: 0
    tidings: Tidings = field(default_factory=Tidings)

    def __post_init__(self) -> None:
        object.__setattr__(self, "watching", Watching(self.notes))

    def clean(self, error: BridgeError) -> BridgeError:
        """Return an error without secrets: an agent may have put what it was given into it."""
        told = error.to_json()
        return BridgeError.from_json({**told, **self.redact({k: told[k] for k in _SAID})})

    def now(self) -> str:
        """Return the wall-clock time, ISO 8601, UTC."""
        return self.clock.wall().isoformat(timespec="milliseconds")
