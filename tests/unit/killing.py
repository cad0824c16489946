"""Runs a function in a forked child that is SIGKILLed at a fault point."""

import os
import signal
from collections.abc import Callable

from acpbridge.model.faults import Faults


def killed_at(where: str, nth: int, work: Callable[[Faults], object]) -> bool:
    """Tell whether the work came to the n-th passing of the point, and died there."""
    pid = os.fork()
    if pid == 0:
        passed = 0

        def faults(point: str) -> None:
            nonlocal passed
            passed += point == where
            if passed == nth:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            work(faults)
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) == -signal.SIGKILL
