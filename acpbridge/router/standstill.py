"""Whether all who hold a place wait for somebody who waits for one: then nobody ever goes on.

Asked before a run is accepted that an agent will wait for. Pure; above is `accepting`, which knows
the sessions, and beside it are the `places` themselves.
"""

from collections.abc import Collection, Hashable, Mapping
from typing import TypeVar

from acpbridge.errors import BridgeError

S = TypeVar("S", bound=Hashable)


def stands_still(
    holders: Collection[S], waits: Mapping[S, Collection[S]], placeless: Collection[S]
) -> bool:
    """Tell whether no holder can come to its end.

    Args:
        holders: who has a place.
        waits: for whom each one's turn waits, all of whom have to come to an end first.
        placeless: who has work and no place.
    """
    stuck = set(placeless) - set(holders)
    before = -1
    while before != len(stuck):
        before = len(stuck)
        stuck |= {one for one in holders if not stuck.isdisjoint(waits.get(one, ()))}
    return bool(holders) and stuck.issuperset(holders)


def would_stand_still(places: int, limit: str = "limits.maxProcesses") -> BridgeError:
    """Return the error for the run that would be waited for by all for ever."""
    message = (
        f"All {places} places ({limit}) are held by sessions that wait for what they"
        " have started, the one that asks among them: this run could never begin."
    )
    hint = f"Raise {limit}, or start it with --detach and end the turn without it."
    return BridgeError("capacity", message, hint=hint)
