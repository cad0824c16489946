"""What a turn waits for, on the row with the spinner; and at its end what it came to. Pure."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Final

from acpbridge.cli.moments import seconds, whole_seconds
from acpbridge.cli.output import styled
from acpbridge.cli.terminal.cells import wrap
from acpbridge.cli.views.cards import row, usage_words
from acpbridge.cli.views.reading import why_cancelled
from acpbridge.model.display import escape

SPINNER: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
PICTURES: Final = 8  # a second

# After so long without an update it is said how long it has been. Seconds.
QUIET: Final = 5.0

# A row that is narrower has no room for it.
ROOMY: Final = 50

_MODEL: Final = "waiting for the model"

# Updates that tell of the session, not of the work.
_ASIDE: Final = ("usage_update", "available_commands_update", "session_info_update")


def moment(event: Mapping[str, Any], clock: Callable[[], float]) -> float:
    """Return when an event happened, in seconds since 1970: what is looked at again took as long.

    Args:
        event: says so itself, as a rule.
        clock: tells it where the event does not.
    """
    try:
        return datetime.fromisoformat(str(event.get("at"))).timestamp()
    except (ValueError, OverflowError, OSError):
        return clock()


class Status:
    """Follows the events of a turn.

    Args:
        clock: seconds since 1970, as the events have them.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._began = self._heard = clock()
        self._waits_for = "waiting for its turn"
        self._tools: set[str] = set()
        self._asked: set[str] = set()
        self._context: dict[str, Any] = {}

    def event(self, event: Mapping[str, Any]) -> None:
        """Take one event."""
        self._heard = moment(event, self._clock)
        kind = event.get("type")
        if kind == "update":
            self._update(event.get("update"))
        elif kind == "turn_started":
            self._began = self._heard
            self._waits_for = "starting the agent"
        elif kind == "process_started":
            self._waits_for = "waiting for the agent"
        elif kind == "notice" and event.get("kind") == "waiting":
            self._waits_for = escape(str(event.get("message")))
        elif kind == "permission_asked":
            self._asked.add(str(event.get("id")))
        elif kind == "permission_decided":
            self._asked.discard(str(event.get("id")))

    def _update(self, update: Any) -> None:
        if not isinstance(update, Mapping):
            return
        kind = update.get("sessionUpdate")
        if kind == "usage_update":
            self._context.update(update)
        if kind not in _ASIDE:
            self._waits_for = _MODEL
        if kind in ("tool_call", "tool_call_update"):
            name = str(update.get("toolCallId"))
            if update.get("status") in ("completed", "failed"):
                self._tools.discard(name)
            elif kind == "tool_call" or update.get("status"):
                self._tools.add(name)

    def waits_for(self) -> str:
        """Return what is waited for."""
        if self._asked:
            return "waiting for an answer to the question"
        if self._tools:
            return "waiting for a tool" if len(self._tools) == 1 else "waiting for tools"
        return self._waits_for

    def row(self, width: int, note: str = "") -> str:
        """Return the row with the spinner."""
        now = self._clock()
        picture = SPINNER[int(now * PICTURES) % len(SPINNER)]
        tail = whole_seconds(max(0.0, now - self._began))
        if now - self._heard >= QUIET and width >= ROOMY:
            tail += f", last update {whole_seconds(now - self._heard)} ago"
        return row(picture, note or self.waits_for(), width, tail, fg="cyan")

    def summary(self, event: Mapping[str, Any], width: int) -> list[str]:
        """Return what a turn came to, for its end, which was the last event."""
        took = seconds(max(0.0, self._heard - self._began))
        reason = event.get("stopReason")
        failed = event.get("type") == "turn_failed"
        well = not failed and reason == "end_turn"
        how = "failed after" if failed else f"stopped ({escape(str(reason))}) after"
        if well or reason == "cancelled":
            how = "done in" if well else "cancelled after"
        ended = [f"{how} {took}{why_cancelled(event)}"]
        words = [*ended, *usage_words(self._context, event.get("usage"))]
        style: dict[str, Any] = {"dim": True} if well else {"fg": "yellow"}
        rows = wrap(f"■ {' · '.join(words)}", width, "  ")
        return [styled(part, **style) for part in rows]
