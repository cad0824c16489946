"""An agent that has its files read and written by us (case 60, rows 36 and 39, C19, G25)."""

import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from acpbridge.errors import INVALID_PARAMS, METHOD_NOT_FOUND, REQUEST_CANCELLED, RESOURCE_NOT_FOUND
from acpbridge.model.events import Fact
from acpbridge.model.permission import Decision, Effect, PermissionAsk, Reason, Source, ToolKind
from acpbridge.runtimes.base import New, RuntimeSession
from tests.integration.agents import fake_session, received
from tests.unit.runtimes.scenarios import HANG, Recorder, allow, deny, text

BOTH = {"client_fs_read": True, "client_fs_write": True}


def call(method: str, **params: Any) -> str:
    return f"call fs/{method}_text_file {json.dumps(params)}"


def answers(host: Recorder) -> list[Any]:
    """Return what the agent was answered, call by call."""
    said = (u for u in host.updates if u["sessionUpdate"] == "agent_message_chunk")
    words = [u["content"]["text"] for u in said]
    return [json.loads(w.removeprefix("answer: ")) for w in words if w.startswith("answer: ")]


@asynccontextmanager
async def session_of(folder: Path, host: Recorder, **serves: Any) -> AsyncIterator[RuntimeSession]:
    with anyio.fail_after(HANG):
        async with fake_session(folder, host, serves=serves or BOTH) as session:
            await session.open(New())
            yield session


async def one(
    folder: Path, decide: Callable[[PermissionAsk], Awaitable[Decision]], *calls: str
) -> tuple[Recorder, list[Any]]:
    """Run a turn with these calls; return the host and the answers."""
    host = Recorder(decide)
    async with session_of(folder, host) as session:
        assert (await session.prompt(text("\n".join(calls)))).stop_reason == "end_turn"
    return host, answers(host)


@pytest.mark.parametrize("on", ["client_fs_read", "client_fs_write", ""])
async def test_row_39_what_was_not_advertised_is_not_served(tmp_path: Path, on: str) -> None:
    (tmp_path / "there").write_text("x", encoding="utf-8")
    host = Recorder(allow)
    read = call("read", path=str(tmp_path / "there"))
    write = call("write", path=str(tmp_path / "new"), content="y")
    async with session_of(
        tmp_path, host, **({on: True} if on else {"client_terminal": False})
    ) as session:
        await session.prompt(text(f"{read}\n{write}"))
    told = received(tmp_path)[0]["params"]["clientCapabilities"]["fs"]
    assert told == {
        "readTextFile": on == "client_fs_read",
        "writeTextFile": on == "client_fs_write",
    }
    first, second = answers(host)
    assert (first == {"content": "x"}) == told["readTextFile"]
    assert (second == {}) == told["writeTextFile"]
    for answer, served in ((first, told["readTextFile"]), (second, told["writeTextFile"])):
        assert served or answer["error"]["code"] == METHOD_NOT_FOUND
    assert len(host.asks) == sum(told.values())


async def test_case_60_each_call_is_asked_about_and_shows_what_would_happen(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "real" / "old.txt").write_text("one\r\ntwo\r\n", encoding="utf-8", newline="")
    path = str(tmp_path / "link" / "old.txt")
    real = str(tmp_path / "real" / "old.txt")
    new = str(tmp_path / "new.txt")
    host, got = await one(
        tmp_path,
        allow,
        call("read", path=path, line=2, limit=1),
        call("write", path=path, content="drei\n"),
        call("write", path=new, content="all new\n"),
    )
    assert got == [{"content": "two\r\n"}, {}, {}]
    assert Path(real).read_bytes() == b"drei\n"
    assert Path(new).read_bytes() == b"all new\n"
    read, write, create = (ask.subject for ask in host.asks)
    assert read.source is write.source is Source.FILES
    assert (read.kind, write.kind, create.kind) == (ToolKind.READ, ToolKind.EDIT, ToolKind.EDIT)
    assert read.known_kind
    assert read.raw_input == {"path": path, "line": 2, "limit": 1}
    assert read.locations == (real, path)
    assert read.title == f"Read {real}"
    assert write.raw_input == {"path": path, "content": "drei\n"}
    shown = {"type": "diff", "path": real, "oldText": "one\r\ntwo\r\n", "newText": "drei\n"}
    assert write.content == (shown,)
    assert create.content == (
        {"type": "diff", "path": new, "oldText": None, "newText": "all new\n"},
    )
    assert [option.option_id for option in host.asks[0].options] == ["allow_once", "reject_once"]
    done = [event for event in host.events if isinstance(event, Fact)]
    assert [event.type for event in done] == ["file_read", "file_written", "file_written"]
    assert done[1].values == {
        "path": path,
        "resolved": real,
        "bytes": 5,
        "sha256": hashlib.sha256(b"drei\n").hexdigest(),
    }


