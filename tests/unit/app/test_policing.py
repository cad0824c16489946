"""The policy in force in a process: told of in the audit, the log and `status`."""

import queue
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest
from structlog.testing import capture_logs

from acpbridge.app.policing import Policing
from acpbridge.daemon import policyfile, trust
from acpbridge.daemon.paths import Paths
from acpbridge.daemon.policyfile import PolicyFile
from acpbridge.errors import BridgeError
from acpbridge.permissions.rules.load import parse
from acpbridge.permissions.rules.rulebook import Rulebook

ALLOW = "rules: [{effect: allow, tool_kind: [read]}, {effect: deny, tool_kind: [execute]}]"


class Notes:
    """What was put into the audit; `broken` makes it refuse."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.broken = False

    async def note(self, kind: str, fields: Mapping[str, Any]) -> None:
        if self.broken:
            raise BridgeError("store_full", "The disk is full.")
        self.told.append((kind, dict(fields)))

    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.told]


@pytest.fixture
def paths(tmp_path: Path) -> Paths:
    tmp_path.chmod(0o700)
    return Paths(tmp_path, tmp_path / "config.yaml")


def write(paths: Paths, text: str) -> None:
    part = paths.policy.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.chmod(0o600)
    part.replace(paths.policy)


async def test_the_audit_hears_of_each_policy_once_and_before_it_is_in_force(paths: Paths) -> None:
    notes = Notes()
    policing = Policing(PolicyFile.first(paths), notes.note)
    for _ in range(2):
        assert not (await policing.current()).broken
    assert notes.kinds() == ["policy_loaded"]
    write(paths, ALLOW)
    with capture_logs() as lines:
        sha256 = (await policing.current()).book.sha256
        assert (await policing.current()).book.sha256 == sha256
    assert notes.told[1:] == [
        (
            "policy_loaded",
            {"policy_sha256": sha256, "path": str(paths.policy), "rules": 2, "problem": None},
        )
    ]
    assert [(line["log_level"], line["sha256"]) for line in lines] == [("info", sha256)]


async def test_row_30_a_broken_policy_is_loud_in_the_audit_the_log_and_status(paths: Paths) -> None:
    write(paths, ALLOW)
    notes = Notes()
    policing = Policing(PolicyFile.first(paths), notes.note)
    assert (await policing.shown())[1] == []
    write(paths, "rules: 1")
    with capture_logs() as lines:
        shown, (warning,) = await policing.shown()
    assert notes.kinds() == ["policy_loaded", "policy_broken"]
    (line,) = lines
    assert (line["log_level"], line["event"]) == ("error", "the policy cannot be used")
    for text in (warning, shown["problem"], line["problem"], notes.told[1][1]["problem"]):
        assert f"{paths.policy}, line 1: rules" in text
    assert shown["rules"] == 1
    write(paths, ALLOW)
    shown, warnings = await policing.shown()
    assert (warnings, shown["problem"]) == ([], None)
    assert notes.kinds()[2:] == ["policy_loaded"]


async def test_what_the_audit_could_not_take_is_told_once_it_can(paths: Paths) -> None:
    notes = Notes()
    notes.broken = True
    policing = Policing(PolicyFile.first(paths), notes.note)
    await policing.current()
    assert notes.kinds() == []
    notes.broken = False
    await policing.current()
    assert notes.kinds() == ["policy_loaded"]


async def test_many_looks_at_once_see_one_change_once(paths: Paths) -> None:
    notes = Notes()
    policing = Policing(PolicyFile.first(paths), notes.note)
    await policing.current()
    write(paths, ALLOW)
    found: list[str] = []

    async def look() -> None:
        found.append((await policing.current()).book.sha256)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(look)
    assert len(set(found)) == 1
    assert len(found) == 20
    assert notes.kinds() == ["policy_loaded"] * 2


async def test_status_tells_of_a_disk_that_hangs_and_is_not_held_up(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    policing = Policing(PolicyFile.first(paths), Notes().note, seconds=0.05)
    hangs: queue.SimpleQueue[None] = queue.SimpleQueue()
    look = trust.doubt

    def hang(path: Path) -> trust.Doubt | None:
        hangs.get(timeout=60)
        return look(path)

    monkeypatch.setattr(trust, "doubt", hang)
    with anyio.fail_after(60):
        shown, (warning,) = await policing.shown()
        assert "cannot be looked at in time; what asks is denied" in warning
        assert shown["path"] == str(paths.policy)
        with pytest.raises(TimeoutError):
            await policing.current()
        monkeypatch.undo()
        hangs.put(None)
        while (await policing.shown())[1]:
            pass


async def test_a_policy_that_takes_long_to_load_is_loaded_once_and_then_in_force(
    paths: Paths, monkeypatch: pytest.MonkeyPatch
) -> None:
    policing = Policing(PolicyFile.first(paths), Notes().note, seconds=0.05)
    goes_on: queue.SimpleQueue[None] = queue.SimpleQueue()
    loaded: list[str] = []

    def slow(text: str, name: str, home: str) -> Rulebook:
        loaded.append(name)
        goes_on.get(timeout=60)
        return parse(text, name, home)

    monkeypatch.setattr(policyfile, "parse", slow)
    write(paths, ALLOW)
    with anyio.fail_after(60):
        for _ in range(3):  # who asks meanwhile is denied, and loads it no second time
            with pytest.raises(TimeoutError):
                await policing.current()
        goes_on.put(None)
        while (await policing.shown())[0]["rules"] != 2:
            pass
    assert loaded == [str(paths.policy)]


async def test_an_audit_that_hangs_does_not_keep_a_policy_from_being_in_force(
    paths: Paths,
) -> None:
    async def note(kind: str, fields: Mapping[str, Any]) -> None:
        await anyio.sleep_forever()

    write(paths, ALLOW)
    with anyio.fail_after(60):
        policy = await Policing(PolicyFile.first(paths), note, seconds=0.05).current()
    assert len(policy.book.sha256) == 64
