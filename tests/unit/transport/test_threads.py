"""Threads that may be left behind: whoever waits can give up, and there is an end to it."""

import queue
import threading

import anyio
import pytest

from acpbridge.transport.threads import Threads


async def test_it_returns_and_raises_what_the_work_does() -> None:
    threads = Threads(600, 1)
    assert await threads.run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
    assert await threads.run(lambda: 8) == 8


async def test_as_many_run_at_once_as_there_are_places() -> None:
    threads, meeting = Threads(600, 2), threading.Barrier(2)
    met: list[int] = []

    async def meet() -> None:
        met.append(await threads.run(meeting.wait))

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for _ in range(6):
                tasks.start_soon(meet)
    assert sorted(met) == [0, 0, 0, 1, 1, 1]


async def test_who_gives_up_leaves_a_thread_behind_that_still_counts() -> None:
    threads = Threads(600, 2)
    hangs: queue.SimpleQueue[None] = queue.SimpleQueue()
    begun: queue.SimpleQueue[None] = queue.SimpleQueue()

    def hang() -> None:
        begun.put(None)
        hangs.get()

    with anyio.fail_after(60):
        for _ in range(2):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(threads.run, hang)
                await anyio.to_thread.run_sync(begun.get)
                tasks.cancel_scope.cancel()
        try:
            with pytest.raises(TimeoutError, match="have not ended"):
                await threads.run(lambda: 7)
        finally:
            hangs.put(None)
            hangs.put(None)
        while True:  # until they have come back
            try:
                assert await threads.run(lambda: 7) == 7
                break
            except TimeoutError:
                await anyio.lowlevel.checkpoint()
