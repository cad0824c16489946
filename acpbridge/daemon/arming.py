"""`ACPBRIDGE_FAULT`: a daemon that a test has armed to fail at a named point. For tests only.

It is a variable of the daemon's own environment and nothing else: no configuration, no workspace
and no client can set it for one that runs, and `status` warns of it. Above is the composition root;
the points are those of `acpbridge.model.faults`.

    ACPBRIDGE_FAULT=POINT[:WHEN[:ACTION]][,...]

WHEN is the number of the passing, 1 by default: `3`, `3-5`, or `3-` for every one from the third.
ACTION is `kill` (the default: SIGKILL to this process), `enospc`, `eio`, `emfile`, `enomem` (such
an error), or, where something is written, `short` (only a few bytes are) and `torn` (the same, and
a kill at the next point that is passed).
"""

import errno
import os
import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import Final

from acpbridge.errors import BridgeError
from acpbridge.model.faults import POINTS, Faults, Kind, no_faults

VARIABLE: Final = "ACPBRIDGE_FAULT"

_ERRORS: Final = {
    "enospc": errno.ENOSPC,
    "eio": errno.EIO,
    "emfile": errno.EMFILE,
    "enomem": errno.ENOMEM,
}
_PARTIAL: Final = ("short", "torn")
_ACTIONS: Final = ("kill", *_ERRORS, *_PARTIAL)

# What a partial write gets done: within the first word of anything we write. Bytes.
SHORT: Final = 7

_ONE: Final = re.compile(r"([a-z_.]+)(?::(\d+)(-?)(\d*)(?::([a-z]+))?)?")
_FOREVER: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Armed:
    """One point, the passings at which something happens, and what."""

    point: str
    first: int = 1
    last: int = 1
    action: str = "kill"


class ArmedFaults:
    """Faults that happen as they were asked for; to be passed from any thread."""

    def __init__(self, armed: list[Armed]) -> None:
        self._armed = armed
        # Counting from several threads: the next number is taken in one step.
        self._passed = {one.point: count(1) for one in armed}
        self._torn = False

    def __call__(self, point: str) -> int | None:
        """Pass the point; see `Faults`."""
        if self._torn:
            self._die()
        if point not in self._passed:
            return None
        number = next(self._passed[point])
        actions = [
            one.action
            for one in self._armed
            if one.point == point and one.first <= number <= one.last
        ]
        self._torn = "torn" in actions
        if "kill" in actions:
            self._die()
        for action in actions:
            if action in _ERRORS:
                code = _ERRORS[action]
                raise OSError(code, f"{os.strerror(code)} (armed at {point})")
        return SHORT if actions else None

    def _die(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


def faults_from(environ: Mapping[str, str]) -> tuple[Faults, list[str]]:
    """Return the faults that the environment arms, and what an operator should know of that.

    A point or action that does not exist arms nothing, which is said.

    Raises:
        BridgeError: `usage`, when the text is written otherwise than it should be.
    """
    text = environ.get(VARIABLE)
    if not text:
        return no_faults, []
    armed, unknown = list[Armed](), list[str]()
    for part in text.split(","):
        one = _read(part)
        if _exists(one):
            armed.append(one)
        else:
            unknown.append(part)
    notices = [f"{VARIABLE} is set, which is for tests: this daemon is armed to fail."] * bool(
        armed
    )
    notices += [f"{VARIABLE}: there is no {part!r}; it is ignored." for part in unknown]
    return (ArmedFaults(armed) if armed else no_faults), notices


def _read(part: str) -> Armed:
    found = _ONE.fullmatch(part)
    if found is None:
        message = f"{VARIABLE} is written POINT:N[:ACTION], with a number N."
        raise BridgeError("usage", message, hint=f"Unset it, or correct it: {part!r}.")
    point, first, span, last, action = found.groups()
    start = int(first or 1)
    end = int(last) if last else _FOREVER if span else start
    return Armed(point, start, end, action or "kill")


def _exists(one: Armed) -> bool:
    kind = POINTS.get(one.point)
    if kind is None or one.action not in _ACTIONS:
        return False
    return (
        one.action == "kill"
        or kind is Kind.WRITE
        or (kind is Kind.BEFORE and one.action not in _PARTIAL)
    )
