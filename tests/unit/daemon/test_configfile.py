"""The configuration file on disk: what is in force, and what is said of a bad one."""

import os
from pathlib import Path

import pytest

from acpbridge.config.snapshot import Config
from acpbridge.daemon import textfile
from acpbridge.daemon.configfile import ConfigFile
from acpbridge.errors import BridgeError


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
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for name in (".", "fifo", "loop", "zero"):
        assert refused(tmp_path / name).hint, name


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_bytes(b"#" * (textfile.TEXT_LIMIT + 1))
    assert f"over {textfile.TEXT_LIMIT} bytes" in refused(path).message
