"""The chain of audit records: written whole or not at all, and every change of it shows."""

import errno
import hashlib
import json
import os
import resource
import signal
import stat
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from acpbridge.errors import BridgeError
from acpbridge.model.faults import Faults, no_faults
from acpbridge.permissions.audit import Audit, last_decisions, verify
from acpbridge.permissions.chain import GENESIS
from acpbridge.redact import Redactor


class StoppedClock:
    def wall(self) -> datetime:
        return datetime(2026, 1, 2, tzinfo=UTC)

    def monotonic(self) -> float:
        return 1.5


def opened(path: Path, faults: Faults = no_faults, **more: Callable[[Any], Any]) -> Audit:
    return Audit.open(path, boot_id="boot", clock=StoppedClock(), faults=faults, **more)


def records(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def content(path: Path) -> bytes:
    return path.read_bytes()


async def written(path: Path, count: int) -> bytes:
    audit = opened(path)
    for number in range(count):
        await audit.record("kill", {"n": number}, durable=False)
    audit.close()
    return content(path)


async def test_a_record_is_one_line_that_names_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = opened(path)
    await audit.record("permission_decided", {"decision": "allow"}, durable=True)
    await audit.note("kill", {"pids": [1, 2]})
    audit.close()
    first, second = records(path)
    assert first["prev_hash"] == GENESIS
    assert second["prev_hash"] == first["hash"]
    assert (first["seq"], second["seq"]) == (1, 2)
    assert first["ts_wall"] == "2026-01-02T00:00:00+00:00"
    assert (first["ts_mono"], first["boot_id"]) == (1.5, "boot")
    assert second["pids"] == [1, 2]
    assert verify(path) == (2, None)


async def test_g23_the_file_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.touch(0o666)
    path.chmod(0o666)
    opened(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_link_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "audit.jsonl").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic link"):
        opened(tmp_path / "audit.jsonl")


def test_a_file_that_cannot_be_made_private_is_not_kept_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_fd: int, _mode: int) -> None:
        raise PermissionError(errno.EPERM, "test")

    monkeypatch.setattr(os, "fchmod", refuse)
    before = len(list(Path("/proc/self/fd").iterdir()))
    with pytest.raises(PermissionError):
        opened(tmp_path / "audit.jsonl")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


@pytest.mark.parametrize("body", ['{"seq":1}', '{"seq":"x","prev_hash":""}', "[]", "[1}"])
def test_a_line_with_a_true_hash_and_no_sense_is_bad(tmp_path: Path, body: str) -> None:
    path = tmp_path / "audit.jsonl"
    digest = hashlib.sha256(body[:-1].encode() + b"}").hexdigest()
    path.write_text(f'{body[:-1]},"hash":"{digest}"}}\n', encoding="utf-8")
    assert verify(path) == (0, 1)
    opened(path).close()


async def test_the_chain_goes_on_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    await written(path, 2)
    await written(path, 3)
    assert verify(path) == (5, None)


