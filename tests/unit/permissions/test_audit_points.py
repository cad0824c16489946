"""G18, G20: an audit whose repair is cut off by a kill is repaired by the next start."""

import errno
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from acpbridge.errors import BridgeError
from acpbridge.model.faults import Faults, no_faults
from acpbridge.permissions.audit import Audit, verify
from tests.unit.killing import killed_at


class Clock:
    def wall(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return 0.0


def opened(path: Path, faults: Faults = no_faults) -> Audit:
    return Audit.open(path, boot_id="b", clock=Clock(), faults=faults)


def write(audit: Audit, *kinds: str) -> None:
    async def note() -> None:
        for kind in kinds:
            await audit.note(kind, {})

    anyio.run(note)
    audit.close()


def test_a_kill_while_a_torn_tail_is_dropped_leaves_it_to_the_next_start(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(opened(path), "first", "second")
    whole = path.read_bytes()
    path.write_bytes(whole[:-20])
    assert killed_at("audit.recover", 1, lambda faults: opened(path, faults))
    assert path.read_bytes() == whole[:-20]
    audit = opened(path)
    assert audit.torn_bytes > 0
    write(audit, "third")
    assert verify(path) == (2, None)


def test_a_kill_before_a_failed_write_is_taken_back_leaves_a_torn_tail(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(opened(path), "first")
    whole = path.read_bytes()

    def work(kill: Faults) -> None:
        def faults(point: str) -> int | None:
            kill(point)
            return 7 if point == "audit.write" else None

        write(opened(path, faults), "second")

    assert killed_at("audit.cut", 1, work)
    assert len(path.read_bytes()) == len(whole) + 7
    write(opened(path), "third")
    assert verify(path) == (2, None)


async def test_row_32_a_record_that_cannot_be_taken_back_stops_all_others(tmp_path: Path) -> None:
    path, broken = tmp_path / "audit.jsonl", [True]

    def faults(point: str) -> int | None:
        if broken[0] and point == "audit.cut":
            raise OSError(errno.EIO, "test")
        return 7 if broken[0] and point == "audit.write" else None

    audit = opened(path, faults)
    for _ in range(3):
        with pytest.raises(BridgeError):
            await audit.note("never", {})
    assert path.stat().st_size == 7
    broken[0] = False
    await audit.note("first", {})
    audit.close()
    assert verify(path) == (1, None)
