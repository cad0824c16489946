"""Writes that nobody waits for: in order, until the ledger takes them, and not for ever."""

import anyio
import pytest

from acpbridge.errors import BridgeError
from acpbridge.router import scribe as module
from acpbridge.router.scribe import Scribe, Write


def write(done: list[int], n: int, *failures: Exception) -> Write:
    left = list(failures)

    async def attempt() -> None:
        if left:
            raise left.pop(0)
        done.append(n)

    return attempt


async def test_writes_keep_their_order_through_a_full_disk(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "RETRY", 0.01)
    done: list[int] = []
    full = BridgeError("store_full", "full")
    with anyio.fail_after(30):
        async with Scribe() as scribe:
            scribe.put(write(done, 0))
            scribe.put(write(done, 1, full, full))
            scribe.put(write(done, 2))
            await scribe.written()
            assert done == [0, 1, 2]
            scribe.put(write(done, 3))
            await scribe.written()
    assert done == [0, 1, 2, 3]


async def test_a_write_that_can_never_work_is_given_up() -> None:
    done: list[int] = []
    with anyio.fail_after(30):
        async with Scribe() as scribe:
            scribe.put(write(done, 0, ZeroDivisionError()))
            scribe.put(write(done, 1))
    assert done == [1]  # what was put before the end was still written


async def test_a_disk_that_stays_full_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "FLUSH", 0.05)
    full = BridgeError("store_full", "full")
    done: list[int] = []
    with anyio.fail_after(30):
        async with Scribe() as scribe:
            scribe.put(write(done, 0, *[full] * 1000))
    assert done == []  # it was given up, and not tried to its end
