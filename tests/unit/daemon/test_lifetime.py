"""When a daemon ends by itself, and what keeps it from being stopped without a word."""

from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acpbridge.daemon.lifetime import Lifetime, check_idle
from acpbridge.errors import BridgeError
from acpbridge.transport.tasks import background


def row(key: str, **fields: Any) -> dict[str, Any]:
    return {"key": key, "turn": None, "queueDepth": 0, "pendingPermissions": 0, **fields}


def test_only_with_work_there_is_something_to_ask() -> None:
    check_idle([])
    check_idle([row("ready")])
    for work in ({"queueDepth": 1}, {"pendingPermissions": 1}):
        with pytest.raises(BridgeError) as caught:
            check_idle([row("ready"), row("busy", **work)])
        assert caught.value.data["sessions"] == ["busy"]


def test_what_would_be_cancelled_is_named() -> None:
    rows = [
        row("idle"),
        row("one", turn={"state": "running", "waitsFor": "model"}, queueDepth=2),
        row("two", turn={"state": "waiting", "waitsFor": "permission"}, pendingPermissions=1),
    ]
    with pytest.raises(BridgeError) as caught:
        check_idle(rows)
    error = caught.value
    assert error.code == "busy"
    assert error.message == (
        "2 sessions have work and 1 question is open: one (running, waits for model, 2 queued); "
        "two (waiting, waits for permission)."
    )
    assert error.data == {"sessions": ["one", "two"], "pendingPermissions": 1}
    assert "--yes" in error.hint


class Place:
    """What a lifetime looks at."""

    def __init__(self) -> None:
        self.limit: float | None = 0.2
        self.since: float | None = None
        self.work = False
        self.looks = 0

    def idle_since(self) -> float | None:
        self.looks += 1
        return self.since

    async def looked(self) -> None:
        seen = self.looks
        with anyio.fail_after(30):
            while self.looks < seen + 2:
                await anyio.lowlevel.checkpoint()


async def test_it_ends_once_nobody_and_nothing_was_there_for_so_long() -> None:
    place, lifetime = Place(), Lifetime(detached=True)

    async def watch() -> None:
        await lifetime.leave_when_idle(lambda: place.limit, place.idle_since, lambda: place.work)

    async with background(watch):
        await place.looked()  # a client is there
        place.since, place.work = 0.0, True
        await place.looked()  # a session has work
        assert not lifetime.stopping()
        began = anyio.current_time()
        place.work = False
        with anyio.fail_after(30):
            await lifetime.over()
        # The client left long ago; the work ended at the last look before it was told to.
        assert anyio.current_time() - began > 0.1


async def test_without_a_limit_it_stays() -> None:
    place, lifetime = Place(), Lifetime(detached=True)
    place.limit, place.since = None, 0.0
    with anyio.move_on_after(0.2):
        await lifetime.leave_when_idle(lambda: place.limit, place.idle_since, lambda: place.work)
    assert (lifetime.stopping(), place.looks) == (False, 1)
    lifetime.stop(False)
    await lifetime.leave_when_idle(lambda: 0.0, place.idle_since, lambda: place.work)
    assert place.looks == 1
