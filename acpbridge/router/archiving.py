"""Archives sessions that were spawned with `cleanup: delete`, once their end was announced.

The files that were given to a child are removed then too, and with the end of one that is kept.

An archived session is closed for good and has no process; what happened in it is kept until it is
pruned like any other. What is to be archived is seen from the records, so that a daemon that died
in between leaves it to the next one. Above is the toolbox; below are the sessions and the ledger.
"""

from collections.abc import Callable

import anyio
import structlog

from acpbridge.errors import BridgeError
from acpbridge.model.sessions import CloseReason
from acpbridge.router.attachments import Staging
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
        staging: the files that were given.
        retain: whether those of a session that is kept are kept too.
    """

    def __init__(
        self,
        directory: Directory,
        services: Services,
        staging: Staging,
        retain: Callable[[], bool],
    ) -> None:
        self._directory = directory
        self._services = services
        self._staging = staging
        self._retain = retain

    async def serve(self) -> None:
        """Archive until cancelled: a task."""
        await self._staging.find()
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
        if not self._over() and not self._staging.held:
            return
        unfinished = await self._services.ledger.unfinished()
        # Looked at again: one may have been given work while the ledger was read.
        async with anyio.create_task_group() as tasks:
            for session in self._over():
                if str(session.key) not in unfinished:
                    tasks.start_soon(session.end, CloseReason.CLEANUP, None)
        for unique in self._done_with(unfinished):
            await self._staging.remove(unique)

    def _done_with(self, unfinished: set[str]) -> list[str]:
        """Return whose files are of no use any more."""
        sessions = {s.key.parts[0]: s for s in self._directory if s.key.kind == "subagent"}
        out = []
        for unique in self._staging.held:
            session = sessions.get(unique)
            if session is None or session.closed:
                out.append(unique)
                continue
            done = _idle(session) and str(session.key) not in unfinished
            if done and not self._retain():
                out.append(unique)
        return out

    def _over(self) -> list[Session]:
        """Return those that have nothing to do, and nothing that works below them."""
        found = [s for s in self._directory if s.record.cleanup == "delete" and _idle(s)]
        above = self._directory.above_active() if found else set()
        return [session for session in found if session.key not in above]


def _idle(session: Session) -> bool:
    return not session.closing and session.turn is None and not session.inbox.expected
