"""Row 24: who may not answer is refused, on record; who hammers is counted, and fills no disk."""

from pathlib import Path

import pytest

from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.permission import Effect
from acpbridge.model.requesters import Requester, Role
from acpbridge.permissions import refusals
from tests.unit.permissions.test_broker import ONE, TWO, Desk, desk, disk_full, request


async def hammer(at: Desk, by: Requester, times: int) -> None:
    for _ in range(times):
        assert (await at.fails("q1", by, effect=Effect.ALLOW)).code == "permission_denied"


async def test_row_24_beyond_a_number_refusals_are_counted_and_told_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "MOST", 3)
    async with desk(tmp_path) as at:
        await at.open(request())
        # New connections make no new requester of an agent.
        for number in range(10):
            await hammer(at, Requester(Role.AGENT, TWO, client_id=f"c{number}"), 1)
        assert [record["not_recorded"] for record in at.records()] == [0, 0, 0]
        await hammer(at, Requester(Role.AGENT, ONE), 1)
        assert at.records()[-1]["requester"]["session"] == str(ONE)
        await at.broker.tell()
        last = at.records()[-1]
        assert (last["kind"], last["not_recorded"]) == ("permission_refused", 7)
        assert last["requester"]["session"] == str(TWO)
        await at.broker.tell()
        assert len(at.records()) == 5
        assert at.open_ids() == ["q1"]


async def test_row_24_after_a_minute_they_are_recorded_again_with_the_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "MOST", 1)
    async with desk(tmp_path) as at:
        by = Requester(Role.AGENT, TWO)
        await hammer(at, by, 5)
        monkeypatch.setattr(refusals, "SECONDS", 0.0)
        await hammer(at, by, 1)
        assert [record["not_recorded"] for record in at.records()] == [0, 4]


async def test_row_24_so_many_requesters_are_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refusals, "REQUESTERS", 2)
    monkeypatch.setattr(refusals, "MOST", 1)
    async with desk(tmp_path) as at:
        for name in ("a", "b", "c", "c", "a"):
            await hammer(at, Requester(Role.AGENT, SessionKey.main(AgentId(name))), 1)
        seen = [record["requester"]["session"] for record in at.records()]
        assert seen == [f"agent:{name}:main" for name in ("a", "b", "c", "a")]


async def test_row_24_what_a_full_disk_does_not_take_is_counted(tmp_path: Path) -> None:
    async with desk(tmp_path) as at:
        at.at_point = disk_full
        for name in ("a", "b", "a"):
            await hammer(at, Requester(Role.AGENT, SessionKey.main(AgentId(name))), 1)
        at.log.clear()
        await at.broker.tell()
        assert at.log.count("audit.write") == 1  # it is not tried for each of them
        at.at_point = None
        for _ in range(2):
            await at.broker.tell()
        told = {r["requester"]["session"]: r["not_recorded"] for r in at.records()}
        assert told == {"agent:a:main": 2, "agent:b:main": 1}
        assert len(at.records()) == 2
