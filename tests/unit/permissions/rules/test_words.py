"""The words of a command: only what no shell could make more of."""

import subprocess
from typing import Any

import pytest

from acpbridge.model.permission import Source
from acpbridge.permissions.rules import words
from acpbridge.permissions.rules.wrappers import hides_program
from tests.unit.permissions.rules.asking import facts


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        ("pytest -q", ("pytest", "-q")),
        ("git commit -m 'two words'", ("git", "commit", "-m", "two words")),
        ('echo "a b" c', ("echo", "a b", "c")),
        (["pytest", "-q"], ("pytest", "-q")),
        (["rg", "two words"], ("rg", "two words")),
        (["bash", "-lc", "pytest -q"], ("pytest", "-q")),
        (["/bin/zsh", "-c", "pytest -q"], ("pytest", "-q")),
        ("/bin/bash -lc 'pytest -q'", ("pytest", "-q")),
        (["sh", "-c", "pytest"], ("sh", "-c", "pytest")),
        (["/tmp/bash", "-lc", "pytest"], ("/tmp/bash", "-lc", "pytest")),
        (["bash", "-lc", "pytest", "-q"], ("bash", "-lc", "pytest", "-q")),
        (["bash", "-lc", "bash -lc pytest"], ("bash", "-lc", "pytest")),
        ("make all", ("make", "all")),
    ],
)
def test_a_plain_command_is_its_words(command: Any, argv: tuple[str, ...]) -> None:
    assert words.read(command) == argv


# One for each way in which a text can be more than words.
MORE = [
    "a; b", "a && b", "a || b", "a | b", "a & b", "a\nb", "a\rb", "$(a)", "echo $HOME", "echo `a`",
    "a > f", "a < f", "(a)", "a \\b", "echo ${x@P}", "ls *", "ls ?", "ls [a]", "ls {a,b}", "ls ~",
    "a # b", "a !!", "X=1 a", "X+=1 a", "=ls", "a =ls", "a '", 'a "', "", " ", "''", "a ^b",
    "echo 'a;b'", "a\tb", "a\u00a0b", "a\u200bb", "a \u202eb", "a\x1bb", "a\0b",
    "a" + " " * 16 + "b",
    "A" * 40_000, "a " * 1100,
]  # fmt: skip


@pytest.mark.parametrize("command", MORE, ids=range(len(MORE)))
def test_in_doubt_a_command_has_no_words(command: str) -> None:
    assert words.read(command) is None
    assert words.read(["bash", "-lc", command]) is None


LISTS: list[Any] = [
    [], [""], ["a", 1], ["a", None], [["a"]], ["a;b"], ["a", "$x"], ["a", "`b`"], ["a", "x\ny"],
    ["a", "b\u202ec"], ["a", "x" + " " * 20], ["a"] * 1025, ["a", "b" * 40_000], {"a": 1}, 7, None,
    ["a", ">f"], ["a", "|"], ["a", "b\\c"], True,
]  # fmt: skip


@pytest.mark.parametrize("command", LISTS, ids=range(len(LISTS)))
def test_a_list_that_is_not_plain_has_no_words(command: Any) -> None:
    assert words.read(command) is None


def test_a_shell_splits_a_text_into_the_same_words() -> None:
    texts = [
        "a 'b c' d",
        'a "b  c"',
        "a b=c d:e",
        "a --x='y z' w",
        "a '' b",
        "x'y'z \"q\"r",
        "%1 @a",
    ]
    for text in texts:
        found = words.of_text(text)
        assert found is not None
        printed = subprocess.run(
            f"printf '%s\\n' {text}", shell=True, capture_output=True, text=True, check=True,
            encoding="utf-8", timeout=20,
        )  # fmt: skip
        assert tuple(printed.stdout.splitlines()) == found


BESIDE: list[Any] = [
    {"command": "a", "dangerouslyDisableSandbox": True},
    {"command": "a", "shell": "/tmp/sh"},
    {"command": "a", "env": {"PATH": "/tmp"}},
    {"command": "a", "env": [{"name": "PATH", "value": "/tmp"}]},
    {"command": "a", "cmd": "b"},
    {"command": "a", "argv": ["b"]},
    {"command": "a b", "args": ["c"]},
    {"command": "a", "args": "c"},
    {"command": "a", "args": ["$c"]},
    {"command": ["a"], "args": ["c"]},
    {"command": "a", "cwd": "/tmp"},
    {"command": "a", "cwd": "/srv/app_evil"},
    {"command": "a", "cwd": "/srv/app/../.."},
    {"command": "a", "cwd": "sub"},
    {"command": "a", "cwd": ["/srv/app"]},
    {"command": "a", "workdir": "/etc"},
    {"command": "./a", "cwd": "/srv/app/sub"},
    {"args": ["a"]},
    {},
    "a",
    ["a"],
    None,
]


@pytest.mark.parametrize("raw", BESIDE, ids=range(len(BESIDE)))
def test_what_stands_beside_a_command_may_leave_it_in_doubt(raw: Any) -> None:
    assert facts("execute", raw).argv is None


@pytest.mark.parametrize(
    ("raw", "argv"),
    [
        ({"command": "a b", "cwd": "/srv/app"}, ("a", "b")),
        ({"command": "a", "cwd": "/srv/app/sub"}, ("a",)),
        ({"command": "./a", "cwd": "/srv/app"}, ("./a",)),
        ({"command": "a", "args": ["b c"]}, ("a", "b c")),
        ({"command": "a", "description": "whatever", "timeout": 5}, ("a",)),
        ({"command": "a", "env": {}, "dangerouslyDisableSandbox": False}, ("a",)),
        ({"argv": ["a", "b"]}, ("a", "b")),
    ],
)
def test_what_changes_nothing_may_stand_beside_it(raw: Any, argv: tuple[str, ...]) -> None:
    assert facts("execute", raw).argv == argv


def test_what_the_bridge_starts_itself_is_one_program_and_its_arguments() -> None:
    raw = {"command": "my tool", "args": ["x y"], "cwd": "/srv/app", "env": []}
    assert facts("execute", raw, source=Source.TERMINAL).argv == ("my tool", "x y")
    raw = {"command": "a b", "args": []}
    assert facts("execute", raw, source=Source.TERMINAL).argv == ("a b",)


@pytest.mark.parametrize(
    "command",
    ["sh x", "bash", "/bin/sh -c x", "env x", "xargs rm", "sudo x", "npx tsc", "uv run x", "time x",
     "uv --quiet run x", "python -c x", "python3.11 -Ic x", "python", "python -", "node -e x",
     "node --eval=x", "perl -ne x", "ruby -e x", "npm exec x", "SUDO x", "BASH.exe x", "ssh h x",
     "busybox sh", "timeout 5 x", "nohup x", "poetry run x", "docker exec c x", "eval x",
     "php -r x", "deno eval x", "source x", "setsid x"],
)  # fmt: skip
def test_a_wrapper_hides_the_program(command: str) -> None:
    assert hides_program(command.split())


@pytest.mark.parametrize(
    "command",
    ["pytest", "python x.py", "python -m pytest", "python3 -B x.py -c", "node x.js -e", "uv sync",
     "npm test", "docker ps", "shfmt x", "environ", "git run", "perl -w x"],
)  # fmt: skip
def test_what_says_what_it_runs_is_no_wrapper(command: str) -> None:
    assert not hides_program(command.split())
