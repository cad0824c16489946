"""The care of the daemon: it is stopped, restarted, logged, left alone, frozen and killed past."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import acpbridge
from tests.integration.conftest import descendants
from tests.integration.daemon_home import LIMIT, Home, alive, daemon_home, until, wait_gone

EVIL = "children setsid env-i double-forked"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with daemon_home(tmp_path) as made:
        yield made


def detached(home: Home, prompt: str, *args: str) -> str:
    """Detach a run and return the key, once its agent has said something."""
    done = home.run("run", "--detach", f"say on\n{prompt}", *args)
    assert done.code == 0, done
    key = done.out.strip()
    until(lambda: said_something(row_of(home, key)))
    return key


def said_something(row: Any) -> bool:
    return row["state"] == "running" and row["turn"] and row["turn"]["lastUpdateAt"] is not None


def row_of(home: Home, key: str) -> Any:
    return home.row(key)


def record_of(home: Home, key: str) -> Any:
    return home.record(key)


def tree(home: Home) -> list[int]:
    """Return every process of the daemon, itself included, as the kernel has them."""
    pid = home.daemon_pid()
    return [pid, *descendants(pid)]


# ---- stop ----


def test_stop_refuses_to_end_work_where_nobody_can_be_asked_and_names_yes(home: Home) -> None:
    key = detached(home, f"{EVIL}\nhang")
    everything = tree(home)
    refused = home.run("daemon", "stop")
    assert (refused.code, refused.out) == (1, "")
    assert "error (busy): 1 session has work" in refused.err
    assert key in refused.err
    assert "daemon stop --yes" in refused.err
    assert "daemon restart --yes" in home.run("daemon", "restart").err
    assert row_of(home, key)["state"] == "running"
    polite = home.run("daemon", "stop", "--yes")
    assert polite.code == 0, polite
    assert [pid for pid in everything if alive(pid)] == []
    assert home.run("daemon", "stop").out == "no daemon runs\n"


def test_stop_says_which_question_is_open_and_asks_at_a_terminal(
    home: Home, tmp_path: Path
) -> None:
    did = tmp_path / "did"
    key = home.run("run", "--detach", f'ask execute "touch it" do {did}').out.strip()
    home.wait_question()
    with home.terminal("daemon", "stop") as terminal:
        before = terminal.expect("Cancel all that and go on?")
        assert "1 question is open" in before
        assert key in before
        terminal.type("n\n")
        assert terminal.wait() == 1
    assert home.run("permissions", "--json").json["permissions"]
    with home.terminal("daemon", "stop") as terminal:
        terminal.expect("Cancel all that and go on?")
        terminal.type("y\n")
        assert terminal.wait() == 0
    assert not did.exists()
    assert record_of(home, key)["state"] == "idle"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_case_107_g29_a_signal_ends_all_agents_side_by_side_and_the_daemon_with_0(
    home: Home, number: signal.Signals
) -> None:
    with home.running("daemon", "run") as daemon:
        until(home.serves)
        for _ in range(3):
            detached(home, f"{EVIL}\nhang")
        everything = tree(home)
        os.kill(daemon.pid, number)
        assert daemon.wait(LIMIT) == 0
        assert [pid for pid in everything if alive(pid)] == []
        assert not (home.path / "daemon.sock").exists()
        assert (home.path / "daemon.lock").exists()


def test_case_107_a_second_signal_hurries(home: Home) -> None:
    home.configure(stone=["--ignore-term", "--ignore-eof"])
    with home.running("daemon", "run") as daemon:
        until(home.serves)
        detached(home, "children term-ignoring\nignore-cancel 50")
        everything = tree(home)
        os.kill(daemon.pid, signal.SIGTERM)
        until(lambda: home.session()["state"] == "stopping")
        os.kill(daemon.pid, signal.SIGTERM)
        # A polite end would be 0, five seconds later: the agent's grace, and the wait for TERM.
        assert daemon.wait(LIMIT) == 1
        assert wait_gone(everything, 10) == []


def test_g29_an_agent_that_takes_its_whole_grace_does_not_hold_the_stop_beyond_its_deadline(
    home: Home, tmp_path: Path
) -> None:
    """With an hour in place of `POLITE` the log ends: "the stop was cut short", "stopped"."""
    # By its name this one has the longest grace of the catalogue. Politely it would take nine
    # seconds: one for the answer, five of grace, three of TERM.
    slow = tmp_path / "claude-agent-acp"
    words = " ".join(home.agent("--ignore-term", "--ignore-eof", "--modes", "default,plan"))
    slow.write_text(f"#!/bin/sh\nexec {words}\n", encoding="utf-8")
    slow.chmod(0o700)
    rows = [{"id": "slow", "runtime": {"kind": "acp", "command": [str(slow)]}}]
    (home.path / "config.yaml").write_text(json.dumps({"agents": {"list": rows}}), encoding="utf-8")
    with home.running("daemon", "run") as daemon:
        until(home.serves)
        detached(home, "children term-ignoring\nignore-cancel 50")
        everything = tree(home)
        daemon.send_signal(signal.SIGTERM)
        _, said = daemon.communicate(timeout=40)
        assert daemon.returncode == 0
        assert [pid for pid in everything if alive(pid)] == []
    assert [json.loads(line)["event"] for line in said.splitlines()][-2:] == ["stopping", "stopped"]


def test_g29_an_open_question_is_answered_cancelled_and_new_work_is_refused(home: Home) -> None:
    home.configure(stone=["--ignore-term", "--ignore-eof"])
    with home.running("daemon", "run") as daemon:
        until(home.serves)
        key = home.run("run", "--detach", 'ask execute "rm x"\nignore-cancel 50').out.strip()
        home.wait_question()
        daemon.send_signal(signal.SIGTERM)
        until(lambda: row_of(home, key)["state"] == "stopping")
        # New work is not for this daemon: it is done by the next one, once this one has ended.
        assert home.run("run", "--detach", "say more", limit=40).code == 0
        assert daemon.wait(LIMIT) == 0
        assert home.daemon_pid() != daemon.pid
    events = home.run("logs", key, "--json").events
    (decided,) = [event for event in events if event["type"] == "permission_decided"]
    assert decided["reason"] in ("turn_cancelled", "daemon_stopping")
    assert decided["effect"] != "allow"


def test_case_107_a_hang_up_stops_a_daemon_in_the_foreground_only(home: Home) -> None:
    home.start()
    pid = home.daemon_pid()
    os.kill(pid, signal.SIGHUP)
    assert home.status()["daemon"]["pid"] == pid
    assert home.run("daemon", "stop").code == 0
    with home.running("daemon", "run") as daemon:
        until(home.serves)
        os.kill(daemon.pid, signal.SIGHUP)
        assert daemon.wait(LIMIT) == 0


# ---- restart ----


def test_restart_gives_another_daemon_and_sessions_are_reopened_on_their_next_prompt(
    home: Home,
) -> None:
    home.configure(fake=["--memory", str(home.path / "memory")])
    first = home.run("run", "say one", "--mode", "session", "--format", "json")
    key = first.events[0]["key"]
    pid = home.daemon_pid()
    done = home.run("daemon", "restart")
    assert done.code == 0, done
    assert home.daemon_pid() != pid
    assert not alive(pid)
    assert record_of(home, key)["state"] == "idle"
    again = home.run("run", "say two", "--session", key)
    assert (again.code, again.out) == (0, "two\n")
    last = home.daemon_pid()
    assert home.run("daemon", "start", "--json").json == {"pid": last, "started": False}
    assert home.run("daemon", "stop", "--json").json == {"stopped": last}
    assert home.run("daemon", "stop", "--json", "--force").json == {"stopped": None}
    restarted = home.run("daemon", "restart", "--json")
    assert restarted.json == {"stopped": None, "pid": home.daemon_pid()}


def test_a_newer_command_is_told_to_restart_an_older_daemon_and_can(
    home: Home, tmp_path: Path
) -> None:
    old = tmp_path / "old"
    shutil.copytree(Path(acpbridge.__file__).parent, old / "acpbridge")
    module = old / "acpbridge" / "__init__.py"
    text = module.read_text(encoding="utf-8")
    module.write_text(text.replace(acpbridge.__version__, "0.0.9"), encoding="utf-8")
    new = home.env
    home.env = new | {"PYTHONPATH": str(old)}
    key = detached(home, "hang")
    pids = [process["pid"] for process in home.session()["processes"]]
    home.env = new
    pid = home.daemon_pid()
    for command in (["status"], ["run", "hi"], ["sessions"]):
        told = home.run(*command)
        assert told.code == 8
        assert "error (daemon_version): " in told.err
        assert "0.0.9" in told.err
        assert "acpbridge daemon restart" in told.err
    # What must always work, works past it.
    killed = home.run("kill", key)
    assert (killed.code, [left for left in pids if alive(left)]) == (0, [])
    until(lambda: home.run("daemon", "restart").code == 0)
    assert record_of(home, key)["closeReason"] == "killed"
    assert not alive(pid)
    assert home.status()["daemon"]["version"] == acpbridge.__version__


# ---- the log ----


def test_the_daemon_logs_to_a_file_of_its_owner_and_it_is_shown(home: Home) -> None:
    home.env["SHOP_API_KEY"] = secret = "canary-5f0c2a7d91"
    home.run("run", "crash")
    home.run("daemon", "stop")
    path = home.path / "daemon.log"
    assert path.stat().st_mode & 0o777 == 0o600
    assert secret not in path.read_text(encoding="utf-8")
    shown = home.run("daemon", "logs")
    assert (shown.code, shown.err) == (0, "")
    assert " info    ready  pid=" in shown.out
    data = home.run("daemon", "logs", "--json", "-n", "3").events
    assert [row["event"] for row in data][-2:] == ["stopping", "stopped"]
    assert len(data) == 3


def test_what_a_crash_leaves_on_stderr_is_in_the_log_and_moves_no_cursor(home: Home) -> None:
    home.start()
    os.kill(home.daemon_pid(), signal.SIGSEGV)  # the fault handler tells where it was
    wait_gone([home.daemon_pid()])
    with (home.path / "daemon.log").open("a", encoding="utf-8") as log:
        log.write("\x1b[2J\n")
    shown = home.run("daemon", "logs").out
    assert "Fatal Python error: Segmentation fault" in shown
    assert "\x1b" not in shown
    raw = [row for row in home.run("daemon", "logs", "--json").events if row["level"] == "raw"]
    assert any("Fatal Python error" in row["event"] for row in raw)


def test_the_log_is_followed_over_a_restart(home: Home) -> None:
    home.start()
    with home.running("daemon", "logs", "-f", "-n", "1", "--json") as follower:
        assert follower.stdout is not None
        assert json.loads(follower.stdout.readline())["event"] == "ready"
        home.run("daemon", "stop")
        events = [json.loads(follower.stdout.readline())["event"] for _ in range(2)]
        assert events == ["stopping", "stopped"]
        home.start()
        assert json.loads(follower.stdout.readline())["event"] == "ready"
        follower.send_signal(signal.SIGINT)
        assert follower.wait(LIMIT) == 130


def test_without_a_log_it_is_said_and_nothing_is_made(home: Home) -> None:
    done = home.run("daemon", "logs")
    assert (done.code, done.out) == (0, "")
    assert "there is no log yet" in done.err


# ---- idle ----


def test_a_daemon_with_nothing_to_do_ends_when_the_configuration_says_so(home: Home) -> None:
    configured = json.loads((home.path / "config.yaml").read_text(encoding="utf-8"))
    configured["daemon"] = {"idleExitSeconds": 0.5}
    (home.path / "config.yaml").write_text(json.dumps(configured), encoding="utf-8")
    key = detached(home, "hang")
    pid = home.daemon_pid()
    until(lambda: record_of(home, key)["state"] == "running")
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(home.path / "daemon.sock"))  # it says no hello, and counts for 5 s
        home.run("kill", key)
        time.sleep(1.0)  # twice the limit: with a client it does not end
        assert alive(pid)
    assert wait_gone([pid]) == []
    assert not (home.path / "daemon.sock").exists()
    assert home.run("daemon", "logs", "-n", "3").out.count("idle") == 1
    assert record_of(home, key)["closeReason"] == "killed"


def test_commands_that_meet_a_daemon_on_its_way_out_have_the_next_one_started(home: Home) -> None:
    configured = json.loads((home.path / "config.yaml").read_text(encoding="utf-8"))
    configured["daemon"] = {"idleExitSeconds": 0.01}
    (home.path / "config.yaml").write_text(json.dumps(configured), encoding="utf-8")
    for _ in range(2):
        assert home.run("sessions").out == "no sessions\n"
        done = home.run("run", "say here")
        assert (done.code, done.out) == (0, "here\n"), done


@pytest.mark.parametrize("command", [["run", "say next"], ["sessions"], ["daemon", "start"]])
def test_who_connects_in_the_very_moment_of_the_end_gets_the_next_daemon(
    home: Home, command: list[str]
) -> None:
    path = home.path / "daemon.sock"
    with socket.socket(socket.AF_UNIX) as ending:
        ending.bind(str(path))
        ending.listen()
        ending.settimeout(20)
        with home.running(*command) as process:
            client, _ = ending.accept()
            path.unlink()
            client.close()
            out, err = process.communicate(timeout=LIMIT)
            assert (process.returncode, out.strip() != b"") == (0, True), err
    assert home.status()["daemon"]["pid"] == home.daemon_pid()


# ---- dead, frozen, deaf ----


def case_119(home: Home, word: str) -> None:
    """Look at a daemon that does not serve with every command that looks; each ends by itself."""
    commands = (["status"], ["status", "--json"], ["daemon", "status"], ["kill", "nothing"])
    with ExitStack() as stack:
        processes = [stack.enter_context(home.running(*command)) for command in commands]
        for process, command in zip(processes, commands, strict=True):
            out, err = process.communicate(timeout=LIMIT)
            assert process.returncode == 8, (command, err)
            if "--json" in command:
                json.loads(out)
            else:
                assert word.encode() in out + err


def test_case_119_a_without_a_daemon(home: Home) -> None:
    case_119(home, "aemon runs")
    assert home.run("status", "--json").json["daemon"] is None


def test_case_119_b_a_stopped_daemon_is_said_to_be_frozen_by_every_command(home: Home) -> None:
    home.start()
    pid = home.daemon_pid()
    os.kill(pid, signal.SIGSTOP)
    commands = (
        *(["run", "hi"], ["sessions"], ["permissions"], ["cancel", "x"], ["close", "x"]),
        *(["daemon", "start"], ["daemon", "stop"], ["daemon", "restart"]),
    )
    with ExitStack() as stack:
        processes = [stack.enter_context(home.running(*command)) for command in commands]
        for process, command in zip(processes, commands, strict=True):
            _, err = process.communicate(timeout=LIMIT)
            assert process.returncode == 8, (command, err)
            assert b"error (daemon_frozen)" in err, (command, err)
            assert b"daemon stop --force" in err
    case_119(home, "not answer")
    os.kill(pid, signal.SIGCONT)
    assert home.status()["daemon"]["pid"] == pid


def test_who_follows_a_turn_is_told_that_the_daemon_is_frozen_and_goes_on_when_it_does(
    home: Home,
) -> None:
    home.start()
    with home.running("run", "say on\nhang", "--agent", "fake", "--format", "json") as run:
        assert run.stdout is not None
        assert run.stderr is not None
        key = json.loads(run.stdout.readline())["key"]
        until(lambda: said_something(home.session()))
        os.kill(home.daemon_pid(), signal.SIGSTOP)
        told = run.stderr.readline().decode()
        os.kill(home.daemon_pid(), signal.SIGCONT)
        assert "the daemon does not answer" in told
        assert f"kill {key}" in told
        assert b"the daemon answers again" in run.stderr.readline()
        assert home.run("cancel", key).code == 0
        run.communicate(timeout=LIMIT)
        assert run.returncode == 130


@pytest.mark.parametrize("accepts", [True, False])
def test_case_119_c_a_socket_that_never_answers_or_never_accepts(home: Home, accepts: bool) -> None:
    with ExitStack() as stack:
        deaf = stack.enter_context(socket.socket(socket.AF_UNIX))
        deaf.bind(str(home.path / "daemon.sock"))
        deaf.listen(50 if accepts else 0)
        if not accepts:
            filler = stack.enter_context(socket.socket(socket.AF_UNIX))
            filler.connect(str(home.path / "daemon.sock"))
        case_119(home, "daemon_frozen")
        done = home.run("run", "hi")
        assert (done.code, "error (daemon_frozen)" in done.err) == (8, True)


def test_case_119_d_a_stale_socket_is_no_daemon_and_is_taken_over(home: Home) -> None:
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(home.path / "daemon.sock"))
    assert (home.path / "daemon.sock").exists()
    case_119(home, "aemon runs")
    assert home.run("run", "say taken over").out == "taken over\n"


@pytest.mark.parametrize("after", ["continued", "killed"])
def test_who_was_killed_past_a_frozen_daemon_is_on_record_as_killed(home: Home, after: str) -> None:
    home.start()
    with home.running("run", f"say on\n{EVIL}\nhang", "--format", "json") as run:
        assert run.stdout is not None
        key = json.loads(run.stdout.readline())["key"]
        until(lambda: said_something(home.session()))
        pids = [process["pid"] for process in home.session()["processes"]]
        frozen = home.daemon_pid()
        os.kill(frozen, signal.SIGSTOP)
        killed = home.run("kill", key, "--json", limit=30)
        assert (killed.code, killed.json["ok"]) == (0, True)
        assert [pid for pid in pids if alive(pid)] == []
        if after == "killed":
            assert home.run("daemon", "stop", "--force", limit=30).code == 0
        else:
            os.kill(frozen, signal.SIGCONT)
        run.communicate(timeout=LIMIT)
        # A daemon that is ended by force may still come to say what it found.
        assert run.returncode in ((8, 130) if after == "killed" else (130,))
    until(lambda: record_of(home, key)["state"] not in ("running", "stopping"))
    row = record_of(home, key)
    assert (row["state"], row["closeReason"]) == ("closed", "killed")
    assert home.run("run", "hi", "--session", key).code == 1
    assert home.run("daemon", "restart").code == 0
    assert record_of(home, key)["closeReason"] == "killed"


def test_who_was_still_starting_and_is_killed_past_a_frozen_daemon_is_killed(home: Home) -> None:
    """Without the look in `Life.run`: exit 6, for the agent has died before it was ready."""
    log = home.path / "agent.log"
    home.configure(mute=["--silent-start", "--log", str(log)])
    home.start()
    with home.running("run", "hi") as run:
        until(lambda: log.exists() and '"line"' in log.read_text(encoding="utf-8"))
        key = home.session()["key"]
        os.kill(home.daemon_pid(), signal.SIGSTOP)
        assert home.run("kill", key).code == 0
        os.kill(home.daemon_pid(), signal.SIGCONT)
        run.communicate(timeout=LIMIT)
        assert run.returncode == 130
    row = until(lambda: record_of(home, key))
    assert (row["state"], row["closeReason"]) == ("closed", "killed")


def test_what_a_session_has_spawned_is_killed_past_a_frozen_daemon_with_it(home: Home) -> None:
    key = detached(home, "hang")
    marked = f"{key}.{'0' * 32}"
    child = home.run_inside(marked, "run", "--detach", "say on\nhang", "--agent", "fake")
    assert child.code == 0, child
    born = child.out.strip()
    until(lambda: row_of(home, born)["turn"] and row_of(home, born)["turn"]["lastUpdateAt"])
    assert row_of(home, born)["parentKey"] == key
    until(lambda: born in (home.path / "processes.json").read_text(encoding="utf-8"))
    os.kill(home.daemon_pid(), signal.SIGSTOP)
    inside = home.run_inside(marked, "kill", key, limit=30)
    assert (inside.code, "daemon_frozen" in inside.err) == (8, True)
    assert home.run_inside(marked, "daemon", "stop", "--force").code == 5
    killed = home.run("kill", key, "--json", limit=30)
    assert (killed.code, {row["key"] for row in killed.json["results"]}) == (0, {key, born})
    assert home.run("daemon", "stop", "--force", limit=30).code == 0
    assert record_of(home, born)["closeReason"] == "parent"
    assert record_of(home, key)["closeReason"] == "killed"


def test_force_proves_that_daemon_keeper_guard_shims_and_agents_are_gone(home: Home) -> None:
    detached(home, f"{EVIL}\nhang")
    daemon = home.status()["daemon"]
    everything = tree(home)
    assert {daemon["keeperPid"], daemon["guardPid"]} <= set(everything)
    os.kill(daemon["pid"], signal.SIGSTOP)
    for helper in (daemon["keeperPid"], daemon["guardPid"]):
        os.kill(helper, signal.SIGSTOP)
    done = home.run("daemon", "stop", "--force", limit=30)
    assert (done.code, done.out) == (0, f"stopped (pid {daemon['pid']})\n")
    assert [pid for pid in everything if alive(pid)] == []
    assert not home.marked()


# ---- kill ----


def test_case_117_a_kill_is_done_when_a_fresh_look_finds_nothing(home: Home) -> None:
    home.configure(stone=["--ignore-term", "--ignore-eof"])
    key = detached(home, "children term-ignoring setsid\nhang")
    pids = [process["pid"] for process in home.session()["processes"]]
    done = home.run("kill", key, "--grace", "1")
    assert done.code == 0, done
    assert [pid for pid in pids if alive(pid)] == []
    assert "nothing is left" in done.out


def test_a_kill_now_of_an_agent_that_does_not_start_takes_no_grace(home: Home) -> None:
    log = home.path / "agent.log"
    quiet = ("--silent-start", "--ignore-eof", "--ignore-term")
    home.configure(mute=[*quiet, "--log", str(log)])
    key = home.run("run", "hi", "--detach").out.strip()
    until(lambda: log.exists() and '"line"' in log.read_text(encoding="utf-8"))
    pids = [process["pid"] for process in row_of(home, key)["processes"]]
    done = home.run("kill", key, "--now", "--json")
    assert (done.code, [pid for pid in pids if alive(pid)]) == (0, [])
    # Behind its own grace it would have been told by TERM.
    records = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    assert "signal" not in [record["event"] for record in records]


# ---- errors ----


def test_an_error_is_json_too_where_json_was_asked_for(home: Home) -> None:
    for args, code, status in (
        (["cancel", "x", "--json"], "daemon_unreachable", 8),
        (["status", "--json", "--nonsense"], "usage", 2),
        (["run", "hi", "--format", "json", "--agent", "nobody"], "no_such_agent", 4),
        (["permissions", "answer", "nothing", "--deny", "--json"], "no_such_question", 4),
    ):
        done = home.run(*args)
        assert done.code == status, done
        error = done.json["error"]
        assert (error["code"], set(error)) == (code, {"code", "message", "hint", "data"})
        assert f"error ({code})" in done.err
    assert home.run("cancel", "x").out == ""


def test_a_bare_name_prints_the_help(home: Home) -> None:
    bare = subprocess.run(
        [sys.executable, "-m", "acpbridge"],
        capture_output=True,
        env=home.env,
        timeout=LIMIT,
        check=False,
    )
    assert (bare.returncode, bare.stderr) == (0, b"")
    assert b"Usage: acpbridge" in bare.stdout
    done = home.run("daemon")
    assert (done.code, done.err) == (0, "")
    assert "Usage: acpbridge daemon" in done.out
    for words in (["start"], ["stop"], ["restart"], ["run"], ["status"], ["logs"]):
        assert "Example" in home.run("daemon", *words, "--help").out
    for words in (["status"], ["sessions"], ["kill"], ["cancel"], ["close"], ["daemon"]):
        assert "Example" in home.run(*words, "--help").out


def test_a_state_directory_that_cannot_be_made_or_written_is_named_with_a_next_step(
    home: Home,
) -> None:
    for place in ("/proc/nothing", "/dev/null/x"):
        done = subprocess.run(
            [sys.executable, "-m", "acpbridge", "--home", place, "run", "hi", "--agent", "demo"],
            capture_output=True,
            env=home.env,
            timeout=LIMIT,
            check=False,
        )
        said = done.stderr.decode()
        assert (done.returncode, "error (state_directory)" in said) == (8, True), said
        assert "--home" in said


def test_a_daemon_that_works_is_not_ended_for_one_that_would_not_start(home: Home) -> None:
    assert home.run("daemon", "start").code == 0
    before = home.daemon_pid()
    (home.path / "config.yaml").write_text("agnets: {}\n", encoding="utf-8")
    for words in (("restart",), ("restart", "--force")):
        refused = home.run("daemon", *words)
        assert (refused.code, "error (config_error)" in refused.err) == (2, True), refused
    assert home.daemon_pid() == before
