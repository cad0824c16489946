"""Watches what the processes of one session take, and says when that is near a limit or beyond it.

The kernel is asked once a second, while a limit is set. Above is the life of a process, which ends
it when told to; below are `controller.bounds`, which compares, and the supervisor, which looks.
"""

from typing import Final

import structlog

from acpbridge.controller.bounds import Bounds, Figure, Finding, judge
from acpbridge.errors import BridgeError
from acpbridge.model.events import Fact
from acpbridge.model.keys import SessionKey
from acpbridge.router.host import Host
from acpbridge.router.services import Services

log = structlog.get_logger(__name__)

# As the census of the journal. Seconds.
PACE: Final = 1.0


class Overuse:
    """What one process and all below it may take: the limits as they were when it was started.

    Args:
        host: takes the notice.
        services: the limits, the looks, and sleep.
    """

    def __init__(self, host: Host, services: Services) -> None:
        self._host = host
        self._services = services
        self._bounds: Bounds = services.bounds()
        self._told: set[Figure] = set()

    async def beyond(self) -> BridgeError | None:
        """Wait until the tree is beyond a limit and return the error; None where there is none.

        Each figure that comes near its limit is told of once, by a notice.
        """
        if self._bounds.none:
            return None
        while True:
            await self._services.sleep(PACE)
            for finding in await self._look():
                if finding.over:
                    log.warning("over a limit", key=str(self._host.key), why=finding.words())
                    return _error(finding)
                self._tell(finding)

    async def near(self) -> list[str]:
        """Return a warning for each figure that is near its limit now, for `status`."""
        if self._bounds.none:
            return []
        return [_warning(self._host.key, finding) for finding in await self._look()]

    async def _look(self) -> tuple[Finding, ...]:
        try:
            usage = await self._services.usage(str(self._host.key), self._bounds)
        except OSError as error:
            # Nothing is known then, and nothing is ended for it.
            log.warning("a tree could not be looked at", key=str(self._host.key), error=str(error))
            return ()
        return () if usage is None else judge(usage, self._bounds)

    def _tell(self, finding: Finding) -> None:
        if finding.figure in self._told:
            return
        self._told.add(finding.figure)
        message = f"{finding.words()}; beyond it the session's processes are ended"
        self._host.emit(Fact("notice", {"kind": "near_limit", "message": message}))


def _warning(key: SessionKey, finding: Finding) -> str:
    return f"{key}: {finding.words()}; beyond it they are ended"


def _error(finding: Finding) -> BridgeError:
    words = finding.words()
    data = {"limit": finding.figure, "value": finding.value, "allowed": finding.limit}
    return BridgeError("over_limit", f"{words[0].upper()}{words[1:]}: it was ended.", data=data)
