"""Each way to fail has its code, its exit status and a hint of what to do next."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.fake_acp import fake_agent
from tests.integration.daemon_home import Home, daemon_home, failed


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """For whoever needs no daemon of its own: what is configured anew acts at once."""
    with daemon_home(tmp_path_factory.mktemp("errors")) as made:
        yield made


def configure(home: Home, *options: str, **fields: Any) -> None:
    row = {"id": "a", "runtime": {"command": list(fake_agent(*options))}, **fields}
    value = {"agents": {"list": [row]}, "limits": {"startSeconds": 2}}
    (home.path / "config.yaml").write_text(json.dumps(value), encoding="utf-8")


def test_case_67_a_missing_binary_is_named_with_what_to_do(home: Home) -> None:
    value = {"agents": {"list": [{"id": "a", "runtime": {"command": ["no-such-program"]}}]}}
    (home.path / "config.yaml").write_text(json.dumps(value), encoding="utf-8")
    said = failed(home.run("run", "hi"), "agent_not_found", 6)
    assert "no-such-program" in said


def test_case_106_a_missing_directory_is_not_taken_for_a_missing_program(
    home: Home, tmp_path: Path
) -> None:
    configure(home)
    said = failed(home.run("run", "hi", "--cwd", str(tmp_path / "gone")), "usage", 2)
    assert "gone" in said


def test_an_agent_that_dies_at_its_start_is_quoted(home: Home) -> None:
    configure(home, "--die-at-start", "3", "--stderr", "no licence found")
    said = failed(home.run("run", "hi"), "start_failed", 6)
    assert "exit code 3" in said
    assert "no licence found" in said


def test_case_99_g10_an_agent_that_never_answers_is_ended_tree_and_all(home: Home) -> None:
    configure(home, "--silent-start", "--mark", home.mark, "--children", "setsid", "env-i")
    said = failed(home.run("run", "hi"), "start_timeout", 6)
    assert "2 s" in said
    assert not [c for c in home.marked().values() if home.mark in c]


@pytest.mark.parametrize("how", ["--mode-deaf", "--mode-error"])
def test_a_mode_that_is_not_confirmed_stops_before_the_first_prompt(
    how: str, home: Home, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    configure(
        home,
        "--modes",
        "loose,strict",
        "--mode",
        "loose",
        how,
        "--log",
        str(log),
        mode="strict",
    )
    failed(home.run("run", "hi"), "mode_not_set", 6)
    assert "session/prompt" not in log.read_text(encoding="utf-8")


def test_a_bad_configuration_names_file_line_and_key(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        text = "agents:\n  list:\n    - id: a\n      runtime: {kind: acp, commandd: [x]}\n"
        (home.path / "config.yaml").write_text(text, encoding="utf-8")
        said = failed(home.run("run", "hi"), "config_error", 2)
        assert f"{home.path / 'config.yaml'}, line 4" in said
        assert "commandd" in said
        configure(home)


def test_g9_a_second_daemon_ends_and_names_the_first(home: Home) -> None:
    assert home.run("daemon", "start").code == 0
    pid = home.daemon_pid()
    said = failed(home.run("daemon", "run"), "daemon_running", 1)
    assert str(pid) in said
    assert home.daemon_pid() == pid


def test_g23_a_state_directory_that_is_open_to_others_is_refused(tmp_path: Path) -> None:
    other = tmp_path / "open"
    other.mkdir()
    other.chmod(0o755)
    with daemon_home(tmp_path) as home:
        done = home.run("--home", str(other), "run", "hi", "--agent", "demo")
        said = failed(done, "not_our_socket", 8)
        assert "chmod 700" in said
    assert list(other.iterdir()) == []


def test_an_unknown_key_is_not_found(home: Home) -> None:
    home.start()
    for words in (("cancel", "nope"), ("kill", "nope"), ("run", "x", "--session", "nope")):
        assert "nope" in failed(home.run(*words), "no_such_session", 4)
    answered = home.run("permissions", "answer", "nope", "--deny")
    assert "nope" in failed(answered, "no_such_question", 4)
    assert "nope" in failed(home.run("run", "x", "--agent", "nope"), "no_such_agent", 4)
    assert home.status()["sessions"] == []


def test_a_full_inbox_is_busy(home: Home) -> None:
    configure(home)
    key = home.run("run", "hang", "--detach").out.strip()
    for number in range(20):
        queued = home.run("run", f"say {number}", "--session", key, "--detach")
        assert queued.code == 0, queued
    failed(home.run("run", "one more", "--session", key, "--detach"), "busy", 1)
    assert home.session()["queueDepth"] == 20
    home.run("kill", "--all", "--now")


def test_an_argument_of_the_wrong_kind_is_a_usage_error(home: Home) -> None:
    for words in (("run", "x", "--timeout", "soon"), ("run", ""), ("nonsense",)):
        assert home.run(*words).code == 2, words
    assert sys.version_info >= (3, 11)


def test_what_is_wrong_in_the_use_of_a_command_names_its_help(home: Home) -> None:
    configure(home)
    for words in (("--image", "gone.png"), ("--set", "x"), ("--model", "")):
        said = failed(home.run("run", "hi", *words), "usage", 2)
        assert said.endswith("\nnext: See: acpbridge run --help\n")


def test_of_an_agent_that_offers_no_options_none_is_recommended(home: Home) -> None:
    configure(home)
    said = failed(home.run("run", "hi", "--set", "effort=high"), "unsupported_control", 1)
    assert "it offers none at all" in said
    assert said.endswith("\nnext: Leave it out, or use an agent that has it.\n")


def test_a_command_that_is_nearly_one_is_told_which(home: Home) -> None:
    said = failed(home.run("permission"), "usage", 2)
    assert "No such command 'permission'. Did you mean: permissions?" in said
    assert "mean" not in failed(home.run("xyzzy"), "usage", 2)


def test_where_no_session_is_none_is_to_be_listed(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        configure(home)
        for words in (("logs", "--last"), ("restart", "--last"), ("attach", "--last")):
            said = failed(home.run(*words), "no_such_session", 4)
            assert said.endswith("\nnext: Begin one: acpbridge run 'Say hello'.\n")
        said = failed(home.run("run", "hi", "--continue"), "no_such_session", 4)
        assert "\nnext: Leave --continue out, or " in said
