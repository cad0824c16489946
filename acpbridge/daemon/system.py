"""The ports of `model.ports` on a real machine: clocks, random names, armed fault points."""

import os
import signal
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime

from acpbridge.errors import BridgeError
from acpbridge.model.ports import Faults, no_faults


class SystemClock:
    """The clocks of the machine."""

    def wall(self) -> datetime:
        """Return the wall-clock time in UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds of CLOCK_MONOTONIC."""
        return time.monotonic()


class RandomIds:
    """Unique names from the kernel's random numbers."""

    def uuid4(self) -> uuid.UUID:
        """Return a version 4 uuid."""
        return uuid.uuid4()


def faults_from(environ: Mapping[str, str]) -> Faults:
    """Return the fault points that `ACPBRIDGE_FAULT=POINT:N` arms: the N-th pass is fatal."""
    armed = environ.get("ACPBRIDGE_FAULT")
    if not armed:
        return no_faults
    wanted, _, number = armed.partition(":")
    if number and not number.isdecimal():
        raise BridgeError("usage", "ACPBRIDGE_FAULT is written POINT:N, with a number N.")
    left = [int(number or 1)]

    def pass_point(point: str) -> None:
        if point == wanted:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    return pass_point
