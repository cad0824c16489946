"""Commands that the bridge runs for an agent: what a person allowed, exactly once, and no more."""

import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from acpbridge.model.permission import Decision, Effect, PermissionAsk, Reason, Source, ToolKind
from tests.integration.conftest import Observer
from tests.integration.terminal_talk import PYTHON, calls, creates, error_of, talking
from tests.unit.runtimes.scenarios import allow, deny

# Says what it was given, once for each time it runs.
TELL = """
import json, os, sys
told = {"argv": sys.argv[2:], "env": dict(os.environ), "cwd": os.getcwd()}
with open(sys.argv[1], "a", encoding="utf-8") as file:
    print(json.dumps(told), file=file)
"""


def told(folder: Path) -> list[Any]:
    lines = (folder / "told").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


# ---- Whether it runs ----


async def cancelled(_ask: PermissionAsk) -> Decision:
    return Decision(Effect.CANCEL, None, Reason.CANCELLED)


async def allowed_by_another_option(_ask: PermissionAsk) -> Decision:
    return Decision(Effect.ALLOW, "allow_always", Reason.OPERATOR)


async def allowed_by_nobody(_ask: PermissionAsk) -> Decision:
    return Decision(Effect.ALLOW, "allow_once", Reason.DEADLINE)


async def allowed_by_the_no(_ask: PermissionAsk) -> Decision:
    return Decision(Effect.ALLOW, "reject_once", Reason.OPERATOR)


@pytest.mark.parametrize(
    ("decide", "code"),
    [
        (deny, "permission_denied"),
        (cancelled, "request_cancelled"),
        (allowed_by_another_option, "permission_denied"),
        (allowed_by_nobody, "permission_denied"),
        (allowed_by_the_no, "permission_denied"),
    ],
)
async def test_case_60_a_command_that_nobody_allowed_does_not_run(
    tmp_path: Path,
    observer: Observer,
    decide: Callable[[PermissionAsk], Awaitable[Decision]],
    code: str,
) -> None:
    async with talking(tmp_path, observer, decide) as talk:
        answer = await talk.create("touch", str(tmp_path / "ran"))
        assert error_of(answer)[1] == code
        assert len(talk.host.asks) == 1
        assert talk.notices("terminal_started") == []
        assert await talk.roles() == ["agent", "shim"]
    assert not (tmp_path / "ran").exists()


async def test_a_no_tells_the_agent_what_the_person_said(
    tmp_path: Path, observer: Observer
) -> None:
    async def no(_ask: PermissionAsk) -> Decision:
        return Decision(Effect.DENY, "reject_once", Reason.OPERATOR, note="use make instead")

    async with talking(tmp_path, observer, no) as talk:
        answer = await talk.create("true")
    assert "use make instead" in answer["error"]["message"]


METHODS = ("create", "output", "wait_for_exit", "kill", "release")


async def test_row_39_a_terminal_that_was_not_advertised_is_unknown_and_nobody_is_asked(
    tmp_path: Path, observer: Observer
) -> None:
    async with talking(tmp_path, observer, terminal=False) as talk:
        ran = json.dumps({"command": "touch", "args": [str(tmp_path / "ran")], "terminalId": "x"})
        for answer in await talk.says(*[f"call terminal/{method} {ran}" for method in METHODS]):
            assert error_of(answer) == (-32601, "method_not_found")
        assert talk.host.asks == []
    assert not (tmp_path / "ran").exists()


async def test_an_allowed_command_runs_once_with_exactly_the_words_that_were_shown(
    tmp_path: Path, observer: Observer
) -> None:
    words = ["a b", "it's", '"', "", "é", "two\nlines", "$(touch X)", "`touch X`", "x; touch X"]
    words += ["*", "~", "$HOME", "\\", "-n", "\t", "|", "&&", "\u202e"]
    async with talking(tmp_path, observer) as talk:
        argv = (*PYTHON, "-c", TELL, str(tmp_path / "told"), *words)
        created = await talk.create(*argv)
        (ended,) = await talk.says(calls("wait_for_exit"))
        assert ended == {"exitCode": 0, "signal": None}
        (ask,) = talk.host.asks
        assert created["terminalId"] == ask.subject.tool_call_id
        assert (ask.subject.source, ask.subject.kind) == (Source.TERMINAL, ToolKind.EXECUTE)
        assert [option.kind for option in ask.options] == ["allow_once", "reject_once"]
        shown = ask.subject.raw_input
        assert [shown["command"], *shown["args"]] == list(argv)
    (only,) = told(tmp_path)
    assert only["argv"] == words
    assert only["cwd"] == shown["cwd"] == str(tmp_path / "ws")
    assert list((tmp_path / "ws").iterdir()) == []


