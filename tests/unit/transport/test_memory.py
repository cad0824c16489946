"""Two connected ends in memory behave like a pair of pipes."""

from contextlib import AsyncExitStack

import anyio
import pytest

from acpbridge.transport.memory import memory_pair

HANG = 10


async def test_what_one_end_sends_the_other_receives_in_order() -> None:
    here, there = memory_pair()
    with anyio.fail_after(HANG):
        for number in range(50):
            await here.send(b"%d," % number)
        await here.aclose()
        got = b"".join([await there.receive() for _ in range(50)])
        with pytest.raises(anyio.EndOfStream):
            await there.receive()
    assert got == b"".join(b"%d," % number for number in range(50))
    await there.aclose_both()
    await here.aclose_both()


async def test_both_directions_are_separate() -> None:
    here, there = memory_pair()
    await here.aclose()
    await there.send(b"still open")
    assert await here.receive() == b"still open"
    await here.aclose_both()
    await there.aclose_both()


async def test_a_read_is_cut_to_the_size_asked_for() -> None:
    here, there = memory_pair()
    await here.send(b"abcdef")
    assert [await there.receive(4), await there.receive(1), await there.receive()] == [
        *(b"abcd", b"e"),
        b"f",
    ]
    await here.aclose_both()
    await there.aclose_both()


async def test_sending_nothing_does_not_read_as_the_end() -> None:
    here, there = memory_pair()
    await here.send(b"")
    await here.send(b"x")
    assert await there.receive() == b"x"
    await here.aclose_both()
    await there.aclose_both()


async def test_writing_to_an_end_that_is_gone_fails() -> None:
    here, there = memory_pair()
    await there.aclose_both()
    with pytest.raises(anyio.BrokenResourceError):
        await here.send(b"x")
    await here.aclose()
    with pytest.raises(anyio.BrokenResourceError):
        await here.send(b"x")
    await here.aclose_both()


async def test_a_full_pair_makes_the_writer_wait() -> None:
    here, there = memory_pair(buffered=2)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(here.aclose_both)
        stack.push_async_callback(there.aclose_both)
        await here.send(b"a")
        await here.send(b"b")
        sent = anyio.Event()

        async def third() -> None:
            await here.send(b"c")
            sent.set()

        with anyio.fail_after(HANG):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(third)
                await anyio.wait_all_tasks_blocked()
                assert not sent.is_set()
                assert await there.receive() == b"a"
                await sent.wait()
