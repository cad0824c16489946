"""Archives sessions that were spawned with `cleanup: delete`, once their end was announced.

An archived session is closed for good and has no process; what happened in it is kept until it is
pruned like any other. What is to be archived is seen from the records, so that a daemon that died
in between leaves it to the next one. Above is the toolbox; below are the sessions and the ledger.
"""

import anyio
import structlog

from acpbridge.errors import BridgeError
from acpbridge.model.sessions import CloseReason
from acpbridge.router.directory import Directory
from acpbridge.router.services import Services
from acpbridge.router.session import Session

log = structlog.get_logger(__name__)

# A ledger that cannot be read is looked at again after so long. Seconds.
RETRY = 1.0


class Archiving:
    """Archives what is over.

    Args:
        directory: the sessions that there are.
        services: the ledger, and what wakes it.
    """

    def __init__(self, directory: Directory, services: Services) -> None:
        self._directory = directory
        self._services = services

    async def serve(self) -> None:
        """Archive until cancelled: a task."""
        while True:
            news = self._services.tidings.news
            try:
                await self._look()
            except BridgeError as error:
                log.warning("what is over cannot be archived yet", code=error.code)
                await anyio.sleep(RETRY)
                continue
            except Exception:
                # The top of a task.
                log.exception("what is over could not be archived")
            await news.wait()

    async def _look(self) -> None:
        if not self._over():
            return
        unfinished = await self._services.ledger.unfinished()
        # Looked at again: one may have been given work while the ledger was read.
        async with anyio.create_task_group() as tasks:
            for session in self._over():
                if str(session.key) not in unfinished:
                    tasks.start_soon(session.end, CloseReason.CLEANUP, None)

    def _over(self) -> list[Session]:
        """Return those that have nothing to do, and nothing that works below them."""
        found = [s for s in self._directory if s.record.cleanup == "delete" and _idle(s)]
        above = self._directory.above_active() if found else set()
        return [session for session in found if session.key not in above]


def _idle(session: Session) -> bool:
    return not session.closing and session.turn is None and not session.inbox.expected
