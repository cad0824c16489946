"""How a tree is held together and ended: one interface, whatever the kernel offers.

`shim` works everywhere: a subreaper per agent finds all but what outlives daemon, keeper and shim
together. With `cgroup2` each tree is also born in a control group of its own, which nobody leaves
by hiding: the shim has the kernel kill it as its last step, and the next start ends what was left.
`pidns` gives an agent a pid namespace, whose end is the end of all in it. Above is the supervisor;
what a shim does with a hold is `transport.helpers.shim`'s; `cgroups` finds the hierarchy.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from acpbridge.controller.cgroups import Cgroups
from acpbridge.errors import BridgeError
from acpbridge.transport.helpers import kernel
from acpbridge.transport.helpers.cgroup import Cgroup
from acpbridge.transport.tree import Child, KillReceipt

# As definitions ask for them and status shows them.
AUTO: Final = "auto"
SHIM: Final = "shim"
CGROUP2: Final = "cgroup2"
PIDNS: Final = "pidns"


@dataclass(frozen=True, slots=True)
class Hold:
    """How one tree is held.

    Attributes:
        name: as status shows it.
        cgroup: its control group, where it has one.
        weaker: whether a plain shim will do where the kernel refuses this.
    """

    name: str
    cgroup: Cgroup | None = None
    weaker: bool = False

    @property
    def folder(self) -> str:
        """The directory of its control group, "" for none."""
        return "" if self.cgroup is None else os.fsdecode(self.cgroup.path)

    def rows(self) -> list[kernel.Process]:
        """Return who lives in its control group; empty where it has none."""
        return [] if self.cgroup is None else self.cgroup.rows()

    def holds(self, pid: int) -> bool:
        """Tell whether a process is in its control group, wherever it hangs in the tree."""
        return self.cgroup is not None and self.cgroup.path.rpartition(b"/")[2] in groups_of(pid)

    def release(self) -> None:
        """Remove its control group once the tree is proven dead."""
        if self.cgroup is not None:
            self.cgroup.remove()


PLAIN: Final = Hold(SHIM)


class Containment(Protocol):
    """A way to hold and to end trees."""

    @property
    def name(self) -> str:
        """What an agent gets that asks for nothing, as status shows it."""
        ...

    def hold(self, asked: str) -> Hold:
        """Make ready to hold one more tree.

        Args:
            asked: `auto`, `shim`, `cgroup2` or `pidns`.

        Raises:
            BridgeError: `start_failed`, when what was asked for cannot be had: a weaker one never
                takes its place.
        """
        ...

    async def end(self, child: Child, grace: float) -> KillReceipt:
        """End the whole tree; never raises, and is bounded.

        Args:
            child: whose tree.
            grace: seconds from the end of its input to TERM; 0 goes straight to the last step.
        """
        ...


class ShimContainment:
    """Trees are what the shim, a subreaper, has below it; control groups only where they are given.

    Args:
        cgroups: where control groups can be made, None for nowhere.
    """

    def __init__(self, cgroups: Cgroups | None = None) -> None:
        self._cgroups = cgroups

    @property
    def name(self) -> str:
        """`cgroup2` where control groups can be made, else `shim`."""
        return SHIM if self._cgroups is None else CGROUP2

    def hold(self, asked: str = AUTO) -> Hold:
        """Make ready to hold one more tree; see `Containment.hold`."""
        if asked == PIDNS:
            return Hold(PIDNS)
        if asked == SHIM or (asked == AUTO and self._cgroups is None):
            return PLAIN
        if self._cgroups is None:
            message = "There is no cgroup v2 hierarchy here in which a control group can be made."
            raise BridgeError("start_failed", message, hint=_CGROUP_HINT)
        try:
            return Hold(CGROUP2, self._cgroups.make(), weaker=asked == AUTO)
        except OSError as error:
            if asked == AUTO:
                return PLAIN
            message = f"No control group can be made in {self._cgroups.place}: {error.strerror}."
            raise BridgeError("start_failed", message, hint=_CGROUP_HINT) from error

    def sweep(self) -> list[int]:
        """End what an earlier daemon left in control groups; return who was killed. Blocks."""
        return [] if self._cgroups is None else self._cgroups.sweep()

    async def end(self, child: Child, grace: float) -> KillReceipt:
        """End the tree through its shim."""
        return await child.stop(grace)


def containment_of(home: Path) -> ShimContainment:
    """Return the strongest containment that this machine has for a state directory."""
    return ShimContainment(Cgroups.find(home))


def groups_of(pid: int) -> list[bytes]:
    """Return the names of the control groups (version 2) that a process is in, outermost first."""
    for line in kernel.read_file(f"/proc/{pid}/cgroup").splitlines():
        if line.startswith(b"0::"):
            return line[3:].split(b"/")
    return []


_CGROUP_HINT: Final = (
    "Start the daemon where its cgroup is delegated (systemd-run --user --scope -p Delegate=yes), "
    "or remove `containment: cgroup2` from the agent's definition."
)
