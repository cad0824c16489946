"""What the clients know: what they asked for, what they were shown, and what was to be allowed."""

import hashlib
import json
import threading
from dataclasses import dataclass, field
from typing import Any

from tests.chaos.wire import Tally

Shown = tuple[str, str, str]  # epoch, type, what it says


@dataclass(slots=True)
class Run:
    """An accepted run; `daemon` is the pid of the one that accepted it."""

    run_id: str
    key: str
    token: str
    kind: str
    daemon: int
    outcome: str = ""


@dataclass(slots=True)
class Asked:
    """A question whose right answer is known before it is asked.

    Attributes:
        truth: whether its nonce may be executed.
        how: in which way it is answered.
        allow_sent: whether any client ever said yes.
        decided: effect and reason, as shown.
    """

    truth: bool
    how: str
    allow_sent: bool = False
    decided: str = ""


@dataclass
class Book:
    """Everything, of all threads.

    Attributes:
        tokens: of every prompt that was handed to the daemon, accepted or not.
        shown: by session and number: what a client was shown.
        changed: numbers that were shown twice with different events.
        gaps: numbers that were passed over in what a client was shown.
        echoes: when an echo was shown, on the monotonic clock, by its text.
        stuck: turns that did not end.
        kills: seconds and size of each tree that was killed.
        deaths: seconds until what a fault orphaned was dead, by the kind of the fault.
        undead: what was not dead in time, in words.
        lies: receipts of a kill that were not true.
        serves: seconds from the start of a daemon to its first hello.
    """

    tally: Tally = field(default_factory=Tally)
    runs: list[Run] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)
    asked: dict[str, Asked] = field(default_factory=dict)
    shown: dict[str, dict[int, Shown]] = field(default_factory=dict)
    changed: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    echoes: dict[str, float] = field(default_factory=dict)
    stuck: list[str] = field(default_factory=list)
    second_answers: list[str] = field(default_factory=list)
    kills: list[tuple[float, int]] = field(default_factory=list)
    deaths: dict[str, list[float]] = field(default_factory=dict)
    undead: list[str] = field(default_factory=list)
    lies: list[str] = field(default_factory=list)
    serves: list[float] = field(default_factory=list)
    looks: list[float] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def show(self, event: dict[str, Any]) -> None:
        """Take note of what a client was shown."""
        seen = digest(event)
        with self.lock:
            rows = self.shown.setdefault(event["key"], {})
            before = rows.setdefault(event["seq"], seen)
        if before != seen:
            self.changed.append(f"{event['key']} {event['seq']}: {before} and then {seen}")


def digest(event: dict[str, Any]) -> Shown:
    """Return what makes an event the same one, in the live copy as in the stored."""
    rest = {k: v for k, v in event.items() if k not in ("seq", "epoch", "at", "key", "type")}
    text = json.dumps(rest, sort_keys=True).encode()
    return event["epoch"], event["type"], hashlib.sha256(text).hexdigest()[:16]
