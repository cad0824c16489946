"""The tools in the directory of a session: each asks for what it does, and does exactly that."""

import os
import sys
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from acpbridge.agents import house
from acpbridge.agents.context import ToolContext
from acpbridge.errors import BridgeError
from acpbridge.model.permission import Decision, PermissionAsk, ToolKind
from acpbridge.runtimes.turn import Turn
from tests.unit.agents.modelled import one, talking
from tests.unit.agents.scripted import calls, says
from tests.unit.runtimes.scenarios import Recorder, allow, deny

CALLS: list[tuple[str, dict[str, Any]]] = [
    ("read_file", {"path": "a.txt"}),
    ("list_files", {}),
    ("write_file", {"path": "new.txt", "content": "x"}),
    ("run_command", {"command": ["touch", "ran"]}),
]


@pytest.fixture
def cwd(tmp_path: Path) -> Path:
    below = tmp_path / "work"
    below.mkdir()
    (below / "a.txt").write_text("one\ntwo\nthree\n", encoding="utf-8")
    (tmp_path / "secret").write_text("hidden", encoding="utf-8")
    return below


@pytest.mark.parametrize(("name", "arguments"), CALLS)
async def test_each_tool_asks_and_does_nothing_without_a_yes(
    cwd: Path, name: str, arguments: dict[str, Any]
) -> None:
    before = sorted(cwd.iterdir())
    talk = await one(cwd, name, arguments, Recorder(deny))
    assert len(talk.host.asks) == 1
    (heard,) = talk.heard
    assert heard.startswith("Error: Not allowed: ")
    assert "two" not in heard
    assert sorted(cwd.iterdir()) == before
    ends = [u for u in talk.host.updates if u["sessionUpdate"] == "tool_call_update"]
    assert ends[-1]["status"] == "failed"


async def test_a_file_is_read_whole_or_in_part(cwd: Path) -> None:
    assert (await one(cwd, "read_file", {"path": "a.txt"})).heard == ["one\ntwo\nthree\n"]
    part = await one(cwd, "read_file", {"path": str(cwd / "a.txt"), "line": 2, "limit": 1})
    assert part.heard == ["two\n"]
    (ask,) = part.host.asks
    assert (ask.subject.kind, ask.subject.locations) == (ToolKind.READ, (str(cwd / "a.txt"),))
    assert ask.subject.raw_input == {"path": str(cwd / "a.txt"), "line": 2, "limit": 1}


async def test_of_a_long_file_the_model_is_told_where_it_was_cut(cwd: Path) -> None:
    (cwd / "long").write_text("x" * (house.MOST_TOLD + 1), encoding="utf-8")
    (heard,) = (await one(cwd, "read_file", {"path": "long"})).heard
    assert heard.startswith("x" * house.MOST_TOLD + "\n[... cut here")


async def test_a_directory_is_listed_in_order(cwd: Path) -> None:
    (cwd / "sub").mkdir()
    (cwd / "link").symlink_to("/etc")
    talk = await one(cwd, "list_files", {})
    assert talk.heard == ["a.txt\nlink\nsub/"]
    assert talk.host.asks[0].subject.locations == (str(cwd),)
    assert (await one(cwd, "list_files", {"path": "sub"})).heard == ["(empty)"]


