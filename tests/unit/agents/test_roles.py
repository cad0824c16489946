"""Roles are files of the user's: defaults, warnings, errors that say where (0-15)."""

import os
from pathlib import Path

import pytest

from acpbridge.agents.roles import (
    LARGEST,
    MOST_ROLES,
    Capabilities,
    load_roles,
    parse_role,
    roles_directory,
)
from acpbridge.errors import BridgeError

WHOLE = """\
---
name: code-reviewer
description: "Reviews code"
tools:
  - Read
  - Grep
memory: true
send_message: true
max_iterations: 50
---

You review code.

---
Even this line is yours.
"""


def write(directory: Path, name: str, text: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_text(text, encoding="utf-8")


def test_0_15_a_role_has_what_its_file_says() -> None:
    role, warnings = parse_role(WHOLE, "x.md")
    assert (role.name, role.description) == ("code-reviewer", "Reviews code")
    assert role.tools == ("Read", "Grep")
    assert role.system_prompt == "You review code.\n\n---\nEven this line is yours."
    assert role.capabilities == Capabilities(memory=True, send_message=True, max_iterations=50)
    assert warnings == ()


@pytest.mark.parametrize("text", ["---\n---\nHi", "---\nmax_iterations: 0\n---\nHi"])
def test_0_15_what_is_not_said_has_its_default(text: str) -> None:
    role, _ = parse_role(text, "/somewhere/helper.md")
    assert (role.name, role.tools, role.system_prompt) == ("helper", (), "Hi")
    assert role.capabilities == Capabilities(memory=False, send_message=False, max_iterations=100)


def test_0_15_both_spellings_of_a_key_are_one() -> None:
    role, warnings = parse_role("---\nsendMessage: true\n---\n", "a.md")
    assert role.capabilities.send_message
    assert warnings == ()


def test_0_15_a_key_that_means_nothing_is_warned_of_with_its_line() -> None:
    _, warnings = parse_role("---\nname: a\ncolour: red\n---\n", "a.md")
    assert warnings == (
        "a.md, line 3: colour: this key means nothing in a role; it is not looked at.",
    )


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("You review.", "must begin with a line ---"),
        ("", "must begin with a line ---"),
        ("---\nname: a\n", "has no end"),
        ("---\n- a\n---\n", "keys with values"),
        ("---\nname: a\nmemory: maybe\n---\n", "line 3: memory"),
        ("---\nmax_iterations: -1\n---\n", "line 2: maxIterations"),
        ("---\nmax_iterations: many\n---\n", "line 2: maxIterations"),
        ("---\ntools: Read\n---\n", "line 2: tools"),
        ("---\nname: a\nname: b\n---\n", "given twice"),
        ("---\nname: ../a\n---\n", "small letters"),
        ("---\nname: A\n---\n", "small letters"),
        ("---\nname: !!python/name:os.system x\n---\n", "line 2"),
    ],
)
def test_0_15_a_file_that_is_no_role_says_where_and_why(text: str, why: str) -> None:
    with pytest.raises(BridgeError, match=why) as caught:
        parse_role(text, "bad.md")
    assert caught.value.code == "config_error"
    assert "bad.md" in caught.value.message


def test_0_15_a_broken_file_costs_nobody_the_others(tmp_path: Path) -> None:
    write(tmp_path, "good.md", "---\ndescription: fine\n---\nHi")
    write(tmp_path, "bad.md", "no front matter")
    write(tmp_path, "notes.txt", "no role")
    (tmp_path / "folder.md").mkdir()
    os.mkfifo(tmp_path / "pipe.md")
    write(tmp_path, "long.md", "---\n---\n" + "x" * LARGEST)
    (tmp_path / "odd.md").write_bytes(b"---\n---\n\xff")
    roles = load_roles(tmp_path)
    assert list(roles.known) == ["good"]
    assert sorted(roles.broken) == ["bad", "folder", "long", "odd", "pipe"]
    assert len(roles.warnings) == 5
    with pytest.raises(BridgeError, match="must begin"):
        roles.get("bad")
    with pytest.raises(BridgeError, match="there is: good") as caught:
        roles.get("nobody")
    assert caught.value.code == "no_such_agent"


def test_0_15_two_files_of_one_name_are_told(tmp_path: Path) -> None:
    write(tmp_path, "a.md", "---\nname: x\n---\nfirst")
    write(tmp_path, "b.md", "---\nname: x\n---\nsecond")
    roles = load_roles(tmp_path)
    assert roles.get("x").system_prompt == "first"
    assert "b.md" in roles.warnings[0]


def test_0_15_where_no_directory_is_there_are_no_roles(tmp_path: Path) -> None:
    assert load_roles(tmp_path / "roles").known == {}


def test_0_15_roles_lie_beside_the_users_configuration_and_never_in_a_workspace(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace, home = tmp_path / "work", tmp_path / "home"
    write(workspace / "roles", "root.md", "---\n---\nfrom the workspace")
    write(home / "roles", "mine.md", "---\n---\nfrom me")
    monkeypatch.chdir(workspace)
    found = load_roles(roles_directory(str(home / "config.yaml")))
    assert list(found.known) == ["mine"]
    with pytest.raises(BridgeError, match="absolute"):
        roles_directory("config.yaml")


def test_of_very_many_roles_the_first_are_read_and_the_rest_is_told(tmp_path: Path) -> None:
    for number in range(MOST_ROLES + 1):
        write(tmp_path, f"r{number:03}.md", "---\n---\n")
    roles = load_roles(tmp_path)
    assert len(roles.known) == MOST_ROLES
    assert f"only {MOST_ROLES} of {MOST_ROLES + 1}" in roles.warnings[0]


def test_a_directory_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "roles").write_text("a file", encoding="utf-8")
    roles = load_roles(tmp_path / "roles")
    assert roles.known == {}
    assert "cannot be read" in roles.warnings[0]
