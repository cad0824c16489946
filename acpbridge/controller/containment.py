"""How a tree is held together and ended: one interface, whatever the kernel offers.

`shim` works everywhere: a subreaper per agent finds all but what outlives daemon, keeper and shim
together. A control group and a pid namespace come behind the same interface.
"""

from typing import Protocol

from acpbridge.transport.tree import Child, KillReceipt


class Containment(Protocol):
    """A way to hold and to end a tree."""

    @property
    def name(self) -> str:
        """As status shows it."""
        ...

    async def end(self, child: Child, grace: float) -> KillReceipt:
        """End the whole tree; never raises, and is bounded.

        Args:
            child: whose tree.
            grace: seconds from the end of its input to TERM; 0 goes straight to the last step.
        """
        ...


class ShimContainment:
    """The tree is what the shim, a subreaper, has below it."""

    name = "shim"

    async def end(self, child: Child, grace: float) -> KillReceipt:
        """End the tree through its shim."""
        return await child.stop(grace)
