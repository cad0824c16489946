"""What the control socket's server is handed besides the router, by whoever composes it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from acpbridge.model.faults import Faults, no_faults
from acpbridge.model.requesters import Requester
from acpbridge.router.claiming import Claim


async def unclaimed(who: Requester, _claim: Claim) -> Requester:
    """Return who a peer is where nobody may say anything of itself."""
    return who


@dataclass(frozen=True, slots=True)
class Duties:
    """What the server is handed besides the router.

    Attributes:
        owner_of: whose tree a pid is in, by ancestry and marker; blocks for a few reads.
        vanished: told of a client that is gone.
        stop: begins the end of the daemon; True ends it without politeness.
        denied: told of a connection that was refused.
        limit: bytes of one line.
        stopping: whether the daemon is on its way out.
        notify: how a command calls the person at its terminal.
        claimed: who a peer is that says something of itself; it raises what is wrong with that.
        faults: points at which a test may fail.
    """

    owner_of: Callable[[int], str | None]
    vanished: Callable[[str], Awaitable[None]]
    stop: Callable[[bool], None]
    denied: Callable[[int, int], Awaitable[None]]
    limit: int
    stopping: Callable[[], bool] = lambda: False
    notify: Callable[[], str] = lambda: "bell"
    claimed: Callable[[Requester, Claim], Awaitable[Requester]] = unclaimed
    faults: Faults = no_faults
