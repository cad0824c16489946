"""Trees that users of other tools found still running; here each is gone when we say so."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acpbridge.transport.helpers.killing import KILL_LIMIT
from tests.integration.conftest import descendants
from tests.integration.daemon_home import Home, alive, daemon_home, until
from tests.integration.traffic import Client, client, ended, start

STUBBORN = ("--ignore-term", "--ignore-eof")
GRACE = 0.5  # seconds
PLACES = 2


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("kill")) as made:
        made.configure(
            {"maxProcesses": PLACES, "startSeconds": 3, "idleTtlSeconds": 60},
            fake=(),
            leaves=("--children", "plain", "holding-stdout"),
            launcher=("--launcher",),
            mute=("--silent-start", "--children", "setsid"),
            refuses=("--answer", "initialize", '{"error": {"code": -32603, "message": "no"}}'),
            homeless=("--silent", "session/new", *STUBBORN, "--children", "setsid"),
            shut=("--answer", "session/new", '{"error": {"code": -32603, "message": "no"}}'),
            stillborn=("--die-at-start", "3"),
            stubborn=(*STUBBORN, "--children", "term-ignoring", "setsid"),
        )
        assert made.run("daemon", "start").code == 0
        yield made


@pytest.fixture
def daemon(home: Home) -> Iterator[Client]:
    with client(home) as connected:
        try:
            yield connected
        finally:  # one test's failure is not another's
            keys = [row["key"] for row in connected.call("status")["sessions"]]
            connected.call("kill", keys=keys, grace=0, limit=30)
        daemon_at_rest(home, connected)


def daemon_at_rest(home: Home, daemon: Client) -> None:
    """G8: when nothing runs, guard and keeper are all that the daemon has below it."""
    until(lambda: daemon.call("status")["sessions"] == [])
    until(lambda: len(descendants(home.daemon_pid())) == 2)
    rows = descendants(home.daemon_pid()).values()
    assert sorted(row.split("(")[1].split(")")[0] for row in rows) == ["acpb-guard", "acpb-keeper"]
    assert [row for row in rows if ") Z " in row] == []


def tree(home: Home) -> list[int]:
    """Return what carries this home's mark or is below its daemon, but daemon, guard and keeper."""
    below = descendants(home.daemon_pid())
    helpers = {pid for pid, row in below.items() if "acpb-guard" in row or "acpb-keeper" in row}
    return sorted({*below, *home.marked()} - helpers - {home.daemon_pid(), os.getpid()})


def running(daemon: Client, words: str, agent: str, size: int = 2) -> Any:
    """Start a turn that hangs; return its session's row once its tree has so many processes."""
    key = start(daemon, f"{words}\nhang", agent=agent)["key"]

    def complete() -> Any:
        (row,) = daemon.call("status", key=key)["sessions"]
        up = len(row["processes"]) >= size and row["turn"] is not None
        return row if up and row["state"] == "running" else None

    return until(complete)


def kill(daemon: Client, key: str, grace: float = 0) -> Any:
    (result,) = daemon.call("kill", keys=[key], grace=grace, limit=30)["results"]
    return result


def test_case_1_after_a_run_its_whole_tree_is_gone_and_its_place_free(
    home: Home, daemon: Client
) -> None:
    """G8: three children of the agent were left by it; not even a zombie stays."""
    for _ in range(PLACES + 1):
        got = ended(daemon, "say done", agent="leaves")
        assert (got["outcome"], got["stopReason"]) == ("completed", "end_turn")
    until(lambda: tree(home) == [])


def test_case_3_a_child_that_holds_the_pipe_does_not_keep_a_dead_agent_alive(
    home: Home, daemon: Client
) -> None:
    got = ended(daemon, "children holding-stdout\ncrash 3", agent="fake")
    assert got["outcome"] == "failed"
    assert got["error"]["code"] == "agent_died"
    assert got["error"]["data"]["exitCode"] == 3
    until(lambda: tree(home) == [])
    (row,) = daemon.call("status", key=got["key"])["sessions"]
    assert row["state"] == "died"


def test_case_5_a_launcher_is_killed_with_the_copy_that_it_started(
    home: Home, daemon: Client
) -> None:
    row = running(daemon, "", "launcher", 3)
    before = {process["pid"] for process in row["processes"]}
    assert len(before) == 3  # shim, launcher, the real agent
    result = kill(daemon, row["key"])
    assert [pid for pid in before if alive(pid)] == []
    assert before <= set(result["killed"])
    assert result["survivors"] == []


def test_case_5_a_launcher_that_dies_alone_takes_its_copy_along_before_it_is_told(
    home: Home, daemon: Client
) -> None:
    row = running(daemon, "", "launcher", 3)
    pids = {process["role"]: process["pid"] for process in row["processes"]}
    assert alive(pids["child"])
    os.kill(pids["agent"], signal.SIGKILL)

    def shown() -> Any:
        # The tree is asked for first: a state that is told with it is not older than it.
        real = alive(pids["child"])
        (now,) = daemon.call("status", key=row["key"])["sessions"]
        assert not (real and now["state"] in ("died", "idle") and now["processes"] == []), now
        return now if now["state"] == "died" else None

    died = until(shown)
    assert died["processes"] == []
    assert not alive(pids["child"])


