"""What a client holds of the events that nobody has read yet."""

import json
from collections.abc import Sequence

import anyio
import pytest

from acpbridge.daemon import client as module
from acpbridge.daemon.client import DaemonClient, EventLine, Events
from acpbridge.protocol.jsonrpc import Notification


def lines(*sizes: int) -> list[EventLine]:
    return [EventLine(b"x" * size, {}) for size in sizes]


async def test_g14_it_is_full_by_bytes_and_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BYTES_HELD", 1000)
    monkeypatch.setattr(module, "EVENTS_HELD", 10)
    events = Events()
    events.put(lines(999))
    assert not events.full
    events.put(lines(1))
    room = events.room
    assert await full(events)
    await events.next()
    assert room.is_set()
    assert not await full(events)
    events.put(lines(*[1] * 9))
    assert await full(events)


async def full(events: Events) -> bool:
    return events.full


def told(follow: int, seqs: Sequence[int]) -> Notification:
    params = {"follow": follow, "events": [{"seq": seq} for seq in seqs]}
    line = json.dumps({"method": "events", "params": params})
    return Notification("events", params, line.encode())


class Daemon:
    """Answers `follow` with the next number, after events of it have come already."""

    def __init__(self, client: DaemonClient) -> None:
        self.closed = anyio.Event()
        self._client = client
        self._number = 0

    async def drained(self) -> None:
        return

    async def request(self, method: str, params: object) -> object:
        del method, params
        self._number += 1
        self._client.on_notification(told(self._number, [1, 2]))
        return {"follow": self._number, "newest": 2}

    def notify(self, method: str, params: object) -> None:
        del method, params


async def test_what_still_comes_for_one_who_was_let_go_is_dropped() -> None:
    """Without `_expected`, `assert client._early == {}` fails: it was kept for ever."""
    client = DaemonClient()
    client.connection = Daemon(client)  # type: ignore[assignment]
    async with client.follow("k", 0) as events:
        assert (await events.next()).value == {"seq": 1}
    client.on_notification(told(1, range(1000)))
    assert client._early == {}
    async with client.follow("k", 0) as events:
        assert (await events.next()).value == {"seq": 1}
