"""What is left when parts of the bridge are killed in mid-turn, with children of every kind."""

import json
import os
import signal
import time
from pathlib import Path

import anyio
import pytest

from acpbridge.daemon.client import connect
from acpbridge.daemon.paths import find
from tests.integration.daemon_home import LIMIT, Home, daemon_home, until, wait_gone

EVIL = "children plain setsid double-forked env-i term-ignoring stopped holding-stdout"

# The promise is two seconds; a busy machine gets room.
WINDOW = 2.0
ROOM = 10.0


def tree_of(home: Home) -> list[int]:
    """Return every process of the one session, once all its children are there."""

    def look() -> list[int]:
        rows = [p for row in home.status()["sessions"] for p in row["processes"]]
        return [p["pid"] for p in rows] if len(rows) >= 9 else []

    return list(until(look))


def evil_turn(home: Home) -> tuple[str, list[int]]:
    """Start a turn that goes on with evil children; return its key and its whole tree."""
    done = home.run("run", f"say shown\n{EVIL}\nhang", "--agent", "fake", "--detach")
    assert done.code == 0, done
    return done.out.strip(), tree_of(home)


async def first_events(home: Home, key: str, count: int) -> list[bytes]:
    """Return the first events of a session, as its log has them."""
    async with (
        connect(find(str(home.path), {}), start=False) as client,
        client.follow(key, 0) as events,
    ):
        with anyio.fail_after(20):
            return [(await events.next()).raw for _ in range(count)]


def state_of(home: Home, key: str) -> str:
    return str(home.record(key)["state"])


def pids_below_keeper(home: Home, role: str) -> int:
    (row,) = home.status()["sessions"]
    return int(next(p["pid"] for p in row["processes"] if p["role"] == role))


def test_g3_a_killed_daemon_leaves_no_agent_and_the_session_is_interrupted(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        key, tree = evil_turn(home)
        os.kill(home.daemon_pid(), signal.SIGKILL)
        began = time.monotonic()
        assert wait_gone(tree, ROOM) == []
        print(f"daemon killed: {len(tree)} processes gone in {time.monotonic() - began:.3f} s")
        wait_gone(list(home.marked()), ROOM)
        assert home.marked() == {}
        # The next command that may starts a fresh daemon, which tells what became of the turn.
        assert state_of(home, key) == "interrupted"
        again = home.run("run", "say again", "--session", key, "--fresh")
        assert (again.code, again.out.strip()) == (0, "again")


def test_g4_a_killed_shim_takes_its_tree_along_and_the_daemon_stays(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        key, tree = evil_turn(home)
        daemon = home.daemon_pid()
        os.kill(pids_below_keeper(home, "shim"), signal.SIGKILL)
        assert wait_gone(tree, ROOM) == []
        until(lambda: state_of(home, key) == "died")
        assert home.daemon_pid() == daemon


def test_g4_a_killed_keeper_takes_every_tree_along_and_the_daemon_stays(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        key, tree = evil_turn(home)
        status = home.status()["daemon"]
        os.kill(status["keeperPid"], signal.SIGKILL)
        assert wait_gone(tree, ROOM) == []
        until(lambda: state_of(home, key) == "died")
        # A new keeper is there for the next agent.
        again = home.run("run", "say again", "--session", key, "--fresh")
        assert (again.code, again.out.strip()) == (0, "again"), again
        after = home.status()["daemon"]
        assert after["pid"] == status["pid"]
        assert after["keeperPid"] != status["keeperPid"]


# One pair with the daemon and one without; all of them, and with one stopped: `test_deaths`.
PAIRS = [("daemon", "shim"), ("guard", "keeper")]


@pytest.mark.parametrize("parts", PAIRS)
def test_g5_any_two_of_daemon_guard_keeper_and_shim_leave_nothing(
    parts: tuple[str, str], tmp_path: Path
) -> None:
    with daemon_home(tmp_path) as home:
        _, tree = evil_turn(home)
        status = home.status()
        (row,) = status["sessions"]
        pids = {
            "daemon": status["daemon"]["pid"],
            "keeper": status["daemon"]["keeperPid"],
            "guard": status["daemon"]["guardPid"],
            "shim": next(p["pid"] for p in row["processes"] if p["role"] == "shim"),
        }
        for part in parts:
            os.kill(pids[part], signal.SIGKILL)
        assert wait_gone(tree, ROOM) == []


def test_g17_everything_that_was_shown_is_in_the_log_after_the_daemon_was_killed(
    tmp_path: Path,
) -> None:
    with daemon_home(tmp_path) as home:
        prompt = "stream 20000 50\nhang"
        with home.running("run", prompt, "--agent", "fake", "--format", "json") as run:
            assert run.stdout is not None
            shown = [run.stdout.readline() for _ in range(2000)]
            os.kill(home.daemon_pid(), signal.SIGKILL)
            shown += run.stdout.readlines()
            run.wait(LIMIT)
        assert run.returncode == 8
        key = home.records()[0]["key"]
        # The last line is the command's own word that the daemon is gone: it has no number.
        assert json.loads(shown.pop())["seq"] is None
        kept = anyio.run(first_events, home, key, len(shown))
        assert kept == [line.rstrip(b"\n") for line in shown]


def test_a_kill_while_a_question_is_open_allows_nothing(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        did = tmp_path / "did"
        prompt = f'ask execute "touch it" do {did}'
        started = home.run("run", prompt, "--agent", "fake", "--detach")
        question = home.wait_question()
        killed = home.run("kill", started.out.strip(), "--json")
        assert (killed.code, killed.json["ok"]) == (0, True)
        late = home.run("permissions", "answer", question["id"], "--allow")
        assert late.code == 4
        assert not did.exists()