async def test_case_60_a_refusal_is_an_error_with_the_reason_and_nothing_is_done(
    tmp_path: Path,
) -> None:
    (tmp_path / "old").write_text("old", encoding="utf-8")

    async def decide(ask: PermissionAsk) -> Decision:
        reasons = {"old": Reason.OPERATOR, "late": Reason.DEADLINE, "ruled": Reason.RULE}
        reason = reasons[ask.subject.title.rpartition("/")[2]]
        note = "use the other one" if reason is Reason.OPERATOR else ""
        return Decision(Effect.DENY, "reject_once", reason, note=note)

    host, got = await one(
        tmp_path,
        decide,
        call("read", path=str(tmp_path / "old")),
        call("write", path=str(tmp_path / "old"), content="new"),
        call("write", path=str(tmp_path / "late"), content="new"),
        call("write", path=str(tmp_path / "ruled"), content="new"),
    )
    assert [answer["error"]["code"] for answer in got] == [-32600] * 4
    assert [answer["error"]["data"]["code"] for answer in got] == ["permission_denied"] * 4
    words = [answer["error"]["message"] for answer in got]
    assert "the user said no" in words[0]
    assert "use the other one" in words[0]
    assert "nobody answered in time" in words[2]
    assert "a rule denies it" in words[3]
    assert (tmp_path / "old").read_text(encoding="utf-8") == "old"
    assert not (tmp_path / "late").exists()
    assert [event for event in host.events if isinstance(event, Fact)] == []


async def test_an_allow_that_was_not_offered_is_none(tmp_path: Path) -> None:
    """G19: whatever a host returns, only the offered `allow_once` lets a file be touched."""

    async def forge(_: PermissionAsk) -> Decision:
        return Decision(Effect.ALLOW, "something", Reason.OPERATOR)

    _, got = await one(tmp_path, forge, call("write", path=str(tmp_path / "x"), content="y"))
    assert got[0]["error"]["data"]["code"] == "permission_denied"
    assert not (tmp_path / "x").exists()


async def test_case_55_only_what_is_truly_below_a_root_passes_and_nobody_is_asked(
    tmp_path: Path,
) -> None:
    root = tmp_path / "app"
    evil = tmp_path / "app-evil"
    for folder in (root, evil):
        folder.mkdir()
    (evil / "x").write_text("secret", encoding="utf-8")
    (root / "out").symlink_to("../app-evil")
    (root / "gone").symlink_to("../app-evil/none")
    paths = [
        f"{evil}/x",
        f"{root}/../app-evil/x",
        "x",
        "~/x",
        f"{root}/\0x",
        str(root),
        f"{root}/",
        "",
        f"{root}/out/x",
        f"{root}/gone",
        "/proc/self/root/etc/passwd",
        f"{root}/{'a/' * 2100}x",
    ]
    calls = [call("read", path=path) for path in paths]
    calls += [call("write", path=path, content="pwned") for path in paths]
    host, got = await one(root, allow, *calls)
    assert len(got) == len(calls)
    for path, answer in zip(paths * 2, got, strict=True):
        assert answer["error"]["code"] == INVALID_PARAMS, (path, answer)
    assert host.asks == []
    assert [entry.name for entry in evil.iterdir()] == ["x"]
    assert (evil / "x").read_text(encoding="utf-8") == "secret"


async def test_a_missing_file_is_what_agents_expect(tmp_path: Path) -> None:
    """C19: a write creates the file; a read of none is -32002 with the path."""
    missing, deep = str(tmp_path / "none"), str(tmp_path / "no" / "where")
    host, got = await one(
        tmp_path, allow, call("read", path=missing), call("write", path=deep, content="x")
    )
    assert [answer["error"]["code"] for answer in got] == [RESOURCE_NOT_FOUND] * 2
    assert [answer["error"]["data"]["path"] for answer in got] == [missing, deep]
    assert got[0]["error"]["message"] == f"Resource not found: {missing}"
    assert "directory" in got[1]["error"]["message"]
    assert host.asks == []


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"path": 1},
        {"path": None},
        {"path": "/x", "line": -1},
        {"path": "/x", "line": 1.5},
        {"path": "/x", "limit": "9"},
        {"path": "/x", "line": True},
        {"path": "/x", "sessionId": "another"},
        {"path": "/x", "sessionId": None},
    ],
)
async def test_row_11_bad_params_are_refused_and_nobody_is_asked(
    tmp_path: Path, params: dict[str, Any]
) -> None:
    params = {**params, **({"path": str(tmp_path / "x")} if params.get("path") == "/x" else {})}
    (tmp_path / "x").write_text("x", encoding="utf-8")
    write = {**params, "content": 1} if "sessionId" not in params else {**params, "content": ""}
    host, got = await one(tmp_path, allow, call("read", **params), call("write", **write))
    assert [answer["error"]["code"] for answer in got] == [INVALID_PARAMS] * 2
    assert host.asks == []