@pytest.mark.parametrize("agent", ["mute", "refuses", "homeless", "shut"])
def test_case_6_a_start_that_fails_leaves_no_process_and_no_record_of_one(
    home: Home, daemon: Client, agent: str
) -> None:
    receipt = start(daemon, "say never", agent=agent)
    if agent == "homeless":
        # It is alive, has answered, and does not open the session: a person ends it.
        until(lambda: daemon.call("status", key=receipt["key"])["sessions"][0]["processes"])
        assert kill(daemon, receipt["key"])["survivors"] == []
    got = daemon.call("wait", limit=30, runId=receipt["runId"])
    assert got["outcome"] != "completed"
    until(lambda: tree(home) == [])
    (row,) = daemon.call("status", key=receipt["key"])["sessions"]
    assert row["processes"] == []
    journal = json.loads((home.path / "processes.json").read_text(encoding="utf-8"))
    until(lambda: receipt["key"] not in journal_keys(home))
    assert journal["daemon"]["pid"] == home.daemon_pid()


def journal_keys(home: Home) -> list[str]:
    text = (home.path / "processes.json").read_text(encoding="utf-8")
    return list(json.loads(text)["sessions"])


def test_case_8_of_two_agents_with_one_command_line_the_right_one_is_ended(
    home: Home, daemon: Client
) -> None:
    first, second = (running(daemon, "", "fake") for _ in range(2))
    agents = [[p["pid"] for p in row["processes"]] for row in (first, second)]
    commands = [Path(f"/proc/{pids[-1]}/cmdline").read_bytes() for pids in agents]
    assert commands[0] == commands[1]
    assert kill(daemon, first["key"])["survivors"] == []
    assert [pid for pid in agents[0] if alive(pid)] == []
    assert [pid for pid in agents[1] if not alive(pid)] == []
    daemon.call("cancel", key=second["key"], grace=0.1)
    kill(daemon, second["key"])


def test_case_9_agents_that_end_within_their_first_moment_do_not_hurt_the_daemon(
    home: Home, daemon: Client
) -> None:
    before = daemon.call("status")["daemon"]
    for _ in range(5):
        assert ended(daemon, "say never", agent="stillborn")["error"]["code"] == "start_failed"
    after = daemon.call("status")["daemon"]
    assert (before["pid"], before["keeperPid"]) == (after["pid"], after["keeperPid"])


def test_case_108_an_agent_that_ignores_term_is_killed_after_grace_and_term(
    home: Home, daemon: Client
) -> None:
    """G1, G2, case 117: the moment `kill` returns nobody is left, and the receipt names all."""
    row = running(daemon, "", "stubborn", 4)
    before = {process["pid"] for process in row["processes"]}
    began = time.monotonic()
    done = home.run("kill", row["key"], "--grace", f"{GRACE}", "--json", limit=40)
    took = time.monotonic() - began
    assert [pid for pid in before if alive(pid)] == []
    (result,) = done.json["results"]
    assert (done.code, result["survivors"]) == (0, [])
    assert before <= set(result["killed"])
    assert took >= GRACE + 3  # it was asked first, then told
    assert result["tookMs"] <= took * 1000


@pytest.fixture
def freezer(tmp_path: Path) -> Iterator[Path]:
    """A group in which even SIGKILL waits: what a process in uninterruptible sleep does."""
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        head, _, tail = line.partition(" - ")
        if tail.startswith("cgroup ") and "freezer" in tail.split(" ")[2].split(","):
            break
    else:
        pytest.skip("no freezer of cgroup v1 is mounted, and nothing else simulates state D")
    folder = Path(head.split(" ")[4], f"acpbridge-test-{tmp_path.name}-{os.getpid()}")
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"the freezer cannot be used: {error}")
    yield folder
    (folder / "freezer.state").write_text("THAWED", encoding="utf-8")
    until(lambda: not (folder / "cgroup.procs").read_text(encoding="utf-8"))
    folder.rmdir()


def test_g2_case_117_what_cannot_be_killed_is_named_and_the_kill_fails(
    home: Home, daemon: Client, freezer: Path
) -> None:
    """G2: one in uninterruptible sleep. It is shown as left, and ended by the next kill.

    It is given up once, 5 s after the grace: where `Strays.end` waits for it again, in 11 s.
    """
    row = running(daemon, "children setsid plain", "fake", 4)
    victim = next(p["pid"] for p in row["processes"] if p["role"] == "child")
    before = {process["pid"] for process in row["processes"]}
    (freezer / "cgroup.procs").write_text(f"{victim}", encoding="utf-8")
    (freezer / "freezer.state").write_text("FROZEN", encoding="utf-8")
    until(lambda: "FROZEN" in (freezer / "freezer.state").read_text(encoding="utf-8"))
    done = home.run("kill", row["key"], "--now", "--json", limit=40)
    (result,) = done.json["results"]
    assert result["survivors"] == [victim]
    assert result["tookMs"] < 2 * KILL_LIMIT * 1000
    assert (done.code, done.json["ok"]) == (1, False)
    assert [pid for pid in before - {victim} if alive(pid)] == []
    assert victim not in result["killed"]
    (left,) = daemon.call("status")["unowned"]
    assert (left["pid"], "acpbridge kill --all" in left["next"]) == (victim, True)
    # No session is left, and `kill --all` tells of it all the same.
    done = home.run("kill", "--all", "--json", limit=40)
    (result,) = done.json["results"]
    assert (done.code, result["key"], result["survivors"]) == (1, None, [victim])
    (freezer / "freezer.state").write_text("THAWED", encoding="utf-8")
    done = home.run("kill", row["key"], "--now", "--json", limit=40)
    assert (done.code, done.json["results"][0]["survivors"]) == (0, [])
    assert not alive(victim)
    until(lambda: daemon.call("status")["unowned"] == [])
