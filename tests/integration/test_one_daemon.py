"""One daemon per state directory, whatever is done to the directory, its lock and its socket."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from tests.integration.conftest import descendants
from tests.integration.daemon_home import LIMIT, Home, alive, daemon_home, failed, until, wait_gone
from tests.integration.traffic import client

RACERS = 8


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with daemon_home(tmp_path) as made:
        yield made


def started(home: Home) -> int:
    done = home.run("daemon", "start", "--json")
    assert done.code == 0, done
    return int(done.json["pid"])


def test_g9_of_eight_that_start_at_once_one_runs_and_each_other_names_it(home: Home) -> None:
    """Without the lock in `DaemonLock._lock` all eight run."""
    with ExitStack() as stack:
        racers = [stack.enter_context(home.running("daemon", "run")) for _ in range(RACERS)]
        pid = until(
            lambda: (home.run("daemon", "status", "--json").json["daemon"] or {}).get("pid"), 60
        )
        losers = [racer for racer in racers if racer.pid != pid]
        assert len(losers) == RACERS - 1
        for racer in losers:
            _, said = racer.communicate(timeout=LIMIT)
            assert racer.returncode == 1
            assert "error (daemon_running)" in said.decode()
            assert f"pid {pid}" in said.decode()
        assert home.status()["daemon"]["pid"] == pid
        assert home.run("daemon", "stop").code == 0


def test_g9_a_daemon_is_started_while_the_one_before_is_being_killed(home: Home) -> None:
    done = home.run("run", "children setsid env-i\nhang", "--agent", "fake", "--detach")
    assert done.code == 0, done
    until(lambda: len(home.session()["processes"]) >= 4)
    old = home.daemon_pid()
    tree = [old, *descendants(old)]
    os.kill(old, signal.SIGKILL)
    new = started(home)
    assert new != old
    assert wait_gone(tree) == []
    status = home.status()
    assert (status["daemon"]["pid"], status["unowned"]) == (new, [])


def test_g9_case_119_a_stopped_daemon_that_holds_the_lock_is_called_frozen(home: Home) -> None:
    pid = started(home)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert f"pid {pid}" in failed(home.run("daemon", "run"), "daemon_frozen", 8)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert home.daemon_pid() == pid


def test_g9_a_socket_that_was_removed_is_bound_again_by_the_daemon_that_runs(home: Home) -> None:
    """Without `standing.keep_listening` the command says after five seconds: cannot be reached."""
    pid = started(home)
    done = home.run("run", "hang", "--agent", "fake", "--detach")
    (home.path / "daemon.sock").unlink()
    status = home.run("status", "--json")
    assert (status.code, status.json["daemon"]["pid"]) == (0, pid)
    assert [row["key"] for row in status.json["sessions"]] == [done.out.strip()]


def test_a_socket_that_is_removed_again_and_again_costs_no_descriptors_g9(home: Home) -> None:
    """Without `aclose` in `keep_listening` each time leaves one; who is in is served on."""
    pid = started(home)
    open_files = Path(f"/proc/{pid}/fd")
    with client(home) as early:
        until(lambda: early.call("status")["daemon"])
        before = len(list(open_files.iterdir()))
        for _ in range(3):
            (home.path / "daemon.sock").unlink()
            until((home.path / "daemon.sock").exists)
        assert home.status()["daemon"]["pid"] == pid
        until(lambda: len(list(open_files.iterdir())) <= before)
        assert early.call("status")["daemon"]["pid"] == pid


@pytest.mark.parametrize("what", ["lock", "directory"])
def test_g9_a_daemon_whose_place_was_taken_leaves_it_to_the_next(home: Home, what: str) -> None:
    """Without `standing.leave_when_displaced` there are two, and nobody can reach the first."""
    old = started(home)
    assert home.run("run", "hang", "--agent", "fake", "--detach").code == 0
    until(lambda: home.status()["sessions"][0]["processes"])
    tree = [old, *descendants(old)]
    if what == "lock":
        (home.path / "daemon.lock").unlink()
        assert wait_gone(tree) == []
        new = started(home)
    else:
        moved = home.path.rename(home.path.with_name("moved"))
        home.path.mkdir(mode=0o700)
        (home.path / "config.yaml").write_bytes((moved / "config.yaml").read_bytes())
        new = started(home)
        assert wait_gone(tree) == []
    # What the first one did at its end has touched nothing of the second.
    assert home.status()["daemon"]["pid"] == new
    journal = json.loads((home.path / "processes.json").read_text(encoding="utf-8"))
    assert journal["daemon"]["pid"] == new


GARBAGE = ["garbage", "fifo", "directory"]


@pytest.mark.parametrize("what", GARBAGE)
def test_case_65_nothing_in_the_journals_place_keeps_the_daemon_from_starting(
    home: Home, what: str
) -> None:
    path = home.path / "processes.json"
    if what == "fifo":
        os.mkfifo(path, 0o600)
    elif what == "directory":
        path.mkdir()
    else:
        path.write_text(what, encoding="utf-8")
        path.chmod(0o600)
    started(home)
    if what == "directory":
        assert [w for w in home.status()["warnings"] if str(path) in w]
        assert [aside.is_dir() for aside in home.path.glob("processes.json.aside-*")] == [True]
    until(path.is_file)


STRAY = """
import os, signal, sys
os.setsid()
if os.fork() != 0:
    os._exit(0)
