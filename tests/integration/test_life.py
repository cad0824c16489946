"""The life of agents' processes: how they end, who ended them, and what becomes of the session."""

import json
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon_home import LIMIT, PAUSE, Home, alive, daemon_home, until, wait_gone
from tests.integration.traffic import Look, client, ended, log_option, start

PLACES = 3
MOST = 12  # processes of a session
HOLDS = 150  # MiB of a session
BAD = 10

# What a person may wait for a status, on a busy machine. Seconds.
AT_ONCE = 5.0


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("life")) as made:
        memory = ("--memory", str(made.path / "memory"))
        made.configure(
            {
                "maxProcesses": PLACES,
                "startSeconds": 5,
                "coldStartSeconds": 2,
                "idleTtlSeconds": 1,
                "maxProcessesPerSession": MOST,
                "maxRssMb": HOLDS,
            },
            fake=(*log_option(made), *memory),
            unborn=("--die-at-start", "3", "--stderr", "no licence"),
            homeless=("--die-on", "session/new:4", "--stderr", "no disk"),
            silent=(
                "--silent",
                "session/new",
                "--stderr",
                "still thinking",
                "--children",
                "setsid",
            ),
            sour=(*memory, "--eof-code", "1"),
        )
        value = json.loads((made.path / "config.yaml").read_text(encoding="utf-8"))
        rows = value["agents"]["list"]
        boom = ["/bin/sh", "-c", f"echo x >> {made.path}/starts; echo boom >&2; exit 1"]
        rows.append({"id": "boom", "runtime": {"command": boom}})
        for number in range(BAD):
            rows.append({"id": f"bad{number}", "runtime": {"command": ["/nope/agent"]}})
        (made.path / "config.yaml").write_text(json.dumps(value), encoding="utf-8")
        made.start()
        yield made


@pytest.fixture
def impatient(home: Home) -> Iterator[Home]:
    """The same, with a limit of silence of one second: a changed configuration acts at once."""
    path = home.path / "config.yaml"
    before = path.read_text(encoding="utf-8")
    value = json.loads(before)
    value["limits"]["stallSeconds"] = 1
    path.write_text(json.dumps(value), encoding="utf-8")
    yield home
    path.write_text(before, encoding="utf-8")


def row_of(daemon: Any, key: str) -> Any:
    (row,) = daemon.call("status", key=key)["sessions"]
    return row


def at(daemon: Any, key: str, true: Any) -> Any:
    """Return the session's row, once it fulfils a condition."""
    deadline = time.monotonic() + LIMIT
    while not true(row := row_of(daemon, key)):
        assert time.monotonic() < deadline, row
        time.sleep(PAUSE)
    return row


def pid_of(row: Any) -> int:
    (pid,) = [p["pid"] for p in row["processes"] if p["role"] == "agent"]
    return int(pid)


def heard(row: Any) -> bool:
    return row["state"] == "running" and bool(row["turn"] and row["turn"]["lastUpdateAt"])


def ready(row: Any) -> bool:
    return bool(row["state"] == "ready")


def events(home: Home, key: str) -> list[dict[str, Any]]:
    return home.run("logs", key, "--json").events


def exits(home: Home, key: str) -> list[bool]:
    """Whether the agent died, for each process of a session that has ended."""
    return [e["died"] for e in events(home, key) if e["type"] == "process_exited"]


def works(daemon: Any) -> None:
    """Check that every place is free: as many agents run at once as there are places."""
    until(lambda: not daemon.call("status")["sessions"])
    runs = [start(daemon, "say on") for _ in range(PLACES)]
    assert {daemon.call("wait", runId=run["runId"])["outcome"] for run in runs} == {"completed"}


# ---- Death ----


@pytest.mark.parametrize(
    ("agent", "code", "said"), [("unborn", 3, "no licence"), ("homeless", 4, "no disk")]
)
def test_case_61_who_exits_before_the_session_is_open_is_quoted(
    home: Home, agent: str, code: int, said: str
) -> None:
    """(a) before the answer to initialize, (b) during session/new."""
    with client(home) as daemon:
        error = ended(daemon, "say never", agent=agent, limit=20)["error"]
        assert error["code"] in ("start_failed", "agent_died")
        assert f"exit code {code}" in error["message"]
        assert error["data"]["exitCode"] == code
        assert said in error["data"]["stderr"]
        works(daemon)


