"""Tasks beside a body of code, for every class here that owns tasks.

A task group wraps whatever its body raises; a caller who awaits one error would have to look for it
in a group. `background` lets the body's own error pass as it is, and still fails with a group when
one of its tasks breaks.
"""

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup


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
