"""The line of those who wait for a place: who may join it, and who would wait in it for ever.

Asked before a run is accepted, while nothing is awaited. Above is `accepting`; below are the places
and who holds them.
"""

from collections.abc import Callable

from acpbridge.config.snapshot import Config
from acpbridge.errors import BridgeError
from acpbridge.model.keys import SessionKey
from acpbridge.router.api import RunRequest
from acpbridge.router.directory import Directory
from acpbridge.router.places import Places
from acpbridge.router.session import Session
from acpbridge.router.standstill import would_stand_still


class Line:
    """Who waits for a place.

    Args:
        directory: the sessions that there are.
        places: of processes.
        config: the configuration in force.
    """

    def __init__(self, directory: Directory, places: Places, config: Callable[[], Config]) -> None:
        self._directory = directory
        self._places = places
        self._config = config

    def waits(self, session: Session) -> bool:
        """Tell whether a session that was just accepted has to wait for a place."""
        return not session.has_place and self._waiting() > 0

    def check_room(self) -> None:
        """Refuse one child more than may wait for a place; none of it exists then (R15).

        Raises:
            BridgeError: `capacity`.
        """
        most = self._config().limits.max_queued_spawns
        waiting = self._waiting()
        if waiting < 0 or waiting < most:
            return
        message = (
            f"All {self._places.taken} places (limits.maxProcesses) are taken, and {waiting}"
            f" sessions wait for one already (limits.maxQueuedSpawns: {most})."
        )
        hint = "Wait for one to end, or raise limits.maxProcesses or limits.maxQueuedSpawns."
        raise BridgeError("capacity", message, hint=hint)

    def check_place(
        self,
        asking: Session | None,
        request: RunRequest,
        wanted: SessionKey | None,
        *,
        lane: bool,
    ) -> None:
        """Refuse what an agent would wait for while all, itself included, wait for a place.

        Args:
            asking: the session whose agent asks, None for a person.
            request: what it asks.
            wanted: the session that needs a place, None for a new one.
            lane: whether that has to be one of the lane.

        Raises:
            BridgeError: `capacity`.
        """
        places = self._places
        if asking is None or asking.turn is None or request.detached:
            return
        if places.full and self._directory.stands_still(asking, wanted):
            raise would_stand_still(places.taken)
        if lane and places.lane_full and self._directory.stands_still(asking, wanted, lane=True):
            raise would_stand_still(len(places.lane), "limits.maxConcurrentSubagents")

    def _waiting(self) -> int:
        """Return how many sessions have work, and no place that is there for them."""
        placeless = sum(session.active and not session.has_place for session in self._directory)
        return placeless - self._places.within_reach