def test_case_61_who_exits_with_a_question_open_takes_it_along(home: Home) -> None:
    """(c) during a prompt; and of a long stderr the end is quoted, of at most 16 KiB.

    Without the call of `on_gone` in `Connection._gone` the reason is `withdrawn`: the call is
    cancelled before the death is known.
    """
    with client(home) as daemon:
        run = start(daemon, "stderr-flood 40000\nstderr goodbye\nbg ask\nsay on\nhang")
        row = at(daemon, run["key"], lambda r: r["pendingPermissions"] and heard(r))
        os.kill(pid_of(row), signal.SIGKILL)
        error = daemon.call("wait", runId=run["runId"], limit=20)["error"]
        assert error["code"] == "agent_died"
        assert error["data"]["signal"] == signal.SIGKILL
        assert "SIGKILL" in error["message"]
        assert error["data"]["stderr"].endswith("goodbye\n")
        assert len(error["data"]["stderr"].encode()) <= 16 * 1024
        assert daemon.call("questions") in ([], {"permissions": []})
        late = home.run("permissions", "answer", row["questions"][0]["id"], "--allow")
        assert late.code == 4
        (decided,) = [e for e in events(home, run["key"]) if e["type"] == "permission_decided"]
        assert (decided["effect"], decided["reason"]) == ("cancel", "agent_died")


@pytest.mark.parametrize("how", ["SIGKILL", 143])
def test_case_62_a_death_in_mid_prompt_is_told_once_with_how_it_came(
    home: Home, how: str | int
) -> None:
    with client(home) as daemon:
        words = "say 1\nsay 2\nsay 3\n" + ("hang" if isinstance(how, str) else f"crash {how}")
        run = start(daemon, words, mode="session")
        if isinstance(how, str):
            row = at(daemon, run["key"], heard)
            os.kill(pid_of(row), signal.Signals[how])
        result = daemon.call("wait", runId=run["runId"], limit=20)
        assert (result["outcome"], result["error"]["code"]) == ("failed", "agent_died")
        assert str(how) in result["error"]["message"]
        row = at(daemon, run["key"], lambda r: r["state"] == "died")
        assert (row["lastError"]["code"], row["processes"]) == ("agent_died", [])
        assert exits(home, run["key"]) == [True]
        told = [e["type"] for e in events(home, run["key"])]
        assert (told.count("turn_failed"), told.count("update")) == (1, 3)


def test_case_73_a_dead_connection_is_not_used_again(home: Home) -> None:
    with client(home) as daemon:
        run = start(daemon, "say one", mode="session")
        old = pid_of(at(daemon, run["key"], ready))
        os.kill(old, signal.SIGKILL)
        # At once, whether or not anybody has noticed: the prompt waits, or meets the dead agent.
        other = ended(daemon, "say spawned")
        assert other["outcome"] == "completed"
        assert other["key"] != run["key"]
        at(daemon, run["key"], lambda r: r["state"] == "died")
        for words in ("say two", "say three"):
            assert ended(daemon, words, session=run["key"])["outcome"] == "completed"
        row = row_of(daemon, run["key"])
        assert row["opens"] >= 2
        assert old not in [p["pid"] for p in row["processes"]]
        assert row["formerSessionIds"] == []  # the conversation was taken up, not begun anew


# ---- Who ended it ----


def test_case_74_a_killed_by_a_person_is_closed_and_no_crash(home: Home) -> None:
    with client(home) as daemon:
        key = start(daemon, "say on", mode="session")["key"]
        at(daemon, key, ready)
        assert daemon.call("kill", keys=[key])["ok"]
        row = row_of(daemon, key)
        assert (row["state"], row["closeReason"], row["lastError"]) == ("closed", "killed", None)
        assert exits(home, key) == [False]


@pytest.mark.parametrize("agent", ["fake", "sour"])
def test_case_74_b_d_released_when_idle_is_idle_whatever_its_exit_code(
    home: Home, agent: str
) -> None:
    """(b) the idle time has passed, (d) and it exits with 1 once we have closed its stdin."""
    with client(home) as daemon:
        run = start(daemon, "say on", mode="session", agent=agent)
        row = at(daemon, run["key"], lambda r: r["state"] == "idle")
        assert (row["lastError"], row["closeReason"], row["processes"]) == (None, None, [])
        assert exits(home, run["key"]) == [False]
        assert ended(daemon, "say again", session=run["key"])["outcome"] == "completed"


