"""Streams over pipes: nothing is lost, nobody starves, and a close wakes who waits."""

import os

import anyio
import pytest

from acpbridge.transport.pipes import PipeReader, PipeWriter

HANG = 10


def pipe() -> tuple[PipeReader, PipeWriter]:
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    return PipeReader(read), PipeWriter(write)


async def test_bytes_larger_than_the_pipe_arrive_whole() -> None:
    reader, writer = pipe()
    data = os.urandom(1_000_000)
    got = bytearray()

    async def write() -> None:
        await writer.send(data)
        await writer.aclose()

    with anyio.fail_after(HANG):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            async for chunk in reader:
                got += chunk
    await reader.aclose()
    assert got == data


async def test_the_end_comes_after_what_is_still_in_the_pipe() -> None:
    reader, writer = pipe()
    await writer.send(b"last words")
    writer.close()
    assert await reader.receive(4) == b"last"
    assert await reader.receive() == b" words"
    with pytest.raises(anyio.EndOfStream):
        await reader.receive()
    reader.close()
    reader.close()


async def test_a_reader_that_always_finds_bytes_lets_others_run() -> None:
    reader, writer = pipe()
    others = 0

    async def other() -> None:
        nonlocal others
        while True:
            others += 1
            await anyio.lowlevel.checkpoint()

    with anyio.fail_after(HANG):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(other)
            for _ in range(20):
                await writer.send(b"x")
                await reader.receive()
            tasks.cancel_scope.cancel()
    assert others >= 20
    reader.close()
    writer.close()


async def test_a_cancelled_read_loses_nothing() -> None:
    reader, writer = pipe()
    with anyio.CancelScope() as scope:
        await writer.send(b"kept")
        scope.cancel()
        await reader.receive()
    assert await reader.receive() == b"kept"
    reader.close()
    writer.close()


async def test_a_close_wakes_who_waits_and_a_second_user_is_refused() -> None:
    reader, writer = pipe()
    seen: list[type[Exception]] = []

    async def wait() -> None:
        try:
            await reader.receive()
        except anyio.ClosedResourceError as error:
            seen.append(type(error))

    with anyio.fail_after(HANG):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(anyio.BusyResourceError):
                await reader.receive()
            await reader.aclose()
    assert seen == [anyio.ClosedResourceError]
    with pytest.raises(anyio.ClosedResourceError):
        await reader.receive()
    writer.close()


async def test_writing_where_nobody_reads_is_a_broken_resource() -> None:
    reader, writer = pipe()
    reader.close()
    with pytest.raises(anyio.BrokenResourceError):
        await writer.send(b"x")
    await writer.aclose()
    with pytest.raises(anyio.ClosedResourceError):
        await writer.send(b"x")
