"""Daemon, guard, keeper and shim die: one, two, all of them, and while one of them is stopped.

Judged by /proc. The promise is two seconds; the limit is ten times that, what it took is printed.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from acpbridge.controller.sweep import sweep
from tests.integration.daemon_home import Home, alive, daemon_home, until, wait_gone
from tests.integration.test_child import AGENT, KINDS

if TYPE_CHECKING:
    from tests.integration.conftest import Observer

PROMISE = 2.0
ROOM = 10 * PROMISE

PARTS = ("daemon", "guard", "keeper", "shim")

# A daemon as far as this goes: one agent with children of every kind; when that is gone, another.
DAEMON = """
import json, os, sys
from pathlib import Path
import anyio
from acpbridge.controller.containment import ShimContainment
from acpbridge.controller.process import LaunchSpec
from acpbridge.controller.supervisor import Supervisor
script, marker, python, home, *kinds = sys.argv[1:]
name = "agent:x:main"
env = {"MARK": marker, "ACPBRIDGE_HOME": home, "ACPBRIDGE_MARK": name + "." + "0" * 32}

async def main():
    journal = Path(home, "processes.json")
    async with Supervisor(journal, ShimContainment(), str) as mine:
        argv = (python, "-I", "-S", "-c", script, marker, "deaf", *kinds)
        async with mine.launch(LaunchSpec(name, argv, env, "/")) as process:
            heard = b""
            while heard.count(b"\\n") < len(kinds) + 1:
                heard += await process.stdout.receive()
            while len(json.loads(journal.read_text())["sessions"][name]["members"]) <= len(kinds):
                await anyio.sleep(0.01)
            shim, agent = process.child.shim.pid, process.child.agent.pid
            pids = {"daemon": os.getpid(), "guard": mine.guard_pid, "keeper": mine.keeper_pid}
            print(json.dumps({**pids, "shim": shim, "agent": agent}), flush=True)
            await process.exited()
        print("ended", flush=True)
        async with mine.launch(LaunchSpec(name, ("/bin/echo", "served"), env, "/")) as process:
            print((await process.stdout.receive()).decode(), flush=True)

