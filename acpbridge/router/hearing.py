"""Hears how a run ends, for whoever waits for it: then that is announced to nobody else.

A wait that is over takes nothing away: the run goes on, and its end is announced. Above is `send`.
"""

from contextlib import AbstractContextManager
from typing import Final, Protocol

import anyio

from acpbridge.model.requesters import Requester, Role
from acpbridge.router.api import RunReceipt, RunResult
from acpbridge.router.runs import Runs
from acpbridge.router.said import final_text
from acpbridge.router.services import Services
from acpbridge.transport.tasks import background

# Who looks at what came of a message; its sender was let through before it was sent.
_BRIDGE: Final = Requester(Role.SYSTEM, client_id="send")


class Announcer(Protocol):
    """Tells a session of the end of what it has asked for."""

    def holding(self, run_id: str) -> AbstractContextManager[None]:
        """Return a context within which nobody is told of the end of a run."""
        ...

    async def claim(self, run_id: str) -> bool:
        """Take a completion that was got otherwise; False if it is told already."""
        ...


class Hearing:
    """Waits for runs.

    Args:
        runs: knows how they end.
        services: the log, and how time passes.
        announcer: tells whoever did not wait.
    """

    def __init__(self, runs: Runs, services: Services, announcer: Announcer) -> None:
        self._runs = runs
        self._services = services
        self._announcer = announcer

    async def whole(self, receipt: RunReceipt) -> RunResult:
        """Wait for the end of a run, however long that takes."""
        return await self._runs.result(receipt.run_id, _BRIDGE)

    async def end(self, receipt: RunReceipt, seconds: float, *, due: bool) -> RunResult | None:
        """Wait for the end of a run; None if that did not come in time.

        Args:
            receipt: of the run.
            seconds: to wait at most.
            due: whether it would be announced to whoever waits: that is what it gets here, once
                (case 133).
        """
        with self._announcer.holding(receipt.run_id):
            result = await self._wait(receipt, seconds)
            if result is not None and due:
                await self._announcer.claim(receipt.run_id)
            return result

    async def reply(self, receipt: RunReceipt) -> str:
        """Return the last that the agent of a run said, which has ended."""
        return await final_text(self._services.log, receipt.key, receipt.run_id)

    async def _wait(self, receipt: RunReceipt, seconds: float) -> RunResult | None:
        with anyio.CancelScope() as scope:

            async def limit() -> None:
                await self._services.sleep(seconds)
                scope.cancel()

            async with background(limit):
                return await self.whole(receipt)
        return None
