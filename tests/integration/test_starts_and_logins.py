"""How a start or a login that fails is told: in time, with its reason, and with what to do next."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.fake_acp import fake_agent
from tests.integration.daemon_home import LIMIT, PAUSE, Home, daemon_home, failed, until
from tests.integration.machine import MODES, Machine


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """For whoever needs no daemon of its own: what is configured anew acts at once."""
    with daemon_home(tmp_path_factory.mktemp("logins")) as made:
        yield made


def configure(home: Home, *options: str, limits: dict[str, Any] | None = None) -> None:
    row = {"id": "a", "runtime": {"command": list(fake_agent("--mark", home.mark, *options))}}
    value = {"agents": {"list": [row]}, "limits": limits or {}}
    (home.path / "config.yaml").write_text(json.dumps(value), encoding="utf-8")


def methods(log: Path) -> list[str]:
    """Return what a fake agent was called, in order."""
    records = map(json.loads, log.read_text(encoding="utf-8").splitlines())
    lines = [json.loads(record["line"]) for record in records if record["event"] == "line"]
    return [line["method"] for line in lines if "method" in line]


def no_agent_is_left(home: Home) -> bool:
    return not [command for command in home.marked().values() if home.mark in command]


# Logins.


def test_case_94_a_single_plain_way_is_taken_once_and_the_run_goes_on(
    home: Home, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    configure(home, "--auth-required", "new", "--auth-method", "key", "--log", str(log))
    done = home.run("run", "say in")
    assert (done.code, done.out) == (0, "in\n"), done
    assert methods(log)[:4] == ["initialize", "session/new", "authenticate", "session/new"]


def test_case_94_a_way_that_does_not_help_is_not_tried_twice(home: Home, tmp_path: Path) -> None:
    log = tmp_path / "log"
    refusal = json.dumps({"error": {"code": -32000, "message": "wrong key"}})
    configure(
        home,
        *("--auth-required", "new", "--auth-method", "key", "--log", str(log)),
        *("--answer", "authenticate", refusal),
    )
    said = failed(home.run("run", "hi"), "auth_required", 7)
    assert "Its ways: key." in said
    assert methods(log) == ["initialize", "session/new", "authenticate"]


@pytest.mark.parametrize(
    "ways",
    [
        (),
        ("--auth-method", "key", "--auth-method", "browser"),
        ("--auth-terminal", "tty"),
        ("--auth-method", "key", "--auth-terminal", "tty"),
    ],
)
def test_case_94_otherwise_the_ways_are_listed_and_nothing_interactive_starts(
    ways: tuple[str, ...], home: Home, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    configure(home, "--auth-required", "new", *ways, "--log", str(log))
    said = failed(home.run("run", "hi"), "auth_required", 7)
    assert all(way in said for way in ways if not way.startswith("--"))
    assert methods(log) == ["initialize", "session/new"]
    assert no_agent_is_left(home)


def test_case_94_the_way_that_the_definition_names_is_taken_of_several(
    home: Home, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    ways = ("--auth-method", "key", "--auth-method", "browser", "--auth-required", "new")
    command = list(fake_agent("--mark", home.mark, *ways, "--log", str(log)))
    row = {"id": "a", "runtime": {"command": command}}
    for value in ({**row, "authMethod": "key"}, row):
        config = {"agents": {"list": [value]}}
        (home.path / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
        log.unlink(missing_ok=True)
        done = home.run("run", "say in")
        if "authMethod" in value:
            assert (done.code, done.out) == (0, "in\n"), done
            assert methods(log)[1:4] == ["session/new", "authenticate", "session/new"]
        else:
            assert "authMethod" in failed(done, "auth_required", 7)


def test_case_94_a_known_agent_is_told_the_command_that_logs_in(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        machine = Machine(home, tmp_path)
        for when in ("new", "prompt"):
            ways = ("--auth-method", "api-key", "--auth-method", "chat")
            machine.install("codex-acp", *MODES, "--auth-required", when, *ways)
            said = failed(home.run("run", "hi", "--agent", "codex"), "auth_required", 7)
            assert "acpbridge login codex" in said
            assert "OPENAI_API_KEY" in said


def test_case_97_a_login_lost_in_a_prompt_fails_the_run_with_its_details(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        log = tmp_path / "log"
        configure(home, "--log", str(log), "--auth-method", "key")
        prompt = 'error -32000 "Authentication required" {"details": "run login"}'
        done = home.run("run", prompt)
        said = failed(done, "auth_required", 7)
        assert "Authentication required: run login" in said
        # No retry, and nothing that is active, also after a restart of the daemon.
        assert methods(log) == ["initialize", "session/new", "session/prompt"]
        until(lambda: home.status()["sessions"] == [])
        assert home.run("daemon", "stop").code == 0
        (row,) = home.records()
        assert row["turn"] is None
        assert row["lastError"]["code"] == "auth_required"
        assert methods(log)[-1] == "session/prompt"
        assert methods(log).count("session/prompt") == 1


# Cold starts.

DOWNLOAD = (
    "for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do echo downloading $i >&2; sleep 0.2; done"
)


def downloading(home: Home, folder: Path, *options: str, limits: dict[str, Any]) -> Machine:
    """Make a machine on which a known agent has to be downloaded, for three seconds."""
    machine = Machine(home, folder)
    home.env["PATH"] += ":/usr/bin:/bin"
    machine.install("npx", *options, first=[DOWNLOAD])
    row = {"id": "codex", "env": {"pass": []}}
    value = {"agents": {"list": [row]}, "limits": limits}
    (home.path / "config.yaml").write_text(json.dumps(value), encoding="utf-8")
    return machine


def test_case_98_a_first_start_that_downloads_has_more_time_and_status_says_how_long(
    tmp_path: Path,
) -> None:
    with daemon_home(tmp_path) as home:
        downloading(home, tmp_path, *MODES, limits={"startSeconds": 1, "coldStartSeconds": 30})
        with home.running("run", "say here", "--agent", "codex") as run:
            shown = ""
            deadline = time.monotonic() + LIMIT
            while "starting (2 s)" not in shown:
                assert time.monotonic() < deadline, shown
                time.sleep(PAUSE)
                shown = home.run("status").out
            out, err = run.communicate(timeout=LIMIT)
        assert (run.returncode, out) == (0, b"here\n"), err


def test_case_98_a_silent_download_ends_at_its_limit_and_names_the_launcher(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        limits = {"startSeconds": 1, "coldStartSeconds": 2}
        downloading(home, tmp_path, "--silent-start", limits=limits)
        said = failed(home.run("run", "hi", "--agent", "codex"), "start_timeout", 6)
        assert "in 2 s. It was started through npx" in said
        assert "downloading 3" in said
        assert "limits.coldStartSeconds" in said
        assert "npx -y @agentclientprotocol/codex-acp@" in said


def test_case_98_a_silent_agent_that_is_installed_ends_at_the_shorter_limit(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        machine = downloading(home, tmp_path, limits={"startSeconds": 1, "coldStartSeconds": 50})
        machine.install("codex-acp", "--silent-start")
        said = failed(home.run("run", "hi", "--agent", "codex"), "start_timeout", 6)
        assert "in 1 s." in said
        assert "npx" not in said
        assert "limits.startSeconds" in said


def test_case_98_an_agent_is_fetched_by_uvx_where_that_is_its_way(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        machine = Machine(home, tmp_path)
        note = f'echo "$PWD" "$@" > {tmp_path}/words'
        machine.install("uvx", first=[note])
        done = home.run("run", "say here", "--agent", "fast-agent")
        assert (done.code, done.out) == (0, "here\n"), done
        words = (tmp_path / "words").read_text(encoding="utf-8")
        # Not in the workspace, whose own settings would have a say there.
        assert words == f"{home.env['HOME']} fast-agent-mcp acp\n"


# Starts that fail.


def test_case_99_a_start_without_an_answer_quotes_stderr_and_the_next_one_is_allowed(
    home: Home,
) -> None:
    limits = {"startSeconds": 1, "maxProcesses": 1}
    configure(home, "--silent-start", "--stderr", "waiting for godot", limits=limits)
    said = failed(home.run("run", "hi"), "start_timeout", 6)
    assert "waiting for godot" in said
    assert no_agent_is_left(home)
    configure(home, limits={"maxProcesses": 1})
    assert home.run("run", "say again").out == "again\n"


@pytest.mark.parametrize("version", [0, 2, 65535])
def test_case_100_an_agent_of_another_protocol_version_is_ended_before_any_session(
    version: int, home: Home, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    configure(home, "--protocol-version", str(version), "--log", str(log))
    said = failed(home.run("run", "hi"), "protocol_version", 6)
    assert f"version {version};" in said
    assert "speaks version 1." in said
    assert methods(log) == ["initialize"]
    assert no_agent_is_left(home)


def test_case_102_a_version_refused_by_an_error_shows_its_text_and_is_not_tried_again(
    home: Home,
    tmp_path: Path,
) -> None:
    log = tmp_path / "log"
    error = {"code": -32600, "message": "Invalid request", "data": "unsupported version 1"}
    refusal = json.dumps({"error": error})
    configure(home, "--answer", "initialize", refusal, "--log", str(log))
    said = failed(home.run("run", "hi"), "start_failed", 6)
    assert "Invalid request: unsupported version 1" in said
    assert methods(log) == ["initialize"]
    assert no_agent_is_left(home)


@pytest.mark.parametrize("kind", ["missing", "file", "unreadable"])
def test_case_106_a_directory_that_cannot_be_entered_is_named_and_not_the_program(
    kind: str, home: Home, tmp_path: Path
) -> None:
    if kind == "unreadable" and os.getuid() == 0:
        pytest.skip("root enters every directory")
    configure(home, limits={"maxProcesses": 1})
    place = tmp_path / kind
    if kind == "file":
        place.touch()
    elif kind == "unreadable":
        place.mkdir(mode=0)
    done = home.run("run", "hi", "--cwd", str(place))
    assert done.code in (2, 6), done
    assert str(place) in done.err
    assert "python" not in done.err
    assert home.run("run", "say free").out == "free\n"


def test_case_106_a_missing_program_is_named_and_not_the_directory(home: Home) -> None:
    value = {"agents": {"list": [{"id": "a", "runtime": {"command": ["/nope/agent"]}}]}}
    (home.path / "config.yaml").write_text(json.dumps(value), encoding="utf-8")
    said = failed(home.run("run", "hi"), "agent_not_found", 6)
    assert "/nope/agent" in said
    assert str(home.path) not in said.partition("\nnext")[0].partition("error")[2]
