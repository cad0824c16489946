"""G18, G20: the audit over several files is one chain, at whatever moment its turn is cut off."""

import errno
import itertools
import json
import os
import shutil
import stat
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from acpbridge.model.faults import Faults, no_faults
from acpbridge.permissions import audit as audits
from acpbridge.permissions.audit import Audit
from acpbridge.permissions.chain import (
    CONTINUED,
    Damage,
    Harm,
    check,
    files,
    last_decisions,
    records,
    records_backwards,
    verify,
)
from tests.unit.killing import killed_at


class Clock:
    def wall(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return 0.0


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audits, "FILE_LIMIT", 1000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


def opened(path: Path, faults: Faults = no_faults) -> Audit:
    return Audit.open(path, boot_id="b", clock=Clock(), faults=faults)


def write(audit: Audit, numbers: Iterator[int] | range) -> None:
    async def note() -> None:
        for number in numbers:
            await audit.record("tick", {"n": number}, durable=number % 2 == 0)

    try:
        anyio.run(note)
    finally:
        audit.close()


def ticks(path: Path) -> list[int]:
    return [record["n"] for record in records(path) if record["kind"] == "tick"]


def filled(path: Path, number: int = 20) -> list[Path]:
    write(opened(path), range(number))
    found = files(path)
    assert len(found) > 3
    return found


def test_g20_a_full_file_is_kept_under_a_number_and_the_chain_goes_on(path: Path) -> None:
    found = filled(path)
    names = [file.name for file in found]
    assert names == [f"audit.{n:06d}.jsonl" for n in range(1, len(found))] + ["audit.jsonl"]
    assert ticks(path) == list(range(20))
    assert [r["seq"] for r in records(path)] == list(range(1, 20 + len(found)))
    for before, after in itertools.pairwise(found):
        first = json.loads(after.read_bytes().splitlines()[0])
        last = json.loads(before.read_bytes().splitlines()[-1])
        assert (first["kind"], first["after"]) == (CONTINUED, before.name)
        assert first["prev_hash"] == last["hash"]
    assert check(path).damage is None
    assert list(records_backwards(path)) == list(records(path))[::-1]


def test_the_chain_goes_on_after_a_restart_in_whichever_file_it_was(path: Path) -> None:
    for number in range(30):
        write(opened(path), range(number, number + 1))
    assert ticks(path) == list(range(30))
    assert len(files(path)) > 3
    assert verify(path) == (30 + len(files(path)) - 1, None)


def test_case_88_full_files_are_their_owners_alone(path: Path) -> None:
    before = os.umask(0)
    try:
        found = filled(path)
    finally:
        os.umask(before)
    assert {stat.S_IMODE(file.stat().st_mode) for file in found} == {0o600}


@pytest.mark.parametrize("point", ["audit.link", "audit.replace", "audit.write", "audit.written"])
@pytest.mark.parametrize("passing", [1, 2, 5])
def test_g18_a_kill_in_the_middle_of_a_turn_costs_nothing(
    path: Path, point: str, passing: int
) -> None:
    killed_at(point, passing, lambda faults: write(opened(path, faults), range(20)))
    assert path.exists()
    whole = ticks(path)
    assert whole == list(range(len(whole)))
    write(opened(path), range(len(whole), 30))
    assert ticks(path) == list(range(30))
    assert check(path).damage is None
    assert not list(path.parent.glob("*.new"))
    assert len(files(path)) == len(list(path.parent.iterdir()))  # none has two names


@pytest.mark.parametrize("failing", ["audit.link", "audit.replace"])
def test_g28_where_no_other_file_can_be_begun_the_full_one_is_gone_on_with(
    path: Path, failing: str
) -> None:
    def full_disk(point: str) -> int | None:
        if point == failing:
            raise OSError(errno.ENOSPC, "no space")
        return None

    write(opened(path, full_disk), range(20))
    assert ticks(path) == list(range(20))
    assert [file.name for file in path.parent.iterdir()] == ["audit.jsonl"]
    write(opened(path), range(20, 22))
    assert ticks(path) == list(range(22))
    assert len(files(path)) == 2


def test_what_stands_in_the_place_of_a_full_file_is_passed_over(path: Path) -> None:
    (path.parent / "audit.000001.jsonl").mkdir()
    (path.parent / "audit.000002.jsonl").symlink_to("/etc/hostname")
    write(opened(path), range(8))
    write(opened(path), range(8, 10))
    assert ticks(path) == list(range(10))
    assert next(file.name for file in files(path)) == "audit.000003.jsonl"


def test_every_kind_of_damage_is_found_where_it_is(path: Path) -> None:
    found = filled(path)
    one, two, three = found[:3]
    kept = path.parent / "kept"
    kept.mkdir()
    for file in found:
        shutil.copy(file, kept / file.name)

    def restore() -> None:
        for file in found:
            shutil.copy(kept / file.name, file)

    lines = two.read_bytes().splitlines(keepends=True)
    two.write_bytes(b"".join([lines[0], lines[1].replace(b'"n":', b'"m":'), *lines[2:]]))
    assert check(path).damage == Damage(two, 2, Harm.CHANGED)
    restore()
    two.write_bytes(b"".join([lines[0], *lines[2:]]))
    assert check(path).damage == Damage(two, 2, Harm.BROKEN)
    restore()
    two.write_bytes(b"".join([lines[0], lines[2], lines[1], *lines[3:]]))
    assert check(path).damage == Damage(two, 2, Harm.BROKEN)
    restore()
    two.write_bytes(b"".join(lines[:-1]))
    assert check(path).damage == Damage(three, 1, Harm.BROKEN)
    restore()
    two.unlink()
    assert check(path).damage == Damage(three, 1, Harm.BROKEN)
    restore()
    one.unlink()
    assert check(path).damage == Damage(two, 1, Harm.BROKEN)
    restore()
    shutil.copy(kept / two.name, three)
    shutil.copy(kept / three.name, two)
    assert check(path).damage == Damage(two, 1, Harm.BROKEN)
    restore()
    path.unlink()
    assert check(path).damage == Damage(path, 1, Harm.MISSING)
    restore()
    assert check(path).damage is None


def test_g18_every_prefix_of_the_last_file_is_a_whole_chain_with_a_torn_tail(path: Path) -> None:
    found = filled(path, 14)
    data = path.read_bytes()
    before = sum(len(file.read_bytes().splitlines()) for file in found[:-1])
    for size in range(len(data)):
        path.write_bytes(data[:size])
        got = check(path)
        torn = size - (data[:size].rfind(b"\n") + 1)
        assert (got.damage, got.torn_bytes) == (None, torn)
        assert got.records == before + data[:size].count(b"\n")


def test_every_flipped_bit_of_any_file_is_found(path: Path) -> None:
    for file in filled(path, 12):
        data = bytearray(file.read_bytes())
        for at in range(0, len(data) - 1, 7):
            data[at] ^= 1
            file.write_bytes(data)
            got = check(path)
            assert got.damage is not None, (file.name, at)
            assert got.damage.file == file
            data[at] ^= 1
        file.write_bytes(data)


def test_what_was_decided_just_before_a_turn_is_still_found(path: Path) -> None:
    by = {"role": "operator", "client_id": "c1", "pid": 1}
    fields = {
        "request_uid": "q1",
        "decision": "deny",
        "option_id": None,
        "reason": "operator",
        "note": "",
        "decided_by": by,
        "rule_id": "ask",
    }

    async def decide() -> None:
        await audit.record("permission_decided", fields, durable=True)

    audit = opened(path)
    anyio.run(decide)
    audit.close()
    write(opened(path), range(8))
    assert len(files(path)) > 2
    assert list(last_decisions(path, {"q1"})) == ["q1"]
