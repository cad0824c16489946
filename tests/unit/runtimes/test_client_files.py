"""Files for an agent, without an agent: bounds, what a person is shown, and what is given up."""

import json
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.events import Fact
from acpbridge.model.faults import Faults, no_faults
from acpbridge.model.keys import AgentId
from acpbridge.model.permission import Decision, Effect, PermissionAsk, Reason
from acpbridge.permissions import policy
from acpbridge.permissions.confine import Roots
from acpbridge.protocol.jsonrpc import Call
from acpbridge.runtimes import client_files
from acpbridge.runtimes.base import SessionSpec
from acpbridge.runtimes.client_files import (
    AT_ONCE,
    SHOWN_AT_MOST,
    ClientFiles,
    Serving,
    session_roots,
)
from tests.unit.runtimes.scenarios import HANG, Recorder, allow, spec_fields


class Desk:
    """The files of one session, and calls of its agent."""

    def __init__(
        self,
        folder: Path,
        decide: Callable[[PermissionAsk], Awaitable[Decision]] = allow,
        faults: Faults = no_faults,
    ) -> None:
        self.host = Recorder(decide)
        self.roots = Roots.of([str(folder)])
        self.cancelled = False
        self.reads = anyio.Event()
        self.reads.set()
        self._ids = iter(range(1000))
        wanted = lambda: lambda: not self.cancelled  # noqa: E731 - as the client gives it
        self.files = ClientFiles(
            Serving(self.host, self.roots, 7, lambda: "s", wanted, self._drained, faults)
        )

    async def _drained(self) -> None:
        await self.reads.wait()

    def _call(self, kind: str, params: dict[str, Any]) -> Call:
        params = {"sessionId": "s", **params}
        return Call(f"fs/{kind}_text_file", params, next(self._ids), json.dumps(params).encode())

    async def read(self, path: Path, **params: Any) -> Any:
        result = await self.files.read(self._call("read", {"path": str(path), **params}))
        return json.loads(result.data)["content"]

    async def write(self, path: Path, content: str) -> None:
        assert (
            await self.files.write(self._call("write", {"path": str(path), "content": content}))
            == {}
        )


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def wait_closed(fd: int) -> None:
    deadline = time.monotonic() + HANG
    while is_open(fd):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@asynccontextmanager
async def desk_of(folder: Path, *args: Any, **more: Any) -> AsyncIterator[Desk]:
    desk = Desk(folder, *args, **more)
    try:
        with anyio.fail_after(HANG):
            yield desk
    finally:
        desk.roots.close()


async def test_row_12_a_change_is_shown_whole_or_not_asked_about(tmp_path: Path) -> None:
    half = SHOWN_AT_MOST // 2
    (tmp_path / "x").write_text("o" * half, encoding="utf-8")
    async with desk_of(tmp_path) as desk:
        with pytest.raises(BridgeError) as caught:
            await desk.write(tmp_path / "x", "n" * (half + 1))
        assert caught.value.code == "message_too_large"
        assert desk.host.asks == []
        await desk.write(tmp_path / "x", "n" * half)
    (shown,) = desk.host.asks[0].subject.content
    assert (shown["oldText"], shown["newText"]) == ("o" * half, "n" * half)


