"""Tasks beside a body: its error passes as it is, theirs comes in a group, none outlives it."""

import asyncio
import os
import time

import anyio
import anyio.lowlevel
import pytest

from acpbridge.errors import BridgeError
from acpbridge.transport.tasks import background, in_time

HANG = 10


class Life:
    """A task that runs until it is cancelled, and tells that it ended."""

    def __init__(self) -> None:
        self.started = anyio.Event()
        self.ended = False

    async def __call__(self) -> None:
        self.started.set()
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.lowlevel.checkpoint()
            self.ended = True


async def fail() -> None:
    raise ValueError("a task broke")


async def test_leaving_the_body_cancels_the_tasks_and_waits_for_them() -> None:
    lives = [Life(), Life()]
    with anyio.fail_after(HANG):
        async with background(*lives) as tasks:
            late = Life()
            tasks.start_soon(late)
            for life in (*lives, late):
                await life.started.wait()
    assert all(life.ended for life in (*lives, late))


@pytest.mark.parametrize("error", [BridgeError("busy", "x"), KeyError("k"), SystemExit(3)])
async def test_an_error_of_the_body_passes_unwrapped(error: BaseException) -> None:
    life = Life()

    async def run() -> None:
        async with background(life):
            await life.started.wait()
            raise error

    with anyio.fail_after(HANG), pytest.raises(type(error)) as caught:
        await run()
    assert caught.value is error
    assert life.ended


async def test_a_broken_task_cancels_the_body_and_fails_with_a_group() -> None:
    life = Life()
    with anyio.fail_after(HANG), pytest.raises(ExceptionGroup) as caught:
        async with background(life, fail):
            await anyio.sleep_forever()
    assert caught.group_contains(ValueError, match="a task broke")
    assert life.ended


async def test_a_broken_task_is_not_hidden_by_what_the_body_raises_then() -> None:
    async def run() -> None:
        async with background(fail):
            try:
                await anyio.sleep_forever()
            finally:
                raise KeyError("clean-up")

    with anyio.fail_after(HANG), pytest.raises(ExceptionGroup) as caught:
        await run()
    assert caught.group_contains(ValueError)


async def test_a_task_that_breaks_while_it_is_cancelled_fails_with_a_group() -> None:
    started = anyio.Event()

    async def stubborn() -> None:
        try:
            started.set()
            await anyio.sleep_forever()
        finally:
            raise ValueError("at the end")

    with anyio.fail_after(HANG), pytest.raises(ExceptionGroup) as caught:
        async with background(stubborn):
            await started.wait()
    assert caught.group_contains(ValueError, match="at the end")


async def test_a_cancel_from_outside_passes_through() -> None:
    life = Life()
    reached = False
    with anyio.fail_after(HANG), anyio.CancelScope() as outer:
        async with background(life):
            await life.started.wait()
            outer.cancel()
            await anyio.sleep_forever()
        reached = True
    assert outer.cancelled_caught
    assert not reached
    assert life.ended


async def test_a_cancel_from_outside_passes_through_where_there_are_no_tasks() -> None:
    reached = False
    with anyio.fail_after(HANG), anyio.CancelScope() as outer:
        async with background():
            outer.cancel()
            await anyio.sleep_forever()
        reached = True
    assert outer.cancelled_caught
    assert not reached


async def test_cancelling_the_group_itself_ends_the_body_quietly() -> None:
    life = Life()
    with anyio.fail_after(HANG):
        async with background(life) as tasks:
            await life.started.wait()
            tasks.cancel_scope.cancel()
            await anyio.sleep_forever()
    assert life.ended


async def test_a_native_cancel_passes_through() -> None:
    life = Life()

    async def run() -> None:
        async with background(life):
            await anyio.sleep_forever()

    task = asyncio.create_task(run())
    with anyio.fail_after(HANG):
        await life.started.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert task.cancelled()
    assert life.ended


async def test_the_caller_can_be_cancelled_again_afterwards() -> None:
    with anyio.fail_after(HANG):
        for _ in range(3):
            with anyio.move_on_after(0) as limit:
                async with background(Life()):
                    await anyio.sleep_forever()
            assert limit.cancelled_caught
        await anyio.lowlevel.checkpoint()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_without_tasks_it_is_a_place_to_start_them() -> None:
    async with background() as tasks:
        done = anyio.Event()

        async def one() -> None:
            done.set()

        tasks.start_soon(one)
        with anyio.move_on_after(HANG):
            await done.wait()
    assert done.is_set()


async def test_what_came_in_time_is_seen_by_who_was_stopped_beyond_the_limit() -> None:
    """With `anyio.fail_after` in its place: TimeoutError, though the answer lies in the pipe."""
    near, far = os.pipe()
    answered = anyio.Event()

    async def read() -> None:
        await anyio.wait_readable(near)
        await anyio.lowlevel.checkpoint()
        answered.set()

    async def work() -> str:
        await anyio.lowlevel.checkpoint()
        os.write(far, b"x")
        time.sleep(0.05)  # noqa: ASYNC251 - stopped, as by SIGSTOP, for longer than the limit
        await answered.wait()
        return "answered"

    try:
        with anyio.fail_after(10):
            async with background(read):
                assert await in_time(0.01, work) == "answered"
    finally:
        os.close(near)
        os.close(far)


async def test_work_that_does_not_end_in_time_is_cancelled_and_its_error_is_its_own() -> None:
    with anyio.fail_after(10):
        with pytest.raises(TimeoutError):
            await in_time(0.01, anyio.sleep_forever)

        async def broken() -> None:
            raise ValueError("its own")

        with pytest.raises(ValueError, match="its own"):
            await in_time(10, broken)
