"""Moments and lengths of time as people read them; the moments of rows are text of ISO 8601.

Standard library only, for the quick commands. How people write them is the business of `spans`.
"""

from datetime import UTC, datetime
from typing import Any, Final

# In place of what cannot be told.
NOTHING: Final = "-"


def now() -> str:
    """Return the moment as it is compared with those in rows."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def clock(moment: Any) -> str:
    """Return a moment as a person here reads it: the local time of day."""
    try:
        return datetime.fromisoformat(str(moment)).astimezone().strftime("%H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return NOTHING


def whole_seconds(count: float) -> str:
    """Return a number of seconds in its largest two units."""
    seconds = int(count)
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02}s"
    if seconds < 86400:
        return f"{seconds // 3600}h{seconds % 3600 // 60:02}m"
    return f"{seconds // 86400}d{seconds % 86400 // 3600:02}h"


def seconds(count: float) -> str:
    """Return a number of seconds as `whole_seconds` does, few of them with their tenths."""
    return f"{count:.1f}s" if count < 10 else whole_seconds(count)


def age(since: Any, now: Any) -> str:
    """Return the time between two moments in its largest two units."""
    try:
        return whole_seconds(max(0, _between(since, now)))
    except (ValueError, TypeError):
        return NOTHING


def seconds_between(since: Any, now: Any) -> str:
    """Return the time between two moments in seconds alone."""
    try:
        return f"{max(0, int(_between(since, now)))} s"
    except (ValueError, TypeError):
        return NOTHING


def time_left(expires: Any, now: str) -> str:
    """Return how long it is until a moment, in words; "" if that cannot be told."""
    try:
        left = max(0, round(_between(now, expires)))
    except (ValueError, TypeError):
        return ""
    units = ((86400, "d"), (3600, "h"), (60, "min"), (1, "s"))
    parts = []
    for size, unit in units:
        if left >= size:
            parts.append(f"{left // size} {unit}")
            left %= size
    return " ".join(parts[:2]) or "0 s"


def _between(since: Any, now: Any) -> float:
    """Return the seconds between two moments; raises what they deserve if they are none."""
    past = datetime.fromisoformat(str(now)) - datetime.fromisoformat(str(since))
    return past.total_seconds()
