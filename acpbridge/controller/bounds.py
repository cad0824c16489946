"""What one session's tree may take, and what is to be said of what it takes. Pure.

Above, `usage` asks the kernel and the router acts; here is only the comparison.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

# A warning comes at this part of a limit: early enough for a person to act.
WARNING_AT: Final = 0.8

MIB: Final = 1024**2


class Figure(StrEnum):
    """What is limited, by the key of the configuration."""

    PROCESSES = "limits.maxProcessesPerSession"
    MEMORY = "limits.maxRssMb"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of one session's tree; None for no limit.

    Attributes:
        processes: that live, the agent counted and its shim not.
        memory: bytes, of all of them together.
    """

    processes: int | None = None
    memory: int | None = None

    @property
    def none(self) -> bool:
        """Whether nothing is limited."""
        return self.processes is None and self.memory is None


NO_BOUNDS: Final = Bounds()


def bounds(max_processes: int, max_rss_mb: int) -> Bounds:
    """Return the limits as the configuration has them: 0 for none, memory in MiB."""
    return Bounds(max_processes or None, max_rss_mb * MIB or None)


@dataclass(frozen=True, slots=True)
class Usage:
    """What a tree was seen to take.

    Attributes:
        processes: that live; zombies hold no memory and run no code, and are not counted.
        memory: bytes; see `usage.measure` for what they are.
    """

    processes: int
    memory: int

    def plus(self, other: "Usage") -> "Usage":
        """Return what two trees take together."""
        return Usage(self.processes + other.processes, self.memory + other.memory)

    def least(self, other: "Usage") -> "Usage":
        """Return what both looks vouch for."""
        return Usage(min(self.processes, other.processes), min(self.memory, other.memory))


@dataclass(frozen=True, slots=True)
class Finding:
    """A figure that is near its limit, or beyond it.

    Attributes:
        figure: which.
        value: as seen: a number of processes, or bytes.
        limit: in the same unit.
        over: whether the value is beyond the limit, and not only near.
    """

    figure: Figure
    value: int
    limit: int
    over: bool

    def words(self) -> str:
        """Return value and limit, for people."""
        if self.figure is Figure.PROCESSES:
            return f"it has {self.value} processes, and {self.figure} is {self.limit}"
        mib = f"{self.value / MIB:.0f} MiB"
        return f"its processes hold {mib} of memory, and {self.figure} is {self.limit // MIB}"


def judge(usage: Usage, limits: Bounds) -> tuple[Finding, ...]:
    """Return what is near its limit or beyond it, what is beyond first."""
    pairs = (
        (Figure.PROCESSES, usage.processes, limits.processes),
        (Figure.MEMORY, usage.memory, limits.memory),
    )
    found = [
        Finding(figure, value, limit, over=value > limit)
        for figure, value, limit in pairs
        if limit is not None and value >= limit * WARNING_AT
    ]
    return tuple(sorted(found, key=lambda finding: not finding.over))
