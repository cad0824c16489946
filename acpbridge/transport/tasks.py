"""Tasks beside a body of code, for every class here that owns tasks.

A task group wraps whatever its body raises; a caller who awaits one error would have to look for it
in a group. `background` lets the body's own error pass as it is, and still fails with a group when
one of its tasks breaks.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import anyio
from anyio.abc import TaskGroup

T = TypeVar("T")

# In this time what lies in a pipe is read and taken in. Seconds.
LAST_LOOK: Final = 0.2


@asynccontextmanager
async def background(
    *functions: Callable[[], Coroutine[Any, Any, Any]],
) -> AsyncIterator[TaskGroup]:
    """Run functions beside the body; leaving it cancels them and waits for them."""
    tasks = anyio.create_task_group()
    await tasks.__aenter__()
    for function in functions:
        tasks.start_soon(function)
    try:
        yield tasks
    except anyio.get_cancelled_exc_class() as cancelled:
        tasks.cancel_scope.cancel()
        if not await tasks.__aexit__(type(cancelled), cancelled, cancelled.__traceback__):
            raise
    except BaseException:
        tasks.cancel_scope.cancel()
        await tasks.__aexit__(None, None, None)
        raise
    else:
        tasks.cancel_scope.cancel()
        await tasks.__aexit__(None, None, None)


async def in_time(seconds: float, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Return what comes of work that has a limit; what came in time is seen, however late.

    A process that was stopped for longer than the limit finds both when it is continued: that the
    time is over, and an answer that has been there for long. So there is one look more.

    Args:
        seconds: the limit.
        work: is cancelled at its end.

    Raises:
        TimeoutError: nothing came.
    """
    with anyio.CancelScope() as scope:

        async def limit() -> None:
            await anyio.sleep(seconds)
            await anyio.sleep(LAST_LOOK)
            scope.cancel()

        async with background(limit):
            return await work()
    raise TimeoutError


class Owner(ABC):
    """A class that owns tasks or other contexts: it is entered and left with all of them.

    Whoever enters it must also leave it, in the same task.
    """

    _stack: AsyncExitStack

    @abstractmethod
    async def _enter(self, stack: AsyncExitStack) -> None:
        """Enter what is owned, in order; if that fails, what was entered is left again."""

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self._enter(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        return await self._stack.__aexit__(kind, error, trace)