async def test_no_field_can_pass_for_a_link_of_the_chain(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = opened(path)
    await audit.note("kill", {"seq": 99, "prev_hash": "f" * 64, "hash": "x", "kind": "other"})
    audit.close()
    assert verify(path) == (1, None)
    assert records(path)[0]["kind"] == "kill"


async def test_g18_every_prefix_of_the_file_recovers(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    whole = await written(path, 3)
    ends = [0, *(at + 1 for at, byte in enumerate(whole) if byte == ord("\n"))]
    for cut in range(len(whole) + 1):
        path.write_bytes(whole[:cut])
        good = max(number for number, end in enumerate(ends) if end <= cut)
        audit = opened(path)
        assert audit.torn_bytes == cut - ends[good]
        audit.close()
        assert path.read_bytes() == whole[: ends[good]]
    for cut in (0, 1, ends[1], ends[2] + 5, len(whole) - 1):
        path.write_bytes(whole[:cut])
        good = max(number for number, end in enumerate(ends) if end <= cut)
        await written(path, 1)
        assert verify(path) == (good + 1, None)


async def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    whole = await written(path, 3)
    for at in range(len(whole)):
        damaged = bytearray(whole)
        damaged[at] ^= 1 << (at % 8)
        path.write_bytes(damaged)
        line = whole[:at].count(b"\n") + 1
        assert verify(path) == (line - 1, line), at


async def test_a_lost_or_moved_line_is_found(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    first, second, third = (await written(path, 3)).splitlines(keepends=True)
    for lines, bad in (((first, third), 2), ((second, third), 1), ((first, third, second), 2)):
        path.write_bytes(b"".join(lines))
        assert verify(path) == (bad - 1, bad)


async def test_g18_a_damaged_file_prevents_no_start_and_stays_damaged(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    whole = await written(path, 3)
    for damaged in (
        whole[:-80] + b"X" + whole[-79:],
        whole[:10] + b"X" + whole[11:],
        b"\0" * 300 + b"\n",
        b"\n\n",
        b"not ours\n" * 30_000,
    ):
        path.write_bytes(damaged)
        _, bad = verify(path)
        assert bad is not None
        await written(path, 2)
        assert path.read_bytes().startswith(damaged)
        assert verify(path)[1] == bad
        lines = path.read_bytes().splitlines()
        last, before = json.loads(lines[-1]), json.loads(lines[-2])
        assert last["prev_hash"] == before["hash"]
        assert last["seq"] == len(lines)


@given(st.binary(max_size=400))
@settings(max_examples=50)
def test_g18_any_bytes_can_be_opened(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("audit") / "audit.jsonl"
    path.write_bytes(data)
    opened(path).close()
    assert path.read_bytes() == data[: data.rfind(b"\n") + 1]


@pytest.mark.parametrize("point", ["audit.write", "audit.sync"])
@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
async def test_g28_a_failed_write_leaves_nothing_and_the_next_one_succeeds(
    tmp_path: Path, point: str, code: int
) -> None:
    path, failing = tmp_path / "audit.jsonl", [False]

    fails_at = point

    def faults(point: str) -> None:
        if failing[0] and point == fails_at:
            raise OSError(code, "test")

    audit = opened(path, faults)
    await audit.note("first", {})
    before = path.read_bytes()
    failing[0] = True
    with pytest.raises(BridgeError) as caught:
        await audit.record("second", {}, durable=True)
    assert caught.value.code == "store_full"
    assert path.read_bytes() == before
    failing[0] = False
    await audit.note("third", {})
    audit.close()
    assert verify(path) == (2, None)


async def test_g28_a_short_write_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = opened(path)
    await audit.note("first", {})
    before = path.read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(before) + 20, hard))
    try:
        with pytest.raises(BridgeError, match="20 of"):
            await audit.note("second", {})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == before
    await audit.note("third", {})
    audit.close()
    assert verify(path) == (2, None)


async def test_what_could_not_be_taken_back_is_taken_back_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"

    def no_truncate(_fd: int, _size: int) -> None:
        raise OSError(errno.EIO, "test")

    def no_sync(_fd: int) -> None:
        raise OSError(errno.EIO, "test")

    audit = opened(path)
    await audit.note("first", {})
    with monkeypatch.context() as broken:
        broken.setattr(os, "ftruncate", no_truncate)
        broken.setattr(os, "fsync", no_sync)
        for _ in range(2):
            with pytest.raises(BridgeError):
                await audit.record("second", {}, durable=True)
    assert len(records(path)) == 2
    await audit.note("third", {})
    audit.close()
    assert [record["kind"] for record in records(path)] == ["first", "third"]
    assert verify(path) == (2, None)


async def test_a_file_that_somebody_else_changed_takes_no_more_records(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = opened(path)
    await audit.note("first", {})
    os.truncate(path, 0)
    with pytest.raises(BridgeError, match="somebody else"):
        await audit.record("second", {}, durable=True)
    audit.close()


async def test_what_is_not_json_is_an_error_and_no_record(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = opened(path)
    for value in (float("nan"), object(), {1, 2}):
        with pytest.raises(BridgeError) as caught:
            await audit.note("first", {"value": value})
        assert caught.value.code == "internal"
    audit.close()
    assert path.read_bytes() == b""


async def test_a_closed_audit_takes_nothing(tmp_path: Path) -> None:
    audit = opened(tmp_path / "audit.jsonl")
    audit.close()
    audit.close()
    with pytest.raises(BridgeError, match="closed"):
        await audit.note("first", {})


async def test_g26_fields_are_redacted_then_escaped_and_bounded(tmp_path: Path) -> None:
    path, secret = tmp_path / "audit.jsonl", "hunter2-hunter2"
    deep: Any = "x"
    for _ in range(50):
        deep = [deep]
    audit = opened(path, redact=Redactor([("A_TOKEN", secret)]).value)
    fields = {"title": f"\u202e{secret}\n", "long": "x" * 10_000, "deep": deep, "odd": "\ud800"}
    await audit.note("first", fields)
    audit.close()
    [record] = records(path)
    assert secret not in path.read_text(encoding="utf-8")
    assert record["title"].startswith("⟨U+202E⟩[redacted:env:")
    assert record["long"].endswith("⟨5904 more characters⟩")
    assert "deeper" in json.dumps(record["deep"], ensure_ascii=False)
    assert verify(path) == (1, None)


async def test_records_of_many_tasks_make_one_chain(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    audit = opened(path)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            for number in range(40):
                tasks.start_soon(audit.note, "kill", {"n": number})
    audit.close()
    assert verify(path) == (40, None)
    assert sorted(record["n"] for record in records(path)) == list(range(40))


async def hang(tmp_path: Path, then: Callable[[Audit, anyio.Event], Awaitable[None]]) -> None:
    """Open an audit and give up a write that hangs until `then` sets the event."""
    entered, release = anyio.Event(), anyio.Event()
    token, hanging = anyio.lowlevel.current_token(), [True]

    def faults(point: str) -> None:
        if point == "audit.sync" and hanging[0]:
            hanging[0] = False
            anyio.from_thread.run_sync(entered.set, token=token)
            anyio.from_thread.run(release.wait, token=token)

    audit = opened(tmp_path / "audit.jsonl", faults)
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            scope = anyio.CancelScope()

            async def cancel_when_entered() -> None:
                await entered.wait()
                scope.cancel()

            tasks.start_soon(cancel_when_entered)
            with scope:
                await audit.record("first", {}, durable=True)
            assert scope.cancelled_caught
            await then(audit, release)
    audit.close()


async def test_a_write_that_hangs_can_be_given_up_and_the_chain_stays_whole(tmp_path: Path) -> None:
    async def then(audit: Audit, release: anyio.Event) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(audit.note, "second", {})
            await anyio.wait_all_tasks_blocked()
            release.set()

    await hang(tmp_path, then)
    path = tmp_path / "audit.jsonl"
    assert [record["kind"] for record in records(path)] == ["first", "second"]
    assert verify(path) == (2, None)


async def test_behind_a_stuck_write_every_record_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acpbridge.permissions.audit._STUCK_SECONDS", 0.01)

    async def then(audit: Audit, release: anyio.Event) -> None:
        with pytest.raises(BridgeError, match="has not ended"):
            await audit.note("second", {})
        audit.close()  # leaves the descriptor to the write that is stuck
        monkeypatch.undo()
        release.set()

    await hang(tmp_path, then)
    assert [record["kind"] for record in records(tmp_path / "audit.jsonl")] == ["first"]


async def test_the_last_word_on_a_request_is_found_and_a_changed_one_is_not_believed(
    tmp_path: Path,
) -> None:
    """What a killed daemon decided; with the first word, or without `_parse`, q1 or q2 is wrong."""
    path = tmp_path / "audit.jsonl"
    assert last_decisions(path, ["q1"]) == {}
    fields = {"option_id": "yes", "reason": "operator", "rule_id": "", "note": "fine"}
    who = {"role": "operator", "client_id": "cli", "pid": 1}
    audit = opened(path)
    for name, effect in (("q1", "allow"), ("q2", "deny"), ("q1", "cancel"), ("q3", "allow")):
        said = {**fields, "request_uid": name, "decision": effect, "decided_by": who}
        await audit.record("permission_decided", said, durable=False)
    await audit.record("permission_refused", {"request_uid": "q4"}, durable=False)
    audit.close()
    path.write_bytes(content(path).replace(b'"decision":"deny"', b'"decision":"allow"'))
    found = last_decisions(path, ["q1", "q2", "q3", "q4"])
    assert {name: decision.effect for name, decision in found.items()} == {
        "q1": "cancel",
        "q3": "allow",
    }
    assert (found["q3"].by, found["q3"].option_id, found["q3"].note) == (
        "operator:cli",
        "yes",
        "fine",
    )
