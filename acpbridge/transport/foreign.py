"""Code of an embedding program's that may not end when it is told to: it can be left behind.

A task group waits for its tasks for ever, and code that shields itself would hold up whoever ends
it. This is the one task that belongs to no group: whoever starts it waits for it, cancels it, and
after a while says that it still runs. The event loop cancels it when it is closed.
"""

import asyncio  # noqa: TID251 -- no task group leaves a task behind
from collections.abc import Awaitable, Callable

import anyio


class Foreign:
    """One piece of such code, which runs from now on.

    Args:
        work: is cancelled when it is to end, and may take its time.

    Attributes:
        running: whether it has not come to its end.
    """

    def __init__(self, work: Callable[[], Awaitable[None]]) -> None:
        self.running = True
        self._over = anyio.Event()
        self._scope = anyio.CancelScope()
        self._error: BaseException | None = None
        # Held here: the event loop itself holds a task by a weak reference only.
        self._task = asyncio.get_running_loop().create_task(self._run(work))

    def cancel(self) -> None:
        """Cancel it; what shields itself goes on."""
        self._scope.cancel()

    def leave(self) -> None:
        """Have nobody wait for it any more."""
        self._over.set()

    async def wait(self) -> None:
        """Wait until it has ended or is left behind; raises what it raised."""
        await self._over.wait()
        if self._error is not None:
            raise self._error

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            # A task below it: a cancellation that the code makes by itself, by awaiting a task that
            # was cancelled, must not pass for one of ours.
            with self._scope:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(_awaited, work)
        except asyncio.CancelledError:
            raise  # the loop is being closed
        except BaseException as error:  # noqa: BLE001 -- the top of a task; raised where it is awaited
            self._error = error
        finally:
            self.running = False
            self._over.set()


async def _awaited(work: Callable[[], Awaitable[None]]) -> None:
    await work()
