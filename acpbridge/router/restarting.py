"""How a session gets a new process because a person wants one, and what is said of it.

What it has spawned is ended first, as by a kill (G12). It is an answer only after the new agent has
answered: a restart that was begun is seen through, and whoever asked for it may go away meanwhile.
"""

import time
from collections.abc import Callable
from functools import partial

from acpbridge.errors import BridgeError
from acpbridge.model.requesters import Requester
from acpbridge.router.authorize import Action
from acpbridge.router.directory import Directory
from acpbridge.router.ending import Ending
from acpbridge.router.receipts import RestartReceipt, RestartRequest
from acpbridge.router.services import Services
from acpbridge.router.session import Session
from acpbridge.router.surroundings import Inspector, Surroundings


class Restarting:
    """Restarts sessions.

    Args:
        directory: the sessions that there are.
        inspector: what really runs.
        ending: sees through what was begun, and tells the audit.
        services: the log, which an earlier daemon's session is not known to yet.
        around: learns the secrets of the caller's environment.
        start: runs a session's task.
    """

    def __init__(
        self,
        directory: Directory,
        inspector: Inspector,
        ending: Ending,
        services: Services,
        around: Surroundings,
        start: Callable[[Session], None],
    ) -> None:
        self._directory = directory
        self._inspector = inspector
        self._ending = ending
        self._services = services
        self._around = around
        self._start = start

    async def restart(self, request: RestartRequest, requester: Requester) -> RestartReceipt:
        """Give a session a new process; see `RouterApi.restart`."""
        session = self._directory.find(request.key, requester, Action.RESTART)

        async def work() -> RestartReceipt:
            try:
                receipt = await self._restart(session, request)
            except BridgeError as error:
                await self._ending.note("restart", session.key, requester, error=error.code)
                raise
            pids = {"was": list(receipt.was), "agent": receipt.pid}
            await self._ending.note("restart", session.key, requester, **pids)
            return receipt

        return await self._ending.seen_through(work)

    async def _restart(self, session: Session, request: RestartRequest) -> RestartReceipt:
        began = time.monotonic()
        before = await self._inspector.processes(str(session.key))
        await session.open_log()
        self._around.learn(request.env)
        order = await session.restart(
            request.env,
            self._start,
            partial(self._ending.end_below, session),
            force=request.force,
            fresh=request.fresh,
        )
        alive = await self._inspector.alive(before)
        return RestartReceipt(
            key=session.key,
            pid=order.pid,
            was=tuple(process.pid for process in before if process.pid not in alive),
            opens=session.record.opens,
            mode=session.mode,
            context_lost=order.context_lost,
            took_ms=round((time.monotonic() - began) * 1000),
        )
