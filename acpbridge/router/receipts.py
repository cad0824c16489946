"""What is asked of sessions beside a run, and what came of it: ending, starting anew, deleting.

Values of `RouterApi`; the JSON shapes are those that the commands print.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from acpbridge.model.keys import SessionKey
from acpbridge.model.sessions import CancelRung, SessionState


@dataclass(frozen=True, slots=True)
class CancelReceipt:
    """What a cancel came to.

    Attributes:
        key: of the session.
        rung: how far down the ladder it had to go.
        turn_ended: whether no turn is left running, here and in `children`.
        stop_reason: of the turn; None where there was none.
        children: what came of turns in other sessions that the turn's agent had asked for.
        left: pids of what a turn of the session started and its agent keeps: the session lives on.
    """

    key: SessionKey
    rung: CancelRung
    turn_ended: bool
    stop_reason: str | None = None
    children: tuple["CancelReceipt", ...] = ()
    left: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the shape that `cancel --json` prints."""
        return {
            "key": str(self.key),
            "rung": self.rung,
            "turnEnded": self.turn_ended,
            "stopReason": self.stop_reason,
            "children": [
                {
                    "key": str(child.key),
                    "rung": child.rung,
                    "turnEnded": child.turn_ended,
                    "left": list(child.left),
                }
                for child in self.children
            ],
            "left": list(self.left),
        }


@dataclass(frozen=True, slots=True)
class KillReceipt:
    """What of one session, or of what nobody owned (its key is None), is proven dead or left."""

    key: SessionKey | None
    killed: tuple[int, ...]
    survivors: tuple[int, ...]
    took_ms: int

    def to_json(self) -> dict[str, Any]:
        """Return the shape of one result of `kill --json`."""
        return {
            "key": None if self.key is None else str(self.key),
            "killed": list(self.killed),
            "survivors": list(self.survivors),
            "tookMs": self.took_ms,
        }


@dataclass(frozen=True, slots=True)
class RestartRequest:
    """A new process that somebody wants for a session.

    Attributes:
        key: of the session, or any unique part of it.
        env: the caller's environment, from which the child's is built. Never stored.
        force: whether a turn that is under way is cancelled for it.
        fresh: begin anew if the agent cannot take up the earlier conversation.
    """

    key: str
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    force: bool = False
    fresh: bool = False


@dataclass(frozen=True, slots=True)
class RestartReceipt:
    """A session whose new agent has answered, and what was ended for it."""

    key: SessionKey
    pid: int
    was: tuple[int, ...]
    opens: int
    mode: str | None
    context_lost: bool
    took_ms: int

    def to_json(self) -> dict[str, Any]:
        """Return the shape that `restart --json` prints."""
        return {
            "key": str(self.key),
            "pid": self.pid,
            "was": list(self.was),
            "opens": self.opens,
            "mode": self.mode,
            "contextLost": self.context_lost,
            "tookMs": self.took_ms,
        }


@dataclass(frozen=True, slots=True)
class PruneRequest:
    """Which sessions without a process are to be deleted: those that fit all that is given.

    Attributes:
        keys: only these, in full.
        states: only those in one of these states.
        older_than: only those that were last used so many seconds ago.
        keep: all but so many that were used last.
        dry_run: whether nothing is deleted, only told.
    """

    keys: tuple[str, ...] | None = None
    states: tuple[SessionState, ...] | None = None
    older_than: float | None = None
    keep: int = 0
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Pruned:
    """A session that was deleted, or would be."""

    key: SessionKey
    state: SessionState
    cwd: str
    created_at: str
    last_used_at: str

    def to_json(self) -> dict[str, Any]:
        """Return the shape that `sessions prune --json` prints."""
        return {
            "key": str(self.key),
            "agentId": self.key.agent,
            "state": self.state,
            "cwd": self.cwd,
            "createdAt": self.created_at,
            "lastUsedAt": self.last_used_at,
        }