def test_case_74_d_closed_by_a_person_is_closed_whatever_its_exit_code(home: Home) -> None:
    with client(home) as daemon:
        key = start(daemon, "say on", mode="session", agent="sour")["key"]
        at(daemon, key, ready)
        daemon.call("close", key=key)
        row = row_of(daemon, key)
        assert (row["state"], row["closeReason"], row["lastError"]) == ("closed", "closed", None)
        assert exits(home, key) == [False]


def test_case_74_c_exit_0_in_mid_prompt_is_a_death(home: Home) -> None:
    with client(home) as daemon:
        run = start(daemon, "say on\ncrash 0", mode="session")
        result = daemon.call("wait", runId=run["runId"])
        assert (result["outcome"], result["error"]["code"]) == ("failed", "agent_died")
        assert "exit code 0" in result["error"]["message"]
        row = at(daemon, run["key"], lambda r: r["state"] == "died")
        assert row["closeReason"] is None
        assert exits(home, run["key"]) == [True]


def test_case_75_writing_to_an_agent_that_has_closed_its_input_fails_one_run_only(
    home: Home,
) -> None:
    """It lives on without its stdin; then it exits. A prompt and an answer are written to both."""
    look = Look(home)
    daemon_pid = home.daemon_pid()
    with client(home) as daemon:
        # Alive and deaf: the answer to its question cannot be written, nor the next prompt.
        deaf = start(daemon, "close-stdin\nask\nsay on\nhang", mode="session")
        row = at(daemon, deaf["key"], lambda r: r["pendingPermissions"])
        daemon.call("answer", id=row["questions"][0]["id"], effect="allow")
        behind = start(daemon, "say behind", session=deaf["key"])
        result = daemon.call("wait", runId=deaf["runId"], limit=30)
        assert result["outcome"] == "failed"
        assert result["error"]["code"] == "agent_died"
        assert result["error"]["message"]
        # What waited behind it had nothing to do with it: it is worked on by another process.
        assert daemon.call("wait", runId=behind["runId"], limit=30)["outcome"] == "completed"
        # Gone: it exits while its question is open, and is answered then.
        gone = start(daemon, "close-stdin\nbg ask\nsay on\nhang", mode="session")
        row = at(daemon, gone["key"], lambda r: r["pendingPermissions"] and heard(r))
        os.kill(pid_of(row), signal.SIGKILL)
        home.run("permissions", "answer", row["questions"][0]["id"], "--allow")
        result = daemon.call("wait", runId=gone["runId"], limit=30)
        assert (result["outcome"], result["error"]["code"]) == ("failed", "agent_died")
        works(daemon)
    assert home.daemon_pid() == daemon_pid
    assert "Traceback" not in look.daemon
    assert "BrokenPipe" not in look.daemon


# ---- Opens that fail ----


def test_case_63_g11_a_command_that_always_fails_is_started_three_times_and_no_more(
    home: Home,
) -> None:
    starts = home.path / "starts"
    with client(home) as daemon:
        first = start(daemon, "say 0", agent="boom")
        runs = [first, *[start(daemon, f"say {n}", session=first["key"]) for n in range(1, 10)]]
        errors = [daemon.call("wait", runId=run["runId"])["error"] for run in runs]
        assert [e["code"] for e in errors] == ["start_failed"] * 3 + ["reopen_refused"] * 7
        assert all("boom" in e["data"]["stderr"] for e in errors[:3])
        row = at(daemon, first["key"], lambda r: r["state"] == "failed")
        assert len(starts.read_text(encoding="ascii").split()) == 3
        assert "boom" in home.run("status", first["key"]).out + json.dumps(row)
        # Time alone opens nothing, and neither does looking.
        time.sleep(1)
        assert row_of(daemon, first["key"])["state"] == "failed"
        refused = home.run("run", "--session", first["key"], "say more")
        assert refused.code == 6
        assert "error (reopen_refused)" in refused.err
        assert "acpbridge restart" in refused.err
        assert len(starts.read_text(encoding="ascii").split()) == 3
        # A person may try again: once, and it fails again.
        assert home.run("restart", first["key"]).code == 6
        assert len(starts.read_text(encoding="ascii").split()) == 4
        works(daemon)


