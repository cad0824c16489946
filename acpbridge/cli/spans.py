"""How long and since when, as a person writes it: `90s`, `30d`, `12`, `2026-01-31T12:00`. Pure."""

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import click

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_DURATION: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhdw])", re.ASCII)

# Longer than anybody keeps anything, and within what the daemon takes. Seconds.
_LONGEST: Final = 30 * 366 * 86400


@dataclass(frozen=True, slots=True)
class Since:
    """Where a log is begun: behind a number, or at a moment."""

    after: int = 0
    moment: str = ""


def read_duration(ctx: click.Context, param: click.Parameter, value: str | None) -> float | None:
    """Return the seconds of an option's `90s`, `10m`, `2h`, `30d` or `4w`."""
    if value is None:
        return None
    seconds = duration(value)
    if seconds is None:
        message = f"{value!r} is no length of time; write 90s, 10m, 2h, 30d or 4w."
        raise click.BadParameter(message, ctx, param)
    return seconds


def read_since(ctx: click.Context, param: click.Parameter, value: str | None) -> Since:
    """Return what an option means: a number, a length of time before now, or a moment."""
    if value is None:
        return Since()
    found = since(value, datetime.now(UTC))
    if found is None:
        message = (
            f"{value!r} is neither a number of an event, nor a length of time (10m, 2h),"
            " nor a moment (2026-01-31T12:00)."
        )
        raise click.BadParameter(message, ctx, param)
    return found


def duration(text: str) -> float | None:
    """Return the seconds of a length of time, None if it is none."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        return None
    seconds = float(found[1]) * _UNITS[found[2]]
    return seconds if seconds <= _LONGEST else None


def since(text: str, now: datetime) -> Since | None:
    """Return where a log is to be begun, None if nobody can tell; a bare moment is local time."""
    text = text.strip()
    if text.isascii() and text.isdecimal():
        return Since(after=int(text)) if len(text) <= 15 else None
    seconds = duration(text)
    try:
        if seconds is not None:
            moment = now - timedelta(seconds=seconds)
        else:
            moment = datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return Since(moment=moment.isoformat(timespec="milliseconds"))
