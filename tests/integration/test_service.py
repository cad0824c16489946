"""The daemon as a service: what its manager is told, and a day with a real systemd."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.daemon_home import LIMIT, Home, daemon_home, until

HERE = Path(__file__).parent
SYSTEMD = Path("/usr/lib/systemd/systemd")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with daemon_home(tmp_path) as made:
        yield made


def heard(notify: socket.socket, word: bytes) -> None:
    """Listen until a word was said."""
    while notify.recv(200) != word:
        pass


def test_g29_a_manager_hears_of_readiness_of_life_and_of_the_end(home: Home) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(str(home.path / "notify"))
        notify.settimeout(20)
        home.env |= {"NOTIFY_SOCKET": notify.getsockname(), "WATCHDOG_USEC": "300000"}
        with home.running("daemon", "run") as daemon:
            heard(notify, b"READY=1")
            assert home.serves()
            heard(notify, b"WATCHDOG=1")
            heard(notify, b"WATCHDOG=1")
            told = daemon_children_that_know_of(home, b"NOTIFY_SOCKET", daemon.pid)
            assert told == []
            daemon.send_signal(signal.SIGTERM)
            heard(notify, b"STOPPING=1")
            assert daemon.wait(LIMIT) == 0


def daemon_children_that_know_of(home: Home, name: bytes, daemon: int) -> list[int]:
    """Start an agent; return what runs below the daemon with a name in its environment."""
    home.run("run", "--detach", "say on\nhang")
    (row,) = until(lambda: [r for r in home.status()["sessions"] if r["processes"]])
    agents = [process["pid"] for process in row["processes"]]
    status = home.status()["daemon"]
    everything = [*agents, status["keeperPid"], status["guardPid"]]
    assert daemon not in everything
    return [p for p in everything if name + b"=" in Path(f"/proc/{p}/environ").read_bytes()]


def test_install_writes_a_unit_once_and_keeps_what_somebody_has_changed(home: Home) -> None:
    first = home.run("daemon", "install")
    assert first.code == 0, first
    target = Path(first.out.removeprefix("wrote ").strip())
    assert target.is_relative_to(home.path / ".config" / "systemd" / "user")
    assert target.read_text(encoding="utf-8") == home.run("daemon", "install", "--print").out
    assert f"enable --now {target.name}" in first.err
    assert home.run("daemon", "install").out == f"unchanged: {target}\n"
    edited = target.read_text(encoding="utf-8").replace("WatchdogSec=30", "WatchdogSec=90")
    target.write_text(edited, encoding="utf-8")
    for command in ("install", "uninstall"):
        refused = home.run("daemon", command)
        assert refused.code == 2
        assert f"error (usage): {target} is not as acpbridge has written it." in refused.err
        assert "--force" in refused.err
    assert target.read_text(encoding="utf-8") == edited
    assert home.run("daemon", "install", "--force", "--json").json["written"] is True
    assert home.run("daemon", "uninstall").out == f"removed {target}\n"
    assert home.run("daemon", "uninstall").out == f"there is no {target}\n"
    assert not target.exists()


def test_a_unit_that_cannot_be_written_is_an_error_that_says_where(home: Home) -> None:
    (home.path / ".config").write_text("not a directory", encoding="utf-8")
    refused = home.run("daemon", "install")
    assert refused.code == 2
    assert str(home.path / ".config" / "systemd") in refused.err


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd-analyze here")
def test_systemd_finds_no_fault_in_the_unit(home: Home) -> None:
    odd = home.path / 'it is "100%" $odd'
    text = home.run("--home", str(odd), "daemon", "install", "--print").out
    assert str(odd).replace("%", "%%").replace("$", "$$").replace('"', '\\"') in text
    unit = home.path / "trial.service"
    unit.write_text(text, encoding="utf-8")
    runtime = home.path / "run"
    runtime.mkdir(mode=0o700)
    argv = ["systemd-analyze", "verify", "--user", "--man=no", str(unit)]
    env = home.env | {"XDG_RUNTIME_DIR": str(runtime)}
    done = subprocess.run(argv, env=env, capture_output=True, check=False, timeout=30)
    # Of the units that this machine has besides, it may have something to say too.
    said = [line for line in done.stderr.decode().splitlines() if unit.name in line]
    assert (done.returncode, said) == (0, [])


@pytest.mark.timeout(180)
@pytest.mark.skipif(os.getuid() != 0, reason="namespaces are made by root")
@pytest.mark.skipif(not SYSTEMD.exists(), reason="no systemd here")
def test_a_day_with_systemd(tmp_path: Path) -> None:
    """G29: ready when it says so, stopped politely, watched, restarted, and always whole."""
    unshare = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    trial = [sys.executable, "-m", "tests.integration.service_trial", str(tmp_path)]
    argv = [*unshare, "sh", str(HERE / "systemd.sh"), str(tmp_path), *trial]
    done = subprocess.run(
        argv, cwd=HERE.parent.parent, capture_output=True, check=False, timeout=170
    )
    assert done.returncode == 0, done.stderr.decode()[-4000:]
    saw = json.loads(done.stdout)
    assert saw["install"]["written"] is True
    assert saw["status once started"] == 0, "ready was said before clients could connect"
    assert saw["main"] is True
    assert saw["restart"][0] == 2
    assert "systemctl --user restart acpbridge.service" in saw["restart"][1]
    assert saw["left by stop"] == []
    assert saw["stop seconds"] < 10 * 3
    assert saw["result of stop"] == "success"
    assert saw["turn that was stopped"]["type"] == "turn_ended"
    assert saw["turn that was stopped"]["stopReason"] == "cancelled"
    assert saw["left by the watchdog"] == []
    assert saw["left by a kill"] == []
    assert saw["uninstall"]["removed"] is True
    assert not Path(f"/sys/fs/cgroup/unified/{tmp_path.name}").exists()