def test_case_67_ten_agents_that_are_not_there_hold_up_neither_status_nor_a_good_one(
    home: Home,
) -> None:
    with client(home) as daemon:
        good = start(daemon, "stream 200 5\nsay done")
        took: list[float] = []
        keys: dict[str, str] = {}
        for _ in range(3):
            for number in range(BAD):
                agent = f"bad{number}"
                known = keys.get(agent, "")
                result = ended(daemon, "say never", agent="" if known else agent, session=known)
                keys[agent] = result["key"]
                assert result["error"]["code"] == "agent_not_found"
                assert "/nope/agent" in result["error"]["message"]
                began = time.monotonic()
                daemon.call("status")
                took.append(time.monotonic() - began)
        print(f"status beside missing agents: at most {max(took) * 1000:.0f} ms of {len(took)}")
        assert max(took) < AT_ONCE
        assert daemon.call("wait", runId=good["runId"])["outcome"] == "completed"
        assert {row_of(daemon, key)["state"] for key in keys.values()} == {"failed"}


def test_g10_a_session_that_is_never_opened_ends_at_its_limit_tree_and_all(home: Home) -> None:
    """Up and deaf is no session. Without the limit in `_set_up` the run waits for ever."""
    with client(home) as daemon:
        run = start(daemon, "say never", agent="silent")
        row = at(daemon, run["key"], lambda r: len(r["processes"]) >= 3)
        assert row["state"] == "starting"
        error = daemon.call("wait", runId=run["runId"], limit=30)["error"]
        assert error["code"] == "start_timeout"
        assert "did not answer session/new in 2 s" in error["message"]
        assert "limits.coldStartSeconds" in error["hint"]
        assert "still thinking" in error["data"]["stderr"]
        assert wait_gone([p["pid"] for p in row["processes"]]) == []
        works(daemon)


# ---- The truth about what runs ----


def test_g7_a_stopped_agent_is_shown_as_stopped_and_a_zombie_as_a_zombie(home: Home) -> None:
    """With states from memory in `census`: `assert 'sleeping' == 'stopped'`."""
    with client(home) as daemon:
        run = start(daemon, "children plain\nsay on\nhang", mode="session")
        row = at(daemon, run["key"], lambda r: heard(r) and len(r["processes"]) >= 3)
        agent = pid_of(row)
        (child,) = [p["pid"] for p in row["processes"] if p["role"] == "child"]

        def look(pid: int) -> Any:
            told = row_of(daemon, run["key"])["processes"]
            return next((p for p in told if p["pid"] == pid), None)

        assert look(agent)["rssBytes"] > 0
        os.kill(agent, signal.SIGSTOP)
        assert until(lambda: look(agent)["state"] == "stopped")
        # Its parent cannot reap while it is stopped.
        os.kill(child, signal.SIGKILL)
        dead = until(lambda: (p := look(child)) and p["state"] == "zombie" and p)
        assert dead["rssBytes"] == 0
        whole = daemon.call("status")
        assert whole["observedAt"] > row["createdAt"]
        daemon.call("kill", keys=[run["key"]], grace=0)
        assert not alive(agent)


# ---- Limits ----


def test_a_tree_with_too_many_processes_is_ended_and_says_why(home: Home) -> None:
    with client(home) as daemon:
        run = start(daemon, f"say up\nchildren bomb {MOST + 3}\nhang", mode="session")
        result = daemon.call("wait", runId=run["runId"], limit=30)
        assert (result["outcome"], result["error"]["code"]) == ("failed", "over_limit")
        data = result["error"]["data"]
        assert (data["limit"], data["allowed"]) == ("limits.maxProcessesPerSession", MOST)
        assert f"It has {data['value']} processes" in result["error"]["message"]
        row = at(daemon, run["key"], lambda r: r["state"] == "died")
        assert (row["lastError"]["code"], row["processes"]) == ("over_limit", [])
        assert not [text for text in home.marked().values() if home.mark in text]
        assert ended(daemon, "say again", session=run["key"])["outcome"] == "completed"


def test_a_tree_that_holds_too_much_memory_is_ended_and_names_the_figure(home: Home) -> None:
    with client(home) as daemon:
        run = start(daemon, f"say up\nhold {HOLDS + 50}\nhang", mode="session")
        result = daemon.call("wait", runId=run["runId"], limit=30)
        assert (result["outcome"], result["error"]["code"]) == ("failed", "over_limit")
        data = result["error"]["data"]
        assert (data["limit"], data["allowed"]) == ("limits.maxRssMb", HOLDS * 1024**2)
        # It may be caught while it grows.
        assert HOLDS < data["value"] / 1024**2 < 2 * HOLDS
        said = f"hold {data['value'] / 1024**2:.0f} MiB of memory, and limits.maxRssMb is {HOLDS}"
        assert said in result["error"]["message"]
        assert at(daemon, run["key"], lambda r: r["state"] == "died")["processes"] == []


