"""The parts of the composition root that decide something."""

import os
import signal
from pathlib import Path

import pytest

from acpbridge import app
from acpbridge.app import ConfigFile, default_agent, faults_from
from acpbridge.config.snapshot import Config
from acpbridge.errors import BridgeError
from acpbridge.model.ports import no_faults


def replace(path: Path, text: str) -> None:
    """Write as an editor does: a new file in the place of the old one."""
    part = path.with_suffix(".part")
    part.write_text(text, encoding="utf-8")
    part.replace(path)


def refused(path: Path) -> BridgeError:
    with pytest.raises(BridgeError) as caught:
        ConfigFile(path).first()
    assert caught.value.code == "config_error"
    assert str(path) in caught.value.message
    return caught.value


def test_without_a_file_the_defaults_hold_and_nothing_is_wrong(tmp_path: Path) -> None:
    configuration = ConfigFile(tmp_path / "config.yaml")
    assert configuration.first() == Config()
    assert configuration.current() == Config()
    assert configuration.problem == ""


def test_a_bad_file_prevents_the_start_and_names_the_line(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("agents: {}\nnope: 1\n", encoding="utf-8")
    assert refused(path).data == {"file": str(path), "line": 2, "key": "nope"}


def test_a_changed_file_is_in_force_at_once(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    configuration = ConfigFile(path)
    configuration.first()
    replace(path, "limits: {maxProcesses: 1}")
    assert configuration.current().limits.max_processes == 1
    first = configuration.current()
    assert configuration.current() is first
    replace(path, "limits: {maxProcesses: 2}")
    assert configuration.current().limits.max_processes == 2


def test_a_bad_reload_leaves_the_last_good_one_and_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("limits: {maxProcesses: 1}", encoding="utf-8")
    configuration = ConfigFile(path)
    good = configuration.first()
    replace(path, "limits: {maxProcesses: none}")
    assert configuration.current() is good
    assert "last good" in configuration.problem
    assert "limits.maxProcesses" in configuration.problem
    assert configuration.current() is good
    replace(path, "limits: {maxProcesses: 3}")
    assert configuration.current().limits.max_processes == 3
    assert configuration.problem == ""


def test_a_file_that_vanishes_leaves_the_last_good_one_and_a_warning(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("limits: {maxProcesses: 1}", encoding="utf-8")
    configuration = ConfigFile(path)
    good = configuration.first()
    path.unlink()
    assert configuration.current() is good
    assert f"{path} is gone" in configuration.problem
    path.write_text("limits: {maxProcesses: 1}", encoding="utf-8")
    assert configuration.current() == good
    assert configuration.problem == ""


def test_what_is_not_text_is_named_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"agents: {}\n# r\xe9sum\n")
    assert "line 2: not UTF-8" in refused(path).message
    path.write_bytes(b"agents: {}\n\0\n")
    assert "line 2" in refused(path).message


def test_a_byte_order_mark_is_read_over(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("limits: {maxProcesses: 1}", encoding="utf-8-sig")
    assert ConfigFile(path).first().limits.max_processes == 1


def test_what_is_not_a_file_is_refused_and_holds_nobody_up(tmp_path: Path) -> None:
    refused(tmp_path)
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    refused(fifo)
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    refused(tmp_path / "loop")
    (tmp_path / "null").symlink_to("/dev/zero")
    refused(tmp_path / "null")


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"#" * (app.CONFIG_LIMIT + 1))
    refused(path)


def test_without_an_armed_point_no_fault_ever_happens() -> None:
    assert faults_from({}) is no_faults
    assert faults_from({"ACPBRIDGE_FAULT": ""}) is no_faults


def test_the_nth_pass_of_an_armed_point_is_fatal(monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[tuple[int, int]] = []
    monkeypatch.setattr("acpbridge.app.os.kill", lambda *args: killed.append(args))
    passed = faults_from({"ACPBRIDGE_FAULT": "here:2"})
    passed("here")
    passed("there")
    assert killed == []
    passed("here")
    assert killed == [(os.getpid(), signal.SIGKILL)]
    passed("here")
    assert len(killed) == 1
    faults_from({"ACPBRIDGE_FAULT": "here"})("here")
    assert len(killed) == 2


@pytest.mark.parametrize("armed", ["here:x", "here:-1", "a:b:1"])
def test_a_point_that_is_armed_wrongly_is_an_error(armed: str) -> None:
    with pytest.raises(BridgeError, match="POINT:N"):
        faults_from({"ACPBRIDGE_FAULT": armed})


def machine(tmp_path: Path, *programs: str) -> dict[str, str]:
    """Return the environment of a machine with these programs."""
    for name in programs:
        (tmp_path / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    return {"PATH": str(tmp_path), "HOME": str(tmp_path / "home")}


def log_in(tmp_path: Path, name: str) -> None:
    (tmp_path / "home" / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "home" / name).touch()


ALL = ("claude-agent-acp", "codex-acp", "gemini", "npx")


def test_with_nothing_installed_the_demo_is_the_default(tmp_path: Path) -> None:
    assert default_agent(machine(tmp_path), "/").id == "demo"
    assert default_agent({}, "/").id == "demo"


def test_what_is_installed_and_not_logged_in_is_not_the_default(tmp_path: Path) -> None:
    assert default_agent(machine(tmp_path, *ALL), "/").id == "demo"


def test_what_would_have_to_be_downloaded_is_not_the_default(tmp_path: Path) -> None:
    env = machine(tmp_path, "npx") | {"OPENAI_API_KEY": "k"}
    assert default_agent(env, "/").id == "demo"


def test_the_first_of_the_catalogue_that_is_installed_and_logged_in_is_the_default(
    tmp_path: Path,
) -> None:
    env = machine(tmp_path, *ALL)
    log_in(tmp_path, ".gemini/oauth_creds.json")
    assert default_agent(env, "/").id == "gemini"
    assert default_agent(env | {"OPENAI_API_KEY": "k"}, "/").id == "codex"
    log_in(tmp_path, ".claude/.credentials.json")
    assert default_agent(env | {"OPENAI_API_KEY": "k"}, "/").id == "claude"
    (tmp_path / "claude-agent-acp").unlink()
    assert default_agent(env, "/").id == "gemini"


def test_a_login_is_found_where_the_agents_own_variable_says(tmp_path: Path) -> None:
    env = machine(tmp_path, *ALL) | {"CODEX_HOME": str(tmp_path / "elsewhere")}
    assert default_agent(env, "/").id == "demo"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "auth.json").touch()
    assert default_agent(env, "/").id == "codex"
