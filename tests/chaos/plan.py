"""The schedule of faults, drawn from a seed. Pure: the same seed gives the same schedule."""

import random
from dataclasses import dataclass
from typing import Final

AGENTS: Final = 8
CLIENTS: Final = 4
PAUSE: Final = 0.15  # between two faults, in seconds
CRASH_EVERY: Final = 8.0  # between two SIGKILLs of the daemon, in seconds
STORM: Final = 0.64  # the part of the time in which the daemon is killed too; then it stays

# How often each fault is drawn. What ends every agent at once is rare, or nothing else would live.
WEIGHTS: Final = {
    "kill_agent": 6,
    "stop_agent": 8,
    "kill_client": 5,
    "kill_shim": 4,
    "stop_shim": 4,
    "kill_keeper": 1,
    "stop_keeper": 1,
    "kill_guard": 1,
    "slow_client": 2,
    "bad_frame_socket": 10,
    "bad_frame_agent": 8,
    "reload": 5,
    "reload_policy": 5,
    "cancel": 10,
    "kill_session": 8,
    "restart_session": 5,
    "double_answer": 8,
    "look": 6,
    "harmless_signal": 6,
}
# Never daemon, keeper and shim at once: that hole is documented, and tested elsewhere.
CRASHES: Final = ("alone", "with_keeper", "with_guard", "with_shim", "alone")


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault.

    Attributes:
        at: seconds from the beginning.
        kind: what is done; a key of WEIGHTS, `kill_daemon` or `stop_daemon`.
        target: number of an agent, or of a client.
        seconds: how long it lasts, where it does.
        how: chooses among the ways to do it.
    """

    at: float
    kind: str
    target: int
    seconds: float
    how: int


def make_plan(seed: int, seconds: float) -> tuple[Fault, ...]:
    """Return the faults of a run, in order.

    Args:
        seed: what they are drawn from.
        seconds: of load; the daemon is killed in the first part of it only.
    """
    draw = random.Random(f"plan/{seed}")
    faults = [
        _draw(draw, at * PAUSE, draw.choices(list(WEIGHTS), list(WEIGHTS.values()))[0])
        for at in range(1, int(seconds / PAUSE))
    ]
    storm = seconds * STORM
    # A short run has its two crashes too.
    every = min(CRASH_EVERY, storm / 2)
    crash = every
    while crash < storm - every / 3:
        faults.append(_draw(draw, crash, "kill_daemon"))
        crash += every * draw.uniform(0.9, 1.1)
    faults.append(_draw(draw, storm * draw.uniform(0.2, 0.4), "stop_daemon"))
    return tuple(sorted(faults, key=lambda fault: fault.at))


def _draw(draw: random.Random, at: float, kind: str) -> Fault:
    seconds = 1.0 if kind == "stop_daemon" else round(draw.uniform(0.2, 1.5), 2)
    return Fault(round(at, 3), kind, draw.randrange(AGENTS), seconds, draw.randrange(1 << 16))
