"""The systemd user unit: what it says, in words that systemd reads back as they were."""

from pathlib import Path

import pytest

from acpbridge.daemon import unit
from acpbridge.daemon.paths import Paths

DEFAULT = Paths(
    Path("/home/ann/.local/state/acpbridge"), Path("/home/ann/.config/acpbridge/c.yaml")
)
OTHER = Paths(Path("/srv/a bridge"), Path("/srv/a bridge/config.yaml"))


def directives(text: str) -> dict[str, str]:
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line and line[0] != "#")


def test_a_service_is_watched_notified_of_and_ended_as_a_group() -> None:
    said = directives(unit.text(["/usr/bin/python3", "-m", "acpbridge"], DEFAULT))
    assert said["Type"] == "notify"
    assert said["WatchdogSec"] == "30"
    assert said["KillMode"] == "control-group"
    assert said["Restart"] == "on-failure"
    home = "--home /home/ann/.local/state/acpbridge"
    started = f"/usr/bin/python3 -m acpbridge {home} daemon run"
    assert said["ExecStart"] == f"{started} --config /home/ann/.config/acpbridge/c.yaml"
    assert said["ExecStop"] == f"/usr/bin/python3 -m acpbridge {home} daemon stop --yes"


def test_g29_a_polite_stop_is_over_before_the_manager_loses_patience() -> None:
    from acpbridge.app.setup import STOP_LIMIT as TREES_LIMIT
    from acpbridge.cli.commands.stopping import STOP_LIMIT as COMMAND_LIMIT

    assert TREES_LIMIT < COMMAND_LIMIT < unit.STOP_LIMIT


@pytest.mark.parametrize(
    ("word", "written"),
    [
        ("/usr/bin/python3", "/usr/bin/python3"),
        ("/srv/a bridge", '"/srv/a bridge"'),
        ("100%", '"100%%"'),
        ("$HOME/x", '"$$HOME/x"'),
        ('a"b\\c', '"a\\"b\\\\c"'),
        ("a\nb", '"a\\x0ab"'),
        ("é", '"\\xc3\\xa9"'),
        ("bad-\udcff", '"bad-\\xff"'),
        ("a;b", '"a;b"'),
        ("", '""'),
        ("{home}", '"{home}"'),
    ],
)
def test_a_word_is_written_so_that_systemd_reads_it_back(word: str, written: str) -> None:
    line = directives(unit.text([word], DEFAULT))["ExecStart"]
    assert line.startswith(f"{written} --home ")


def test_the_default_directory_has_the_plain_name_and_others_one_each() -> None:
    third = OTHER._replace(home=Path("/srv/another"))
    assert unit.name(DEFAULT, DEFAULT) == "acpbridge.service"
    names = {unit.name(paths, DEFAULT) for paths in (DEFAULT, OTHER, third)}
    assert len(names) == 3
    assert all(name.startswith("acpbridge") and name.endswith(".service") for name in names)


def test_a_unit_that_somebody_has_changed_is_known() -> None:
    text = unit.text(["/bin/acpbridge"], OTHER)
    assert unit.untouched(text)
    assert not unit.untouched(text.replace("WatchdogSec=30", "WatchdogSec=90"))
    assert not unit.untouched("[Unit]\nDescription=mine\n")
    assert not unit.untouched("")


@pytest.mark.parametrize(
    ("groups", "runs"),
    [
        ("0::/user.slice/u.service/app.slice/acpbridge.service\n", True),
        ("1:name=systemd:/user.slice/acpbridge.service\n0::/\n", True),
        ("0::/user.slice/acpbridge.service/acpbridge-3f2a\n", True),
        ("0::/user.slice/app-terminal.scope\n", False),
        ("0::/user.slice/not-acpbridge.service\n", False),
        ("", False),
    ],
)
def test_a_control_group_tells_whether_a_process_runs_in_a_unit(
    tmp_path: Path, groups: str, *, runs: bool
) -> None:
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "cgroup").write_text(groups, encoding="utf-8")
    assert unit.runs_in("acpbridge.service", 7, tmp_path) is runs


def test_a_process_that_is_gone_runs_in_no_unit(tmp_path: Path) -> None:
    assert not unit.runs_in("acpbridge.service", 7, tmp_path)
