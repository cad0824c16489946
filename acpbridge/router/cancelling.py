"""How a session's turns are cancelled: the one that runs, those that wait behind it, or just one.

Above is the session; below are the ladder, the host of its turns, and the life of its process.
"""

from collections.abc import Callable

import anyio

from acpbridge.model.sessions import CancelRung
from acpbridge.router.host import Host
from acpbridge.router.ladder import descend
from acpbridge.router.life import Life
from acpbridge.router.turns import Inbox, Turn


class Cancelling:
    """Cancels the turns of one session.

    Args:
        host: of the turn that runs.
        inbox: where the others wait.
        life: returns the process that there is.
    """

    def __init__(self, host: Host, inbox: Inbox, life: Callable[[], Life | None]) -> None:
        self._host = host
        self._inbox = inbox
        self._life = life

    async def everything(self, grace: float) -> tuple[CancelRung, bool, str | None]:
        """End the running turn and all that wait behind it, down the ladder as far as needed.

        Returns:
            The rung that was reached, whether no turn is left running, and the stop reason.
        """
        turn, waiting = self._host.turn, self._inbox.take_all()  # none of them starts (case 32)
        rung = CancelRung.NONE
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.waiting, waiting)
            if turn is not None:
                rung = await self._running(turn, grace)
        return (rung, True, None) if turn is None else (rung, turn.over, turn.stop_reason)

    async def one(self, turn: Turn, grace: float) -> None:
        """Cancel one turn only, whether it runs or waits."""
        if self._inbox.remove(turn):
            await self._host.cancelled(turn)
        elif self._host.turn is turn:
            await self._running(turn, grace)

    async def waiting(self, turns: list[Turn]) -> None:
        """Cancel turns that were taken out of the inbox."""
        for turn in turns:
            await self._host.cancelled(turn)

    async def _running(self, turn: Turn, grace: float) -> CancelRung:
        if turn.outcome is not None:
            await turn.done.wait()
            return CancelRung.NONE
        self._host.mark_cancelling(turn)
        life = self._life()
        if life is not None and life.agent is not None and life.opened:
            return await descend(turn, life.agent, grace, life.leave)
        # Nothing was sent yet: the turn ends now, and what was started for it after it.
        turn.reach(CancelRung.CANCEL)
        if life is not None:
            life.abandon()
        await self._host.cancelled(turn)
        return turn.rung
