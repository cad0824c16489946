"""How long a daemon lives: until it is told to stop, by a signal or a client, or is idle too long.

The verdict "idle" and the order to stop are given without an await in between. A client that comes
right after it finds nobody, or is told that the daemon is stopping, and has the next one started.
"""

import os
import signal
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import anyio
import structlog

from acpbridge.errors import BridgeError

log = structlog.get_logger(__name__)

# How often it is looked whether there is anything to do; and whether anybody wants to know, for the
# configuration may change meanwhile. Seconds.
IDLE_PACE: Final = 1.0
UNWANTED_PACE: Final = 30.0

Row = Mapping[str, Any]


class Lifetime:
    """The end of one daemon, and who brings it about.

    Args:
        detached: without a terminal of its own, so that a hang-up means nothing to it.
    """

    def __init__(self, *, detached: bool) -> None:
        self._detached = detached
        self._over = anyio.Event()

    def stopping(self) -> bool:
        """Tell whether the end has begun."""
        return self._over.is_set()

    async def over(self) -> None:
        """Wait for the beginning of the end."""
        await self._over.wait()

    def stop(self, force: bool) -> None:  # noqa: FBT001 - one of two words on the wire
        """Begin the end, or end at once."""
        if force:
            leave_now()
        self._over.set()

    async def obey_signals(self) -> None:
        """The first signal stops politely, the second at once (case 107).

        A hang-up stops a daemon in the foreground; one that was started detached outlives it.
        """
        with anyio.open_signal_receiver(signal.SIGTERM, signal.SIGINT, signal.SIGHUP) as signals:
            async for number in signals:
                if number == signal.SIGHUP and self._detached:
                    continue
                log.info("signal", name=signal.Signals(number).name)
                self.stop(self.stopping())

    async def leave_when_idle(
        self,
        limit: Callable[[], float | None],
        idle_since: Callable[[], float | None],
        busy: Callable[[], bool],
    ) -> None:
        """Begin the end when there was nobody and nothing for as long as the configuration says.

        Args:
            limit: seconds, None for ever.
            idle_since: since when there is no client, None while there is one.
            busy: whether a session has a process or anything to do.
        """
        busy_at = anyio.current_time()
        while not self.stopping():
            wanted, free = limit(), idle_since()
            now = anyio.current_time()
            if free is None or busy():
                busy_at = now
            elif wanted is not None and now - max(busy_at, free) >= wanted:
                log.info("idle", seconds=round(now - max(busy_at, free)))
                self._over.set()
                return
            await anyio.sleep(UNWANTED_PACE if wanted is None else min(IDLE_PACE, wanted / 4))


def check_idle(rows: Sequence[Row]) -> None:
    """Check that no turn runs or waits and no question is open.

    Args:
        rows: of `sessions`.

    Raises:
        BridgeError: `busy`, naming what would be cancelled.
    """
    found = [row for row in rows if row["turn"] or row["queueDepth"] or row["pendingPermissions"]]
    if not found:
        return
    questions = sum(row["pendingPermissions"] for row in found)
    what = [_count(len(found), "session has work", "sessions have work")]
    if questions:
        what.append(_count(questions, "question is open", "questions are open"))
    message = f"{' and '.join(what)}: {'; '.join(map(_told, found))}."
    data = {"sessions": [row["key"] for row in found], "pendingPermissions": questions}
    hint = "Wait, or end it all the same: acpbridge daemon stop --yes."
    raise BridgeError("busy", message, hint=hint, data=data)


def _told(row: Row) -> str:
    turn = row["turn"]
    parts = [] if turn is None else [f"{turn['state']}, waits for {turn['waitsFor']}"]
    if row["queueDepth"]:
        parts.append(f"{row['queueDepth']} queued")
    return f"{row['key']} ({', '.join(parts) or 'a question is open'})"


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def leave_now() -> None:
    """End at once: the channels close, and every shim kills its tree without grace."""
    os._exit(1)