anyio.run(main)
"""


class Row(NamedTuple):
    """Who is stopped before, and who is then killed, in this order and without a pause."""

    stopped: tuple[str, ...]
    killed: tuple[str, ...]


TABLE = [
    *(Row((stopped,), (killed,)) for killed in PARTS for stopped in PARTS if stopped != killed),
    Row(("daemon",), ("daemon",)),
    Row(("shim",), ("shim",)),
    # Of two, with whoever is left to clean up behind them stopped; without a stop: test_child.
    Row(("keeper",), ("daemon", "guard")),
    Row(("guard",), ("daemon", "keeper")),
    Row(("keeper",), ("daemon", "shim")),
    Row(("daemon",), ("guard", "keeper")),
    Row(("keeper",), ("shim", "guard")),
    Row(("guard",), ("shim", "keeper")),
    Row(("guard", "keeper", "shim"), ("daemon",)),
    # All helpers: only the daemon is left, and whoever hides is a child of the first process.
    Row((), ("guard", "keeper", "shim")),
    Row(("daemon",), ("shim", "keeper", "guard")),
    # And all four in the same instant, which stopping them first makes it: the next start sweeps.
    Row(PARTS, ("shim", "keeper", "guard", "daemon")),
]


def name(row: Row) -> str:
    return f"{'+'.join(row.stopped) or 'none'}-stopped-{'+'.join(row.killed)}-killed"


@pytest.mark.parametrize("row", TABLE, ids=name)
def test_g3_g4_g5_whoever_dies_while_whoever_is_stopped_nothing_is_left(
    tmp_path: Path, observer: "Observer", row: Row
) -> None:
    """Without `Supervisor._sweep_after_helpers`: 2 of 7 are left of `guard+keeper+shim-killed`."""
    argv = [sys.executable, "-c", DAEMON, AGENT, observer.marker, sys.executable]
    argv += [str(tmp_path), *KINDS]
    # The helpers are found by the marker, too.
    env = os.environ | {"MARK": observer.marker}
    with subprocess.Popen(argv, env=env, stdout=subprocess.PIPE) as daemon:
        assert daemon.stdout is not None
        try:
            pids = json.loads(daemon.stdout.readline())
            helpers = [pids[part] for part in PARTS if part != "daemon"]
            tree = sorted(set(observer.alive()) - {pids[part] for part in PARTS})
            assert len(tree) == len(KINDS) + 1
            for part in row.stopped:
                os.kill(pids[part], signal.SIGSTOP)
            for part in row.killed:
                with suppress(ProcessLookupError):  # it may be quick to follow the one before
                    os.kill(pids[part], signal.SIGKILL)
            began = time.monotonic()
            if "daemon" not in row.killed:
                if "guard" not in row.killed:  # only a daemon that runs may take note of that
                    assert wait_gone(tree, ROOM) == []
                os.kill(pids["daemon"], signal.SIGCONT)
                assert b"ended\n" in iter(daemon.stdout.readline, b"")
                assert [pid for pid in tree if alive(pid)] == []
                told(row, began)
                assert b"served\n" in daemon.stdout.readlines()
                return
            daemon.wait()
            if len(row.killed) == len(PARTS):
                left = [pid for pid in tree if alive(pid)]
                assert left
                assert set(sweep(tmp_path / "processes.json", str(tmp_path)).killed) >= set(left)
            assert wait_gone([*tree, *helpers], ROOM) == []
            told(row, began)
        finally:
            daemon.kill()
            for pid in observer.alive():  # of a test that fails
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def told(row: Row, began: float) -> None:
    print(f"{name(row)}: nothing left after {time.monotonic() - began:.3f} s")


# ---- a daemon that goes on ----

EVIL = "children plain setsid double-forked env-i term-ignoring stopped"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("deaths")) as home:
        yield home


def evil_turn(home: Home) -> tuple[str, dict[str, int], list[int]]:
    """Start a turn with evil children; return its key, the pids of all parts, and its tree."""
    done = home.run("run", f"say on\n{EVIL}\nhang", "--agent", "fake", "--detach")
    assert done.code == 0, done
    key = done.out.strip()

    def look() -> Any:
        rows = [p for p in row_of(home, key)["processes"] if p["role"] != "keeper"]
        return rows if len(rows) >= 2 + len(EVIL.split()) - 1 else None

    rows = until(look)
    daemon = home.status()["daemon"]
    shim = next(row["pid"] for row in rows if row["role"] == "shim")
    parts = {"daemon": daemon["pid"], "guard": daemon["guardPid"], "keeper": daemon["keeperPid"]}
    return key, {**parts, "shim": shim}, [row["pid"] for row in rows]


def row_of(home: Home, key: str) -> Any:
    return home.row(key)


@pytest.mark.parametrize("part", ["keeper", "guard", "shim"])
def test_g4_a_kill_takes_no_notice_of_a_helper_that_is_stopped(shared: Home, part: str) -> None:
    """A stopped shim is killed in its turn and its tree swept.

    Without the kill in `Child.see_kill_through` the receipt names survivors and the status is 1.
    """
    key, pids, tree = evil_turn(shared)
    os.kill(pids[part], signal.SIGSTOP)
    began = time.monotonic()
    done = shared.run("kill", key, "--now", "--json", limit=30)
    assert [pid for pid in tree if alive(pid)] == []  # the moment it has returned
    print(f"kill with a stopped {part}: {time.monotonic() - began:.3f} s")
    assert (done.code, done.json["ok"]) == (0, True)
    if part != "shim":
        os.kill(pids[part], signal.SIGCONT)
    assert row_of(shared, key)["closeReason"] == "killed"


def test_g4_g5_a_daemon_that_lost_all_its_helpers_ends_what_hides_and_goes_on(shared: Home) -> None:
    key, pids, tree = evil_turn(shared)
    for part in ("guard", "keeper", "shim"):
        os.kill(pids[part], signal.SIGKILL)
    assert wait_gone(tree, ROOM) == []
    until(lambda: row_of(shared, key)["state"] == "died")
    again = shared.run("run", "say again", "--session", key, "--fresh")
    assert (again.code, again.out) == (0, "again\n")
    after = shared.status()["daemon"]
    assert after["pid"] == pids["daemon"]
    assert {after["keeperPid"], after["guardPid"]}.isdisjoint(pids.values())
    assert shared.status()["unowned"] == []


def question_of(home: Home, key: str) -> Any:
    """Return what the question of a session was decided as, None while it is open."""
    events = home.run("logs", key, "--json").events
    found = [event for event in events if event["type"] == "permission_decided"]
    return found[0] if found else None


def test_a_question_of_an_agent_that_died_was_not_withdrawn_by_it(shared: Home) -> None:
    """Without `gone` in `Host._why_withdrawn` its reason is `withdrawn`: the agent's own wish."""
    done = shared.run("run", 'ask execute "touch it"', "--agent", "fake", "--detach")
    key = done.out.strip()
    shared.wait_question()
    agents = [p["pid"] for p in row_of(shared, key)["processes"] if p["role"] == "agent"]
    os.kill(agents[0], signal.SIGKILL)
    decided = until(lambda: question_of(shared, key))
    assert (decided["effect"], decided["reason"]) == ("cancel", "agent_died")
    until(lambda: row_of(shared, key)["state"] == "died")


def test_a_question_of_a_session_killed_past_a_frozen_daemon_says_so(shared: Home) -> None:
    """Without `Host._why_withdrawn` it was withdrawn by the agent, which said no such thing."""
    done = shared.run("run", 'ask execute "touch it"', "--agent", "fake", "--detach")
    key = done.out.strip()
    shared.wait_question()
    daemon = shared.daemon_pid()
    os.kill(daemon, signal.SIGSTOP)
    try:
        assert shared.run("kill", key, "--json", limit=30).json["ok"] is True
    finally:
        os.kill(daemon, signal.SIGCONT)
    decided = until(lambda: question_of(shared, key))
    assert (decided["effect"], decided["reason"]) == ("cancel", "killed")
    until(lambda: row_of(shared, key)["closeReason"] == "killed")
