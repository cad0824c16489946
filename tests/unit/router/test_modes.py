"""What the audit has of modes (G30): each change and refusal, and no more than it can write."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import anyio
import pytest

from acpbridge.errors import BridgeError
from acpbridge.model.events import Fact
from acpbridge.model.keys import SessionKey
from acpbridge.router.modes import MOST_WAITING, ModeAudit, record
from tests.unit.router.world import FAKE, world

KEY = SessionKey.main(FAKE)


def changed(before: str | None, mode: str, *, bypass: bool = False) -> Fact:
    return Fact("mode_changed", {"before": before, "mode": mode, "by": "agent", "bypass": bypass})


def test_g30_what_of_events_is_on_record() -> None:
    assert record(changed("a", "b")) == (
        "mode_changed",
        {"from": "a", "to": "b", "by": "agent", "bypass": False},
    )
    refused = {"kind": "mode_refused", "by": "client", "message": "no"}
    assert record(Fact("notice", refused)) == ("mode_refused", {"by": "client", "reason": "no"})
    let_go = {"kind": "bypass", "what": "Option 'x'", "message": "m"}
    assert record(Fact("notice", let_go)) == (
        "mode_changed",
        {"to": "Option 'x'", "by": "agent", "bypass": True},
    )
    for other in (Fact("notice", {"kind": "silent"}), Fact("turn_queued", {})):
        assert record(other) is None


async def test_g30_an_agent_that_changes_its_mode_without_end_takes_no_room_from_the_ledger(
    tmp_path: Path,
) -> None:
    told: list[dict[str, Any]] = []

    async def audited(_kind: str, fields: Any) -> None:
        told.append(dict(fields))

    async with world(tmp_path) as w:
        services = replace(w.services, audited=audited)
        modes = ModeAudit(services, KEY)
        for n in range(MOST_WAITING + 1000):
            modes.tell(None, changed(str(n), str(n + 1)))
        await services.scribe.written()
        assert len(told) == MOST_WAITING
        modes.tell("t", changed("a", "b"))
        await services.scribe.written()
    assert sum(fields["left_out"] for fields in told) == 1000
    assert (told[-1]["turn"], told[-1]["to"], told[-1]["session"]) == ("t", "b", str(KEY))


@pytest.mark.parametrize("fault", ["full", "hangs"])
async def test_g30_an_audit_that_cannot_be_told_holds_nobody_up(
    fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acpbridge.router.modes.NOTE_WAIT", 0.01)

    async def audited(_kind: str, _fields: Any) -> None:
        if fault == "full":
            raise BridgeError("store_full", "full")
        await anyio.sleep_forever()

    written: list[int] = []

    async def write() -> None:
        written.append(1)

    async with world(tmp_path) as w:
        services = replace(w.services, audited=audited)
        ModeAudit(services, KEY).tell(None, changed("a", "b"))
        services.scribe.put(write)
        await services.scribe.written()
    assert written == [1]