async def test_each_command_is_asked_about_by_itself(tmp_path: Path, observer: Observer) -> None:
    """Case 60: neither the same command again, nor a tool call that was allowed, is an answer."""
    answers = iter([Effect.ALLOW, Effect.DENY, Effect.ALLOW, Effect.DENY])

    async def decide(ask: PermissionAsk) -> Decision:
        effect = next(answers)
        option = "allow_once" if effect is Effect.ALLOW else "reject_once"
        return Decision(effect, option, Reason.OPERATOR)

    async with talking(tmp_path, observer, decide) as talk:
        tell = creates(*PYTHON, "-c", TELL, str(tmp_path / "told"))
        first, second, _ = await talk.says(tell, tell, calls("wait_for_exit", "@TID0@"))
        assert "terminalId" in first
        assert error_of(second)[1] == "permission_denied"
        _, other = await talk.says("ask execute ls", tell)
        assert error_of(other)[1] == "permission_denied"
    assert len(told(tmp_path)) == 1


# ---- What runs ----


async def test_g24_a_command_gets_the_agents_environment_and_what_it_may_be_given(
    tmp_path: Path, observer: Observer
) -> None:
    given = {
        "PLAIN": "a b",
        "EMPTY": "",
        "PATH": "/nowhere",
        "LD_PRELOAD": "/x.so",
        "PYTHONSTARTUP": "/x.py",
        "GIT_SSH_COMMAND": "x",
        "BASH_ENV": "/x",
        "BASH_FUNC_ls%%": "() { x; }",
        "NODE_OPTIONS": "-r x",
        "PERL5OPT": "-Mx",
        "ANTHROPIC_BASE_URL": "http://x",
        "ACPBRIDGE_MARK": "agent:other:main.x",
        "ACPBRIDGE_HOME": "/x",
    }
    env = [{"name": name, "value": value} for name, value in given.items()]
    own = {"ACPBRIDGE_HOME": "/home", "ACPBRIDGE_MARK": "agent:mine:main.y", "KEY": "k"}
    async with talking(tmp_path, observer, env=own) as talk:
        await talk.create(*PYTHON, "-c", TELL, str(tmp_path / "told"), env=env)
        await talk.says(calls("wait_for_exit"))
        (ask,) = talk.host.asks
        (notice,) = talk.notices("terminal_started")
    kept = {"PLAIN": "a b", "EMPTY": "", "PATH": "/nowhere"}
    shown = ask.subject.raw_input["env"]
    assert {item["name"]: item["value"] for item in shown} == kept
    assert "without LD_PRELOAD, PYTHONSTARTUP" in notice["message"]
    (only,) = told(tmp_path)
    mark = only["env"].pop("ACPBRIDGE_MARK")
    only["env"].pop("LC_CTYPE", None)  # the interpreter's own
    own.pop("ACPBRIDGE_MARK")
    assert only["env"] == {"TEST": observer.marker, **own, **kept}
    assert mark.startswith(f"{talk.key}.")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Make directories and links beside and in the workspace."""
    workspace = tmp_path / "ws"
    (workspace / "inner" / "deep").mkdir(parents=True)
    (tmp_path / "ws-evil").mkdir()
    (workspace / "out").symlink_to(tmp_path / "ws-evil")
    (workspace / "in").symlink_to(workspace / "inner")
    (workspace / "loop").symlink_to(workspace / "loop")
    (workspace / "file").touch()
    return workspace


OUTSIDE = (
    *("/", "{ws}-evil", "{ws}/../ws-evil", "{ws}/..", "{ws}/out", "{ws}/inner/../../ws-evil"),
    *("{ws}/loop", "{ws}/file", "{ws}/missing", "/proc/self/root", "/proc/self/cwd"),
    *("inner", ".", "~", "", "{ws}\0"),
)


async def test_g25_a_directory_outside_the_session_is_refused_before_anybody_is_asked(
    tmp_path: Path, observer: Observer, outside: Path
) -> None:
    async with talking(tmp_path, observer) as talk:
        for cwd in OUTSIDE:
            answer = await talk.create("touch", "ran", cwd=cwd.format(ws=outside))
            assert error_of(answer) == (-32602, "invalid_params"), cwd
        assert talk.host.asks == []
    assert not list(tmp_path.rglob("ran"))


async def test_g25_a_directory_inside_is_shown_and_entered_without_its_links(
    tmp_path: Path, observer: Observer, outside: Path
) -> None:
    async with talking(tmp_path, observer) as talk:
        for cwd in ("in/deep", "inner/deep/../deep/."):
            tell = (*PYTHON, "-c", TELL, str(tmp_path / "told"))
            await talk.create(*tell, cwd=f"{outside}/{cwd}")
            await talk.says(calls("wait_for_exit"))
        shown = {ask.subject.raw_input["cwd"] for ask in talk.host.asks}
    assert shown == {line["cwd"] for line in told(tmp_path)} == {f"{outside}/inner/deep"}


async def test_g25_a_root_that_was_replaced_by_a_link_widens_nothing(
    tmp_path: Path, observer: Observer, outside: Path
) -> None:
    async with talking(tmp_path, observer) as talk:
        outside.rename(tmp_path / "was")
        outside.symlink_to("/")
        for params in ({}, {"cwd": "/tmp"}, {"cwd": str(outside)}):
            answer = await talk.create("touch", str(tmp_path / "ran"), **params)
            assert error_of(answer) == (-32602, "invalid_params")
        assert talk.host.asks == []
    assert not (tmp_path / "ran").exists()


def script(path: Path, says: str) -> None:
    path.write_text(f"#!/bin/sh\necho {says} $0\n", encoding="utf-8")
    path.chmod(0o755)


async def test_a_bare_word_is_looked_up_on_the_agents_path_alone(
    tmp_path: Path, observer: Observer
) -> None:
    workspace, trusted = tmp_path / "ws", tmp_path / "bin"
    workspace.mkdir()
    trusted.mkdir()
    script(workspace / "tool", "evil")
    script(workspace / "only-here", "evil")
    script(trusted / "tool", "good")
    path = f".:{trusted}::{os.environ['PATH']}"
    async with talking(tmp_path, observer, env={"PATH": path}) as talk:
        env = [{"name": "PATH", "value": f"{workspace}:{os.environ['PATH']}"}]
        for given in ([], env):
            await talk.create("tool", env=given)
            await talk.says(calls("wait_for_exit"))
            assert (await talk.output())["output"] == f"good {trusted}/tool\n"
        subject = talk.host.asks[-1].subject
        assert (subject.raw_input["command"], subject.locations) == ("tool", (f"{trusted}/tool",))
        answer = await talk.create("only-here", env=env)
        assert error_of(answer) == (-32602, "invalid_params")
        # What the workspace has runs only by its path, and that is what is shown.
        await talk.create("./tool")
        await talk.says(calls("wait_for_exit"))
        assert talk.host.asks[-1].subject.raw_input["command"] == f"{workspace}/tool"
        assert talk.host.asks[-1].subject.title == f"{workspace}/tool"


async def test_what_is_another_program_by_the_time_it_was_allowed_does_not_run(
    tmp_path: Path, observer: Observer
) -> None:
    """What runs is byte for byte what was shown, or nothing."""
    workspace, swap = tmp_path / "ws", tmp_path / "swap"
    (workspace / "dir").mkdir(parents=True)
    swap.mkdir()

    async def decide(ask: PermissionAsk) -> Decision:
        change()
        return await allow(ask)

    def replace_program() -> None:
        script(swap / "tool", f"evil > {tmp_path}/ran #")
        (swap / "tool").rename(workspace / "tool")

    def remove_program() -> None:
        (workspace / "tool").unlink()

    def replace_directory() -> None:
        (workspace / "dir").rename(swap / "dir")
        (workspace / "dir").symlink_to(swap / "dir")

    def replace_directory_inside() -> None:
        (workspace / "dir").rename(workspace / "was")
        (workspace / "dir").mkdir()

    async with talking(tmp_path, observer, decide) as talk:
        for change in (
            replace_program,
            remove_program,
            replace_directory_inside,
            replace_directory,
        ):
            script(workspace / "tool", f"good > {tmp_path}/ran #")
            answer = await talk.create(
                "./tool" if "program" in change.__name__ else "../tool",
                cwd=str(workspace if "program" in change.__name__ else workspace / "dir"),
            )
            assert error_of(answer)[1] in {"permission_denied", "invalid_params"}, change
            assert not (tmp_path / "ran").exists()
        assert len(talk.host.asks) == 4
        assert await talk.roles() == ["agent", "shim"]


WRONG: tuple[Any, ...] = (
    {},
    {"command": ""},
    {"command": 1},
    {"command": ["touch"]},
    {"command": "no-such-program-anywhere"},
    {"command": "to\0uch"},
    {"command": "true", "args": "x"},
    {"command": "true", "args": [1]},
    {"command": "true", "args": ["a\0b"]},
    {"command": "true", "env": {"A": "b"}},
    {"command": "true", "env": [{"name": "A"}]},
    {"command": "true", "env": [{"name": "", "value": "b"}]},
    {"command": "true", "env": [{"name": "A=B", "value": "c"}]},
    {"command": "true", "env": [{"name": "A", "value": "c\0"}]},
    {"command": "true", "env": [{"name": "A", "value": "b"}, {"name": "A", "value": "c"}]},
    {"command": "true", "cwd": 5},
    {"command": "true", "outputByteLimit": -1},
    {"command": "true", "outputByteLimit": 1.5},
    {"command": "true", "outputByteLimit": True},
    {"command": "true", "sessionId": "another"},
)


async def test_row_11_and_13_params_that_are_wrong_are_refused_before_anybody_is_asked(
    tmp_path: Path, observer: Observer
) -> None:
    async with talking(tmp_path, observer) as talk:
        lines = [f"call terminal/create {json.dumps(params)}" for params in WRONG]
        for line, answer in zip(lines, await talk.says(*lines), strict=True):
            assert error_of(answer) == (-32602, "invalid_params"), line
        assert talk.host.asks == []