def test_a_tree_near_its_limit_is_told_of_and_lives(home: Home) -> None:
    with client(home) as daemon:
        # Two more than 80 percent with the agent itself.
        run = start(daemon, f"say up\nchildren bomb {MOST - 2}\nignore-cancel 200")

        def warned() -> Any:
            told = daemon.call("status")["warnings"]
            return [warning for warning in told if warning.startswith(run["key"])]

        # The first figure may be of a tree that still grows.
        wanted = f"it has {MOST - 1} processes, and limits.maxProcessesPerSession is {MOST}"
        until(lambda: any(wanted in warning for warning in warned()))
        until(lambda: any(e["type"] == "notice" for e in events(home, run["key"])))
        shown = home.run("status")
        assert f"it has {MOST - 1} processes" in shown.out + shown.err
        daemon.call("kill", keys=[run["key"]], grace=0)
        notices = [e for e in events(home, run["key"]) if e["type"] == "notice"]
        assert [n["kind"] for n in notices] == ["near_limit"]


def test_exit_6_tells_of_a_tree_that_took_too_much(home: Home) -> None:
    done = home.run("run", "--agent", "fake", f"children bomb {MOST + 3}\nhang", limit=30)
    assert done.code == 6, done
    assert "error (over_limit): It has" in done.err
    assert "\nnext: Raise the limit" in done.err


# ---- Silence ----


def test_a_turn_that_stalls_fails_and_the_session_goes_on(impatient: Home) -> None:
    with client(impatient) as daemon:
        run = start(daemon, "say on\nhang", mode="session")
        result = daemon.call("wait", runId=run["runId"], limit=30)
        assert (result["outcome"], result["error"]["code"]) == ("failed", "turn_stalled")
        assert "limits.stallSeconds is 1" in result["error"]["message"]
        assert ended(daemon, "say again", session=run["key"])["outcome"] == "completed"
    done = impatient.run("run", "--agent", "fake", "say on\nhang", limit=30)
    assert done.code == 1
    assert "error (turn_stalled): Nothing came from the agent for" in done.err


def test_a_stopped_agent_that_stalls_goes_down_the_ladder_and_frees_its_place(
    impatient: Home,
) -> None:
    with client(impatient) as daemon:
        run = start(daemon, "say on\nhang", mode="session")
        agent = pid_of(at(daemon, run["key"], heard))
        os.kill(agent, signal.SIGSTOP)
        result = daemon.call("wait", runId=run["runId"], limit=40)
        assert (result["outcome"], result["error"]["code"]) == ("failed", "turn_stalled")
        at(daemon, run["key"], lambda r: r["state"] == "idle")
        assert not alive(agent)
        works(daemon)


CALL = {"toolCallId": "t", "title": "build", "kind": "execute", "status": "in_progress"}


def test_case_123_a_silent_tool_outlasts_the_limit_of_silence(impatient: Home) -> None:
    begun = json.dumps({"sessionUpdate": "tool_call", **CALL})
    over = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}
    with client(impatient) as daemon:
        run = start(daemon, f"update {begun}\nsleep 3000\nupdate {json.dumps(over)}\nsay built")
        row = at(daemon, run["key"], lambda r: r["turn"] and r["turn"]["waitsFor"] == "tool")
        assert row["turn"]["lastUpdateAt"] is not None
        assert daemon.call("wait", runId=run["runId"], limit=30)["stopReason"] == "end_turn"


def test_case_123_a_question_outlasts_the_limit_of_silence(impatient: Home, tmp_path: Path) -> None:
    with client(impatient) as daemon:
        run = start(daemon, f'ask execute "touch it" do {tmp_path / "did"}\nsay on')
        row = at(daemon, run["key"], lambda r: r["pendingPermissions"])
        time.sleep(3)  # nobody answers
        again = row_of(daemon, run["key"])
        assert (again["turn"]["state"], again["turn"]["waitsFor"]) == ("waiting", "permission")
        daemon.call("answer", id=row["questions"][0]["id"], effect="allow")
        assert daemon.call("wait", runId=run["runId"], limit=30)["stopReason"] == "end_turn"
