"""What a command comes to before anybody is asked about it, and what rules know of it then."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.permission import (
    OnPermission,
    PermissionAsk,
    PermissionRequest,
    Source,
    ToolKind,
    ToolSubject,
)
from acpbridge.permissions.rules.gather import facts_of
from acpbridge.protocol.terminals import CreateTerminal
from acpbridge.runtimes.terminal_order import CommandOrder, Place, order_of, real_roots
from acpbridge.runtimes.toolcall import OPTIONS


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


def program(path: Path, text: str = "#!/bin/sh\n") -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    path.chmod(0o755)
    return path


def ordered(workspace: Path, command: str, *args: str, **params: Any) -> CommandOrder:
    value = {"sessionId": "s", "command": command, "args": list(args), **params}
    path = f"{workspace.parent}/bin:{os.defpath}"
    place = Place(str(workspace), real_roots([str(workspace)]), {"PATH": path, "A": "b"})
    return order_of(CreateTerminal.model_validate(value), place, "mark")


def argv_known_to_rules(order: CommandOrder, workspace: Path) -> tuple[str, ...] | None:
    subject = ToolSubject(
        "t",
        kind=ToolKind.EXECUTE,
        known_kind=True,
        raw_input=order.raw_input,
        locations=(order.program,),
        tool="terminal/create",
        source=Source.TERMINAL,
    )
    request = PermissionRequest(
        "q",
        SessionKey.subagent(AgentId("fake"), uuid4()),
        "t",
        OnPermission.ASK,
        PermissionAsk(subject, OPTIONS),
        roots=(str(workspace),),
    )
    return facts_of(request, os.path.realpath).argv


def test_a_rule_knows_the_very_words_that_will_run(workspace: Path) -> None:
    program(workspace.parent / "bin" / "check")
    order = ordered(workspace, "check", "-q", "a b")
    assert order.argv == (f"{workspace.parent}/bin/check", "-q", "a b")
    assert argv_known_to_rules(order, workspace) == ("check", "-q", "a b")


def test_a_program_that_the_workspace_has_never_passes_for_one_of_the_path(
    workspace: Path,
) -> None:
    program(workspace / "check")
    order = ordered(workspace, "./check")
    assert argv_known_to_rules(order, workspace) == (f"{workspace}/check",)
    assert order.argv == (f"{workspace}/check",)


@pytest.mark.parametrize(
    ("args", "params"),
    [
        ([], {"env": [{"name": "PLAIN", "value": "x"}]}),
        ([], {"env": [{"name": "PATH", "value": "/ws/evil"}]}),
        (["$(x)"], {}),
        (["a;b"], {}),
        (["a\nb"], {}),
        (["\u202e"], {}),
    ],
)
def test_no_rule_knows_a_command_with_variables_or_words_for_a_shell(
    workspace: Path, args: list[str], params: Any
) -> None:
    """The agent's variables may change what the same words do: a person is asked."""
    assert argv_known_to_rules(ordered(workspace, "true"), workspace) == ("true",)
    assert argv_known_to_rules(ordered(workspace, "true", *args, **params), workspace) is None


def change_nothing(_tool: Path) -> None:
    pass


def change_text(tool: Path) -> None:
    tool.write_text("#!/bin/sh\nevil\n", encoding="utf-8")


def change_file(tool: Path) -> None:
    other = program(tool.with_name("other"))
    os.utime(other, ns=(tool.stat().st_mtime_ns,) * 2)
    other.replace(tool)


def change_directory(tool: Path) -> None:
    folder = tool.parents[1] / "ws"
    folder.rename(folder.with_name("was"))
    folder.mkdir()


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (change_nothing, True),
        (change_text, False),
        (change_file, False),
        (change_directory, False),
    ],
)
def test_the_seal_is_of_this_file_and_this_directory(
    workspace: Path, change: Callable[[Path], None], same: bool
) -> None:
    tool = program(workspace.parent / "bin" / "tool")
    before = ordered(workspace, "tool").seal
    change(tool)
    assert (ordered(workspace, "tool").seal == before) is same


@pytest.mark.parametrize(
    ("command", "args", "params"),
    [
        ("false", [], {}),
        ("true", ["x"], {}),
        ("true", [""], {}),
        ("true", [], {"env": [{"name": "X", "value": "y"}]}),
    ],
)
def test_the_seal_is_of_every_word_and_variable(
    workspace: Path, command: str, args: list[str], params: Any
) -> None:
    assert ordered(workspace, command, *args, **params).seal != ordered(workspace, "true").seal


def test_words_do_not_run_together_in_the_seal(workspace: Path) -> None:
    seals = {
        ordered(workspace, "true", *args).seal
        for args in (("a", "b"), ("ab",), ("a b",), ("a", "", "b"), ("a,b",), ('a","b',))
    }
    assert len(seals) == 6


def test_a_program_is_its_own_name_in_the_directory_that_is_really_meant(workspace: Path) -> None:
    """Some programs go by the name that they are called by: a link stays a link."""
    real = program(workspace / "real" / "tool")
    (workspace / "link").symlink_to("real")
    (workspace / "real" / "other").symlink_to("tool")
    assert ordered(workspace, "link/other").program == f"{workspace}/real/other"
    assert ordered(workspace, "link/../real/tool").program == str(real)