async def test_row_15_a_cancelled_turn_writes_nothing_whatever_was_decided(tmp_path: Path) -> None:
    asked = anyio.Event()
    cancelled = anyio.Event()

    async def slow(_: PermissionAsk) -> Decision:
        asked.set()
        await cancelled.wait()
        return Decision(Effect.ALLOW, "allow_once", Reason.OPERATOR)

    host = Recorder(slow)
    async with session_of(tmp_path, host) as session:

        async def cancel() -> None:
            await asked.wait()
            session.cancel()
            cancelled.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel)
            result = await session.prompt(
                text(call("write", path=str(tmp_path / "x"), content="y"))
            )
        assert result.stop_reason == "cancelled"
        assert not (tmp_path / "x").exists()
        host.decide = allow
        await session.prompt(text(call("write", path=str(tmp_path / "x"), content="y")))
    assert (tmp_path / "x").read_text(encoding="utf-8") == "y"
    first = next(m for m in received(tmp_path) if "method" not in m and "error" in m)
    assert first["error"]["code"] == REQUEST_CANCELLED


async def test_row_15_a_call_after_the_cancel_is_refused_whatever_is_decided(
    tmp_path: Path,
) -> None:
    asked, cancelled = anyio.Event(), anyio.Event()

    async def decide(_: PermissionAsk) -> Decision:
        asked.set()
        await cancelled.wait()
        return Decision(Effect.ALLOW, "allow_once", Reason.OPERATOR)

    host = Recorder(decide)
    first, then = (call("write", path=str(tmp_path / name), content="y") for name in "ab")
    async with session_of(tmp_path, host) as session:

        async def cancel() -> None:
            await asked.wait()
            session.cancel()
            cancelled.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cancel)
            await session.prompt(text(f"on-cancel never\n{first}\n{then}"))
    codes = [answer["error"]["code"] for answer in answers(host)]
    assert codes == [REQUEST_CANCELLED] * 2
    assert not (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()


async def test_what_was_changed_while_a_person_decided_is_not_written_over(tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_text("as shown", encoding="utf-8")

    async def meanwhile(_: PermissionAsk) -> Decision:
        path.write_text("edited", encoding="utf-8")
        return Decision(Effect.ALLOW, "allow_once", Reason.OPERATOR)

    _, got = await one(tmp_path, meanwhile, call("write", path=str(path), content="new"))
    assert got[0]["error"]["data"]["code"] == "file_failed"
    assert "changed since" in got[0]["error"]["message"]
    assert path.read_text(encoding="utf-8") == "edited"


async def test_a_link_put_in_the_way_while_a_person_decides_is_not_followed(tmp_path: Path) -> None:
    """Both are inside, so the root alone does not help: what is done is what was shown."""
    for name in ("shown", "hooks"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text(name, encoding="utf-8")

    async def swap(_: PermissionAsk) -> Decision:
        (tmp_path / "shown").rename(tmp_path / "moved")
        (tmp_path / "shown").symlink_to("hooks")
        return Decision(Effect.ALLOW, "allow_once", Reason.OPERATOR)

    path = str(tmp_path / "shown" / "x")
    _, got = await one(tmp_path, swap, call("read", path=path))
    assert got[0]["error"]["data"]["code"] == "file_failed"
    (tmp_path / "shown").unlink()
    (tmp_path / "moved").rename(tmp_path / "shown")
    for content, name in (("pwned", "x"), ("pwned", "new")):
        _, got = await one(
            tmp_path, swap, call("write", path=str(tmp_path / "shown" / name), content=content)
        )
        assert got[0]["error"]["data"]["code"] == "file_failed"
        (tmp_path / "shown").unlink()
        (tmp_path / "moved").rename(tmp_path / "shown")
    assert sorted(entry.name for entry in (tmp_path / "hooks").iterdir()) == ["x"]
    assert (tmp_path / "hooks" / "x").read_text(encoding="utf-8") == "hooks"


async def test_row_12_what_cannot_be_shown_cannot_be_allowed(tmp_path: Path) -> None:
    (tmp_path / "big").write_text("x" * (1024 * 1024), encoding="utf-8")
    host, got = await one(tmp_path, allow, call("write", path=str(tmp_path / "big"), content="y"))
    assert got[0]["error"]["data"]["code"] == "message_too_large"
    assert host.asks == []


async def test_long_answers_wait_for_an_agent_that_does_not_read(tmp_path: Path) -> None:
    """Ten files of three megabytes asked for at once: none is lost, and the session lives."""
    (tmp_path / "big").write_text("z" * 3_000_000, encoding="utf-8")
    reading = call("read", path=str(tmp_path / "big"))
    host = Recorder(allow)
    async with session_of(tmp_path, host) as session:
        result = await session.prompt(text("\n".join([f"bg {reading}"] * 10)))
    assert result.stop_reason == "end_turn"
    assert [len(answer["content"]) for answer in answers(host)] == [3_000_000] * 10


async def test_g24_a_session_leaves_no_descriptor_of_its_directories(tmp_path: Path) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        await one(tmp_path, deny, call("write", path=str(tmp_path / "x"), content="y"))
    assert len(list(Path("/proc/self/fd").iterdir())) <= before + 1