os.write(1, b"%d" % os.getpid())
os.close(1)
while True:
    signal.pause()
"""


def test_what_cannot_be_proven_is_in_status_until_a_person_has_ended_it(home: Home) -> None:
    key = "agent:x:main"
    env = {"ACPBRIDGE_HOME": str(home.path), "ACPBRIDGE_MARK": f"{key}.{uuid4().hex}"}
    argv = [sys.executable, "-I", "-S", "-c", STRAY]
    stray = int(subprocess.run(argv, env=env, stdout=subprocess.PIPE, check=True).stdout)
    try:
        started(home)
        (row,) = home.status()["unowned"]
        assert row["pid"] == stray
        assert f"the marker of {key}" in row["reason"]
        assert "no process journal" in row["reason"]
        assert f"kill {stray}" in row["next"]
        assert row["next"] in home.run("status").out
        # It outlives a restart, and is known to be older than the daemon of the journal.
        assert home.run("daemon", "restart").code == 0
        (row,) = home.status()["unowned"]
        assert (row["pid"], "older than the daemon" in row["reason"]) == (stray, True)
        assert alive(stray)
    finally:
        os.kill(stray, signal.SIGKILL)
    until(lambda: not home.status()["unowned"])


def test_what_all_of_them_left_is_in_status_before_the_next_start_ends_it(home: Home) -> None:
    done = home.run("run", "children setsid env-i\nhang", "--agent", "fake", "--detach")
    assert done.code == 0, done

    def settled() -> Any:
        """Return the session once two children are there to stay, and in the journal."""
        (row,) = home.status()["sessions"]
        # The agent itself ends with its input.
        children = [p["pid"] for p in row["processes"] if p["role"] == "child"]
        text = (home.path / "processes.json").read_text("utf-8")
        known = all(f'"pid":{pid},' in text for pid in children)
        return (row, children) if known and len(children) == 2 else None

    row, children = until(settled)
    daemon = home.status()["daemon"]
    shim = next(p["pid"] for p in row["processes"] if p["role"] == "shim")
    parts = [shim, daemon["keeperPid"], daemon["guardPid"], daemon["pid"]]
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in parts:
            os.kill(pid, number)
    status = home.run("status", "--json")
    assert (status.code, status.json["daemon"]) == (8, None)
    assert {row["pid"] for row in status.json["unowned"]} >= set(children)
    started(home)
    assert wait_gone(children) == []
    after = home.status()
    assert after["unowned"] == []
    assert "processes of an earlier daemon were ended" in after["warnings"][0]
    rows = home.records()
    assert [row["state"] for row in rows] == ["interrupted"]


def test_g6_a_stranger_whose_number_somebody_wrote_into_the_lock_is_not_ended(home: Home) -> None:
    """An agent can write to the file, and a person then stops the daemon by force.

    Without `lock.may_hold` in `frozen.daemon_of`: the stranger is dead, and the daemon lives.
    """
    daemon = started(home)
    lock = home.path / "daemon.lock"
    with subprocess.Popen(["/bin/cat"], stdin=subprocess.PIPE) as stranger:
        os.kill(daemon, signal.SIGSTOP)
        try:
            lock.write_text(f"{stranger.pid}\n", encoding="ascii")
            done = home.run("daemon", "stop", "--force", limit=60)
            assert stranger.poll() is None
            failed(done, "daemon_unreachable", done.code)
            assert done.code != 0
            lock.write_text(f"{daemon}\n", encoding="ascii")
            assert home.run("daemon", "stop", "--force", limit=60).code == 0
            assert not alive(daemon)
        finally:
            stranger.kill()