async def test_of_a_large_directory_the_first_names_are_told(
    cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(house, "MOST_ENTRIES", 2)
    for name in "bcd":
        (cwd / name).touch()
    assert (await one(cwd, "list_files", {})).heard == ["a.txt\nb\n[... 2 more ...]"]


async def test_a_write_shows_the_change_and_makes_it(cwd: Path) -> None:
    talk = await one(cwd, "write_file", {"path": "a.txt", "content": "é"})
    (ask,) = talk.host.asks
    path = str(cwd / "a.txt")
    shown = {"type": "diff", "path": path, "oldText": "one\ntwo\nthree\n", "newText": "é"}
    assert ask.subject.content == (shown,)
    assert (ask.subject.kind, ask.subject.locations) == (ToolKind.EDIT, (path,))
    assert talk.heard == [f"Wrote 2 bytes to {path}."]
    assert (cwd / "a.txt").read_text(encoding="utf-8") == "é"


async def test_a_file_that_changed_since_it_was_shown_is_not_written(cwd: Path) -> None:
    async def change(ask: PermissionAsk) -> Decision:
        await anyio.Path(cwd / "a.txt").write_text("meanwhile", encoding="utf-8")
        return await allow(ask)

    arguments = {"path": "a.txt", "content": "x"}
    (heard,) = (await one(cwd, "write_file", arguments, Recorder(change))).heard
    assert "was changed since it was asked about" in heard
    assert (cwd / "a.txt").read_text(encoding="utf-8") == "meanwhile"


class CancelledAfterTheAnswer(Turn):
    """A turn that is cancelled as soon as a person has said yes."""

    async def decide(self, ask: PermissionAsk) -> str | None:
        chosen = await super().decide(ask)
        self.cancelled = True
        return chosen


async def test_what_was_allowed_is_not_written_in_a_turn_that_is_being_cancelled(cwd: Path) -> None:
    turn = CancelledAfterTheAnswer((), str(cwd), (), Recorder(allow))
    with house.House(turn, {}).open() as tools:
        for path in ("a.txt", "new.txt"):
            turn.cancelled = False
            with pytest.raises(BridgeError) as caught:
                await tools["write_file"].run(ToolContext(), {"path": path, "content": "x"})
            assert caught.value.code == "request_cancelled"
    assert (cwd / "a.txt").read_text(encoding="utf-8") == "one\ntwo\nthree\n"
    assert [path.name for path in cwd.iterdir()] == ["a.txt"]


async def test_a_change_that_is_too_long_to_be_shown_is_not_asked_about(cwd: Path) -> None:
    arguments = {"path": "b", "content": "x" * (house.MOST_SHOWN + 1)}
    talk = await one(cwd, "write_file", arguments)
    assert "too long to be shown" in talk.heard[0]
    assert talk.host.asks == []


@pytest.mark.parametrize("path", ["../secret", "/etc/passwd", "out/secret", "sub/../../secret"])
@pytest.mark.parametrize("name", ["read_file", "list_files", "write_file"])
async def test_no_path_leads_out_of_the_directory(cwd: Path, name: str, path: str) -> None:
    (cwd / "out").symlink_to(cwd.parent)
    content = {"content": "x"} if name == "write_file" else {}
    wanted = "out" if (name, path) == ("list_files", "out/secret") else path
    talk = await one(cwd, name, {"path": wanted, **content})
    assert talk.heard[0].startswith("Error: ")
    assert "hidden" not in talk.heard[0]
    assert talk.host.asks == []
    assert (cwd.parent / "secret").read_text(encoding="utf-8") == "hidden"


async def test_a_command_runs_as_it_was_shown_in_the_directory(cwd: Path) -> None:
    command = ["sh", "-c", "pwd; echo $0 '*'; exit 3"]
    talk = await one(cwd, "run_command", {"command": command})
    (ask,) = talk.host.asks
    assert ask.subject.kind is ToolKind.EXECUTE
    assert ask.subject.raw_input == {"command": command, "cwd": str(cwd), "timeout": 120}
    assert talk.heard == [f"Exit status 3.\n{cwd}\nsh *\n"]


async def test_a_command_that_takes_too_long_is_ended(cwd: Path) -> None:
    arguments = {"command": ["sleep", "600"], "timeout": 1}
    assert (await one(cwd, "run_command", arguments)).heard == ["It was ended after 1 s.\n"]


async def test_a_command_gets_neither_the_agents_key_nor_what_is_ours(
    cwd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"ANTHROPIC_API_KEY": "k", "ACPBRIDGE_MODEL_AGENT": "{}", "ACPBRIDGE_HOME": "/h"}
    for name, value in {**given, "ACPBRIDGE_MARK": "m", "HARMLESS": "yes"}.items():
        monkeypatch.setenv(name, value)
    script = "import os; print(sorted(os.environ))"
    talk = await one(cwd, "run_command", {"command": [sys.executable, "-S", "-c", script]})
    (heard,) = talk.heard
    assert "'HARMLESS'" in heard
    assert "'ACPBRIDGE_MARK'" in heard, "its tree is found by it"
    for name in given:
        assert f"'{name}'" not in heard


@pytest.mark.parametrize(
    ("name", "arguments", "says_why"),
    [
        ("read_file", {}, "path"),
        ("read_file", {"path": "a.txt", "line": 0}, "line"),
        ("read_file", {"path": "a.txt", "mode": "w"}, "mode"),
        ("run_command", {"command": "rm -rf /"}, "command"),
        ("run_command", {"command": []}, "command"),
        ("run_command", {"command": ["x"], "timeout": 1801}, "timeout"),
        ("read_file", {"path": "none.txt"}, "none.txt"),
        ("read_file", {"path": "."}, "directory"),
        ("write_file", {"path": "no/b", "content": ""}, "does not exist"),
    ],
)
async def test_a_wrong_call_is_told_what_is_wrong_and_asks_nobody(
    cwd: Path, name: str, arguments: dict[str, Any], says_why: str
) -> None:
    talk = await one(cwd, name, arguments)
    assert talk.heard[0].startswith("Error: ")
    assert says_why in talk.heard[0]
    assert talk.host.asks == []


async def test_questions_of_one_answer_come_one_after_another(cwd: Path) -> None:
    inside = [0]

    async def count(ask: PermissionAsk) -> Decision:
        inside[0] += 1
        assert inside == [1]
        await anyio.lowlevel.checkpoint()
        inside[0] -= 1
        return await allow(ask)

    wanted = ("read_file", {"path": "a.txt"})
    answer = calls(wanted, wanted, ("list_files", {}))
    async with talking(cwd, answer, says("ok"), host=Recorder(count)) as talk:
        await talk.turn()
    assert len(talk.host.asks) == 3
    assert len(talk.heard) == 3


async def test_a_cancelled_turn_ends_its_command(cwd: Path) -> None:
    os.mkfifo(cwd / "begun")
    wanted = calls(("run_command", {"command": ["sh", "-c", "echo $$ > begun; exec sleep 600"]}))
    async with talking(cwd, wanted) as talk, anyio.create_task_group() as tasks:
        tasks.start_soon(talk.turn)
        pid = int(await anyio.Path(cwd / "begun").read_text(encoding="utf-8"))
        fd = os.pidfd_open(pid)
        talk.session.cancel()
        with anyio.fail_after(20):
            await anyio.wait_readable(fd)
        os.close(fd)