async def test_g25_a_file_with_another_name_is_flagged_and_no_rule_applies(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x", encoding="utf-8")
    async with desk_of(tmp_path) as desk:
        await desk.read(tmp_path / "x")
        (tmp_path / "y").hardlink_to(tmp_path / "x")
        await desk.read(tmp_path / "x")
        await desk.write(tmp_path / "x", "new")
    plain, *flagged = (ask.subject for ask in desk.host.asks)
    assert plain.cautions == ()
    assert [subject.cautions for subject in flagged] == [("the file has 2 names",)] * 2
    assert all(subject.title.endswith("/x (the file has 2 names)") for subject in flagged)


async def test_only_the_one_option_that_allows_once_is_offered(tmp_path: Path) -> None:
    """Row 1: so that a rule can allow it, and nothing that lasts can be picked."""
    async with desk_of(tmp_path) as desk:
        await desk.write(tmp_path / "x", "new")
    (ask,) = desk.host.asks
    option = policy.the_allow_once(ask)
    assert option is not None
    assert option.option_id == "allow_once"
    assert [option.kind for option in ask.options] == ["allow_once", "reject_once"]
    assert (ask.agent_pid, ask.wire_id) == (7, "0")
    assert len(ask.raw_sha256) == 64


async def test_a_cancel_after_the_decision_still_counts(tmp_path: Path) -> None:
    """Row 15: it is looked at once more just before the file takes its name."""

    async def allow_and_cancel(_: PermissionAsk) -> Decision:
        return Decision(Effect.ALLOW, "allow_once", Reason.OPERATOR)

    def faults(point: str) -> int | None:
        if point == "file.sync":
            desk.cancelled = True
        return None

    async with desk_of(tmp_path, allow_and_cancel, faults) as desk:
        with pytest.raises(BridgeError) as caught:
            await desk.write(tmp_path / "x", "new")
        assert caught.value.code == "request_cancelled"
    assert list(tmp_path.iterdir()) == []
    assert [event for event in desk.host.events if isinstance(event, Fact)] == []


async def test_a_file_system_that_hangs_is_given_up_and_writes_nothing_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_files, "FILE_SECONDS", 0.2)
    over: list[bool] = []

    def faults(point: str) -> int | None:
        if point == "file.sync":
            deadline = time.monotonic() + HANG
            while not over and time.monotonic() < deadline:
                time.sleep(0.01)
        return None

    async with desk_of(tmp_path, faults=faults) as desk:
        with pytest.raises(BridgeError, match="did not answer in") as caught:
            await desk.write(tmp_path / "x", "new")
        assert caught.value.code == "file_failed"
        fd = desk.roots.place(str(tmp_path / "x")).root.fd
        desk.roots.close()  # the session is left; its directory stays open for the thread
        over.append(True)
        await anyio.to_thread.run_sync(wait_closed, fd)
    assert list(tmp_path.iterdir()) == []


async def test_so_many_calls_are_at_the_disk_at_once(tmp_path: Path) -> None:
    """G13: an agent that asks for many files takes no thread from anybody else."""
    (tmp_path / "x").write_text("x", encoding="utf-8")
    now: list[int] = []
    most: list[int] = []

    def faults(point: str) -> int | None:
        if point == "file.write":
            now.append(1)
            most.append(len(now))
            time.sleep(0.02)
            now.pop()
        return None

    async with desk_of(tmp_path, faults=faults) as desk, anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(desk.write, tmp_path / f"new{number}", "n")
    assert len(most) == 8
    assert max(most) <= AT_ONCE


async def test_a_long_answer_waits_until_the_agent_reads(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x", encoding="utf-8")
    async with desk_of(tmp_path) as desk:
        desk.reads = anyio.Event()
        got: list[str] = []

        async def read() -> None:
            got.append(await desk.read(tmp_path / "x"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            await desk.host.until(lambda: any(isinstance(e, Fact) for e in desk.host.events))
            assert got == []
            desk.reads.set()
    assert got == ["x"]


async def test_roots_are_those_of_the_user_and_opened_only_where_they_serve(tmp_path: Path) -> None:
    """CVE-2025-59532: a directory that an agent names is data."""
    definition = AgentDefinition(AgentId("fake"), client_fs_read=True)
    spec = SessionSpec(**spec_fields(definition, str(tmp_path)))
    async with session_roots(spec) as roots:
        fd = roots.place(str(tmp_path / "x")).root.fd
        assert is_open(fd)
        with pytest.raises(BridgeError):
            roots.place("/etc/passwd")
    assert not is_open(fd)
    off = SessionSpec(**spec_fields(AgentDefinition(AgentId("fake")), str(tmp_path)))
    async with session_roots(off) as roots:
        with pytest.raises(BridgeError):
            roots.place(str(tmp_path / "x"))
