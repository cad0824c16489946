"""The command line as a person uses it: real processes, a real daemon, a real terminal."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from acpbridge import __version__
from tests.integration.daemon_home import LIMIT, Home, alive, daemon_home, until, wait_gone

QUICK = ("status", "sessions", "kill", "cancel", "close")
SLOW = ("anyio", "pydantic", "pydantic_core", "structlog", "rich", "psutil", "asyncio")


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with daemon_home(tmp_path) as made:
        yield made


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("cli")) as made:
        yield made


@pytest.fixture
def calm(shared: Home) -> Home:
    """A daemon for whoever does nothing to it; no session lives when a test begins or ends."""
    shared.configure(fake=())
    until(lambda: not (shared.ask("status") or {"sessions": []})["sessions"])
    return shared


def key_of(home: Home, *args: str) -> str:
    """Detach a run and return the key, once its turn runs."""
    done = home.run("run", "--detach", *args)
    assert done.code == 0, done
    key = done.out.strip()

    def said_something() -> bool:
        # The directives before a hang are done.
        row = home.row(key)
        return row["state"] == "running" and bool(row["turn"]["lastUpdateAt"])

    until(said_something)
    return key


# ---- run ----


def test_a_run_shows_words_on_stdout_and_all_else_on_stderr(calm: Home) -> None:
    done = calm.run("run", "think hm\nplan\nsay one\ntool read a-file\nsay two")
    assert (done.code, done.out) == (0, "one\ntwo\n")
    for part in ("agent: fake (the default)", "session: agent:fake:acp:", "thought: hm"):
        assert part in done.err
    assert "plan: look around (completed)" in done.err
    assert "tool read: a-file" in done.err


def test_json_is_an_event_a_line_that_ends_with_the_turn(calm: Home) -> None:
    done = calm.run("run", "--agent", "fake", "--format", "json", "say hello")
    assert (done.code, done.err) == (0, "")
    events = done.events
    assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
    (update,) = [event["update"] for event in events if event["type"] == "update"]
    assert update["content"] == {"type": "text", "text": "hello"}
    assert events[-1]["type"] == "turn_ended"
    assert events[-1]["stopReason"] == "end_turn"


def test_quiet_is_the_last_message_and_a_prompt_comes_from_stdin(calm: Home) -> None:
    script = "say one\ntool read a-file\nsay two"
    assert calm.run("run", "--format", "quiet", "-", stdin=script).out == "two\n"
    assert calm.run("run", "--format", "quiet", stdin=script).out == "two\n"


def test_a_session_is_gone_on_with(home: Home) -> None:
    first = home.run("run", "--mode", "session", "--format", "quiet", "say one")
    key = home.session()["key"]
    again = home.run("run", "--session", key[-6:], "--format", "json", "say two")
    here = home.run("run", "--continue", "--format", "json", "say three")
    assert (first.code, again.code, here.code) == (0, 0, 0)
    assert {event["key"] for event in (*again.events, *here.events)} == {key}
    assert home.session()["opens"] == 1


@pytest.mark.parametrize("args", [("run", ""), ("run", "-"), ("run", "--cwd", "/nowhere", "x")])
def test_a_wrong_use_ends_with_2_and_starts_nothing(tmp_path: Path, args: tuple[str, ...]) -> None:
    with daemon_home(tmp_path) as home:
        done = home.run(*args, stdin="")
        assert done.code == 2
        assert done.err.startswith("error (usage): ")
        assert "\nnext: " in done.err
        assert not (home.path / "daemon.lock").exists()


def test_exit_codes_tell_how_a_turn_ended(calm: Home) -> None:
    calm.configure(
        fake=(),
        stubborn=("--reject-cancels",),
        dead=("--die-at-start", "4", "--stderr", "no luck today"),
        strange=("--protocol-version", "7"),
        login=("--auth-required", "new", "--auth-terminal", "web"),
    )
    ask = 'ask execute "rm x"\nsay on'
    expected = [
        (("say on",), 0),
        (("--on-permission", "deny", ask), 0),
        (("stop refusal",), 1),
        (("stop max_tokens",), 1),
        (("error -32603 broken",), 1),
        (("--timeout", "0.3", "hang"), 3),
        (("--agent", "nobody", "say on"), 4),
        (("--session", "nothing", "say on"), 4),
        (("--agent", "stubborn", "--on-permission", "deny", ask), 5),
        (("crash 3",), 6),
        (("--agent", "dead", "say on"), 6),
        (("--agent", "strange", "say on"), 6),
        (("--agent", "login", "say on"), 7),
    ]
    calm.start()
    with ThreadPoolExecutor(4) as pool:
        ended = list(pool.map(lambda row: calm.run("run", *row[0]), expected))
    for (args, code), done in zip(expected, ended, strict=True):
        assert done.code == code, (args, done)
        if code in (3, 4, 6, 7):
            assert "error (" in done.err
            assert "next: " in done.err
        assert "Traceback" not in done.err
    assert "no luck today" in calm.run("run", "--agent", "dead", "say on").err


def test_a_broken_configuration_ends_with_2(home: Home) -> None:
    (home.path / "config.yaml").write_text("agents: {lst: []}\n", encoding="utf-8")
    done = home.run("run", "say on")
    assert done.code == 2
    assert "error (config_error)" in done.err
    assert "lst" in done.err


def test_a_daemon_that_dies_in_mid_turn_ends_the_run_with_8(home: Home) -> None:
    with home.running("run", "--format", "json", "say on\nhang") as run:
        assert run.stdout is not None
        while b'"update"' not in run.stdout.readline():
            pass
        os.kill(home.daemon_pid(), signal.SIGKILL)
        rest = run.stdout.read().splitlines()
        assert run.wait(LIMIT) == 8
        assert b'"turn_failed"' in rest[-1]
        assert b'"connection_closed"' in rest[-1]


def test_after_the_daemon_was_killed_a_session_is_interrupted(home: Home) -> None:
    key = key_of(home, "children setsid env-i\nhang")
    pids = [process["pid"] for process in home.session()["processes"]]
    os.kill(home.daemon_pid(), signal.SIGKILL)
    assert wait_gone(pids, 5) == []
    assert home.run("status").out == "no daemon runs\n"
    (row,) = home.records()
    assert (row["key"], row["state"]) == (key, "interrupted")
    assert home.run("sessions", "--json").json == {"sessions": []}


# ---- questions ----


def test_a_question_is_answered_from_another_terminal(calm: Home, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    script = f'ask execute "rm -r /tmp/\\u202ex" do {trace}\nsay on'
    with calm.running("run", script) as run:
        question = calm.wait_question()
        shown = calm.run("permissions")
        line, others = shown.err.splitlines()
        assert line.endswith(f" permissions answer {question['id']} --allow")  # to be copied
        assert "--deny" in others
        assert "--option OPTION" in others
        assert "rm -r /tmp/⟨U+202E⟩x" in shown.out
        assert calm.session()["turn"]["waitsFor"] == "permission"
        told = calm.run("status")
        assert f"question {question['id']}" in told.out
        assert told.err.endswith(f"--home {calm.path} permissions --watch\n")
        wrong = calm.run("permissions", "answer", question["id"], "--option", "no-such")
        assert (wrong.code, trace.exists()) == (2, False)
        answer = calm.run("permissions", "answer", question["id"], "--allow", "--json")
        assert answer.json["effect"] == "allow"
        out, err = run.communicate(timeout=LIMIT)
        assert (run.returncode, trace.exists()) == (0, True)
        assert out.endswith(b"on\n")
        command = f"--home {calm.path} permissions answer {question['id']} --allow"
        assert command in err.decode()
    assert calm.run("permissions", "answer", question["id"], "--deny").code == 4
    assert calm.run("permissions", "answer", "no-such", "--deny").code == 4


def test_a_question_is_answered_at_the_terminal(calm: Home, tmp_path: Path) -> None:
    answers = [("y", True), ("n", False), ("1", True), ("3", False), ("allow_once", True)]
    for number, (typed, ran) in enumerate(answers):
        trace = tmp_path / f"trace-{number}"
        with calm.terminal("run", f'say on\nask execute "rm x" do {trace}') as terminal:
            shown = terminal.expect("answer [1-3, y = allow once, d = deny, ? = help]: ")
            assert "on\r\n" in shown
            assert "command  rm x" in shown
            assert "1) Allow once: allow once  (id allow_once)" in shown
            terminal.type("what?\n")
            terminal.expect("that is none of the answers")
            terminal.expect("? = help]: ")
            assert not trace.exists()
            terminal.type(f"{typed}\n")
            assert terminal.wait() == 0
        assert (typed, trace.exists()) == (typed, ran)


def test_a_question_at_the_terminal_is_taken_back_and_can_be_left(
    calm: Home, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    ask = f'ask execute "rm x" do {trace}\n'
    with calm.terminal("run", f"{ask}{ask}say on") as terminal:
        terminal.expect("? = help]: ")
        terminal.type("1")  # not sent: it must not answer the next question
        calm.run("permissions", "answer", calm.wait_question()["id"], "--deny")
        terminal.expect("answered elsewhere: denied by operator")
        terminal.expect("? = help]: ")
        terminal.type("\x04")
        terminal.expect("the question waits in the inbox")
        assert not trace.exists()
        assert calm.run("permissions", "answer", calm.wait_question()["id"], "--allow").code == 0
        assert terminal.wait() == 0
    assert trace.read_text(encoding="utf-8") == "executed\n"


def test_an_option_of_unknown_kind_is_flagged_and_must_be_confirmed(
    calm: Home, tmp_path: Path
) -> None:
    trace = tmp_path / "trace"
    script = f'ask execute "rm x" odd:strange reject_once do {trace}\nsay on'
    with calm.terminal("run", script) as terminal:
        assert "! unknown kind" in terminal.expect("? = help]: ")
        terminal.type("1\n")
        terminal.expect("to confirm, type the option's id (odd): ")
        terminal.type("y\n")
        terminal.expect("not confirmed")
        terminal.expect("? = help]: ")
        terminal.type("1\n")
        terminal.expect("(odd): ")
        terminal.type("odd\n")
        assert terminal.wait() == 0
    assert trace.exists()


# ---- Ctrl-C, cancel, kill ----


def test_ctrl_c_cancels_and_the_second_one_leaves_at_once(home: Home) -> None:
    with home.terminal("run", "say on\nhang") as terminal:
        terminal.expect("on")
        terminal.type("\x03")
        assert terminal.wait() == 130
    with home.terminal("run", "say on\nignore-cancel 50") as terminal:
        terminal.expect("still here")
        terminal.type("\x03")
        terminal.expect("cancelling")
        # From now on nobody ends the turn: who waited for its end would stay.
        os.kill(home.daemon_pid(), signal.SIGSTOP)
        terminal.type("\x03")
        assert terminal.wait() == 130
        os.kill(home.daemon_pid(), signal.SIGCONT)


def test_ctrl_c_behind_somebody_elses_turn_leaves_that_alone(home: Home) -> None:
    key = key_of(home, "say on\nhang")
    with home.terminal("run", "--session", key, "say two") as terminal:
        terminal.expect(f"session: {key}")
        deadline = time.monotonic() + 5
        while not home.session()["queueDepth"] and time.monotonic() < deadline:
            time.sleep(0.05)
        terminal.type("\x03")
        assert terminal.wait() == 130
    row = home.session()
    assert (row["state"], row["turn"]["state"], row["queueDepth"]) == ("running", "running", 0)


def test_a_turn_that_is_cancelled_from_elsewhere_ends_with_130(calm: Home) -> None:
    with calm.running("run", "--format", "json", "say on\nhang") as run:
        assert run.stdout is not None
        while b'"update"' not in run.stdout.readline():
            pass
        receipt = calm.run("cancel", "--last", "--json").json
        assert (receipt["rung"], receipt["turnEnded"]) == ("cancel", True)
        assert run.wait(LIMIT) == 130


def test_cancel_goes_down_the_ladder_as_far_as_it_must(home: Home) -> None:
    deaf = key_of(home, "say on\nignore-cancel 50")
    receipt = home.run("cancel", deaf, "--grace", "0.3", "--json")
    assert receipt.code == 0
    assert receipt.json["turnEnded"] is True
    assert receipt.json["rung"] in ("close", "kill")
    idle = home.run("cancel", deaf, "--json")
    assert (idle.code, idle.json["rung"]) == (0, "none")
    assert home.run("cancel", "--last").code == 4


def test_kill_ends_a_whole_evil_tree_and_names_it(home: Home) -> None:
    key = key_of(home, "children setsid env-i double-forked term-ignoring\nhang")
    shown = home.run("status", key).out
    assert "acpb-shim" in shown
    assert "running" in shown
    pids = {process["pid"] for process in home.session()["processes"]}
    assert len(pids) >= 6
    done = home.run("kill", key.rpartition(":")[2], "--now", "--json")
    (result,) = done.json["results"]
    assert (done.code, done.json["ok"], result["key"]) == (0, True, key)
    assert set(result["killed"]) >= pids
    assert result["survivors"] == []
    assert [pid for pid in pids if alive(pid)] == []
    closed = home.run("status", key, "--json").json["sessions"][0]
    assert (closed["state"], closed["closeReason"]) == ("closed", "killed")
    assert home.run("run", "--session", key, "say on").code == 1


def test_kill_all_kill_by_agent_and_kill_with_nothing_to_kill(home: Home) -> None:
    home.configure(fake=(), other=())
    one, two = key_of(home, "say on\nhang"), key_of(home, "--agent", "other", "say on\nhang")
    killed = home.run("kill", "--agent", "other", "--now", "--json").json["results"]
    assert [result["key"] for result in killed] == [two]
    killed = home.run("kill", "--all", "--now", "--json").json["results"]
    assert [result["key"] for result in killed] == [one]
    assert home.run("kill", "--all", "--json").json == {"ok": True, "results": []}
    assert home.run("kill", "--agent", "nobody").code == 4
    assert home.run("kill", "nothing").code == 4
    assert home.run("kill").code == 2


# ---- the daemon ----


def test_without_a_daemon_the_quick_commands_start_none(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        done = home.run("status", "--json")
        assert (done.code, done.json["daemon"], done.json["sessions"]) == (8, None, [])
        fields = {"daemon", "sessions", "unowned", "pendingPermissions", "policy", "warnings"}
        fields |= {"observedAt"}
        assert set(done.json) == fields
        assert home.run("status").out == "no daemon runs\n"
        assert home.run("kill", "--all").code == 8
        assert home.run("kill", "some").code == 8
        assert home.run("cancel", "some").code == 8
        assert home.run("daemon", "stop").code == 0
        assert home.run("daemon", "status").out == "no daemon runs\n"
        assert not (home.path / "daemon.lock").exists()


def test_one_daemon_runs_and_start_is_idempotent(home: Home) -> None:
    assert home.run("daemon", "start").code == 0
    pid = home.daemon_pid()
    again = home.run("daemon", "start")
    assert (again.code, f"pid {pid}" in again.out) == (0, True)
    second = home.run("daemon", "run")
    assert second.code == 1
    assert "error (daemon_running)" in second.err
    assert f"pid {pid}" in second.err
    assert home.status()["daemon"]["pid"] == pid
    assert home.run("daemon", "stop").code == 0
    assert not alive(pid)


def test_a_frozen_daemon_is_told_in_time_and_killed_past(home: Home) -> None:
    key = key_of(home, "children setsid env-i\nhang")
    processes = home.session()["processes"]
    pids = [process["pid"] for process in processes]
    frozen = home.daemon_pid()
    # The journal names the session by now: it was written before the agent could say a word.
    os.kill(frozen, signal.SIGSTOP)
    commands = (["status"], ["kill", "nothing"], ["daemon", "stop"], ["sessions"])
    with ExitStack() as stack:
        for process in [stack.enter_context(home.running(*command)) for command in commands]:
            _, err = process.communicate(timeout=LIMIT)
            assert process.returncode == 8
            assert b"error (daemon_frozen)" in err
            assert b"(5 s)" in err
    killed = home.run("kill", key[-8:], "--json", limit=20)
    (result,) = killed.json["results"]
    assert (killed.code, result["survivors"]) == (0, [])
    # Of the children one may have been on its way to another, and gone by itself.
    assert set(result["killed"]) >= {p["pid"] for p in processes if p["role"] != "child"}
    assert [pid for pid in pids if alive(pid)] == []
    forced = home.run("daemon", "stop", "--force", limit=30)
    assert (forced.code, alive(frozen)) == (0, False)
    assert home.run("status").out == "no daemon runs\n"


def test_stop_by_force_takes_the_trees_of_a_frozen_daemon_with_it(home: Home) -> None:
    key_of(home, "children setsid env-i\nhang")
    pids = [process["pid"] for process in home.session()["processes"]]
    os.kill(home.daemon_pid(), signal.SIGSTOP)
    assert home.run("daemon", "stop", "--force").code == 0
    assert [pid for pid in pids if alive(pid)] == []


# ---- everything else ----


def test_a_closed_pipe_ends_quietly_and_a_full_disk_with_an_error(home: Home) -> None:
    with home.running("run", "stream 20000 100") as run:
        assert run.stdout is not None
        assert run.stderr is not None
        run.stdout.read(100)
        run.stdout.close()
        assert run.wait(LIMIT) in (0, 1)
        err = run.stderr.read()
        assert b"Traceback" not in err
        assert b"BrokenPipe" not in err
    for command in (["status"], ["sessions", "--all"], ["permissions"], ["--help"]):
        read, write = os.pipe()
        os.close(read)
        try:
            done = subprocess.run(
                home.argv(*command),
                stdin=subprocess.DEVNULL,
                stdout=write,
                stderr=subprocess.PIPE,
                timeout=LIMIT,
                env=home.env,
                check=False,
            )
        finally:
            os.close(write)
        assert done.returncode in (0, 1)
        assert b"BrokenPipe" not in done.stderr
    with Path("/dev/full").open("wb") as full:
        argv = home.argv("run", "say on")
        done = subprocess.run(
            argv, stdout=full, stderr=subprocess.PIPE, timeout=LIMIT, env=home.env, check=False
        )
    assert done.returncode == 1
    assert b"error (store_full)" in done.stderr


def test_a_slow_reader_can_still_press_ctrl_c(home: Home) -> None:
    with home.running("run", "stream 5000 200\nhang") as run:
        assert run.stdout is not None
        run.stdout.read(100)  # and then no more: the pipe fills up
        deadline = time.monotonic() + 5
        while home.session()["state"] != "running" and time.monotonic() < deadline:
            time.sleep(0.05)
        time.sleep(0.3)
        run.send_signal(signal.SIGINT)
        run.stdout.read()
        assert run.wait(LIMIT) == 130


@pytest.mark.parametrize("name", QUICK)
def test_a_quick_command_imports_nothing_that_is_slow(tmp_path: Path, name: str) -> None:
    code = (
        "import sys\n"
        "from acpbridge.cli.root import main\n"
        "try:\n"
        "    main(sys.argv[1:])\n"
        "except SystemExit:\n"
        "    pass\n"
        f"print([name for name in {SLOW!r} if name in sys.modules])\n"
    )
    args = [name, "--help"] if name == "sessions" else [name, *([] if name == "status" else ["k"])]
    done = subprocess.run(
        [sys.executable, "-c", code, "--home", str(tmp_path), *args],
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        encoding="utf-8",
    )
    assert done.stdout.splitlines()[-1] == "[]", done


def test_every_command_has_help_and_the_version_is_told(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        assert __version__ in home.run("--version").out
        listed = home.run("--help").out
        for name in (*QUICK, "run", "attach", "permissions", "daemon", "serve"):
            assert name in listed
            shown = home.run(name, "--help")
            assert (shown.code, shown.err) == (0, "")
        assert "Examples:" in home.run("run", "--help").out
        wrong = home.run("no-such-command")
        assert (wrong.code, wrong.err.startswith("error (usage): ")) == (2, True)


def test_a_python_agent_is_served_on_stdio(home: Home) -> None:
    (home.path / "greeter.py").write_text(
        "print('not on the wire')\nasync def greet(turn):\n    return 'hello'\n", encoding="utf-8"
    )
    home.env["PYTHONPATH"] = os.pathsep.join(
        [str(home.path), *filter(None, [os.environ.get("PYTHONPATH")])]
    )
    served = subprocess.Popen(
        home.argv("serve", "greeter:greet"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=home.env,
    )
    with served:
        assert served.stdin is not None
        assert served.stdout is not None
        served.stdin.write(
            b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'
        )
        served.stdin.flush()
        assert b'"protocolVersion": 1' in served.stdout.readline()
        served.stdin.close()
        assert served.wait(LIMIT) == 0
    missing = home.run("serve", "greeter:nobody")
    assert (missing.code, "error (usage)" in missing.err) == (2, True)


def test_row_20_a_question_that_nobody_answers_is_denied_at_its_deadline(
    home: Home, tmp_path: Path
) -> None:
    home.configure({"permissionSeconds": 0.5}, fake=())
    did = tmp_path / "did"
    done = home.run("run", f"ask execute x do {did}", "--agent", "fake", "--format", "json")
    (decided,) = [e for e in done.events if e["type"] == "permission_decided"]
    # The turn goes on and ends normally: a denial is an answer like any other.
    assert (done.code, decided["effect"], decided["reason"]) == (0, "deny", "timed_out")
    assert decided["optionId"] == "reject_once"
    assert not did.exists()


def test_rows_01_02_and_03_a_rule_allows_only_the_one_allow_once_that_is_offered(
    home: Home, tmp_path: Path
) -> None:
    home.configure({"permissionSeconds": 0.5}, fake=())
    cases = {
        "one": ("allow_once", "allow_always", "reject_once"),
        "none": ("allow_always", "reject_once"),
        "two": ("a:allow_once", "b:allow_once", "reject_once"),
        "odd": ("allow_sometimes", "reject_once"),
    }
    for name, options in cases.items():
        prompt = f"ask execute x {' '.join(options)} do {tmp_path / name}"
        done = home.run("run", prompt, "--agent", "fake", "--on-permission", "allow")
        assert done.code == 0, done
    # What ran is what counts: the others went to a person, who was not there.
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_file()) == ["one"]


def test_on_permission_deny_denies_without_a_question(calm: Home, tmp_path: Path) -> None:
    did = tmp_path / "did"
    words = ("--agent", "fake", "--on-permission", "deny", "--format", "json")
    done = calm.run("run", f"ask execute x do {did}", *words)
    kinds = [event["type"] for event in done.events]
    assert (done.code, "permission_asked" in kinds) == (0, False)
    assert not did.exists()


def test_rows_04_and_27_a_doubtful_choice_must_be_said_twice_from_the_inbox_too(
    home: Home, tmp_path: Path
) -> None:
    cases = (
        ("ask execute x odd:strange reject_once", ("--option", "odd"), "odd"),
        ("ask execute x acceptEdits:allow_once reject_once", ("--option", "acceptEdits"), "accept"),
        ("ask switch_mode x allow_once reject_once", ("--allow",), "allow_once"),
    )
    for number, (prompt, choice, name) in enumerate(cases):
        did = tmp_path / str(number)
        with home.running("run", f"{prompt} do {did}", "--agent", "fake") as run:
            question = home.wait_question()["id"]
            once = home.run("permissions", "answer", question, *choice)
            assert (once.code, "--confirm" in once.err) == (1, True), once
            assert not did.exists()
            assert home.wait_question()["id"] == question
            full = next(word for word in once.err.split() if word.startswith(name))
            twice = home.run("permissions", "answer", question, *choice, "--confirm", full)
            assert twice.code == 0, twice
            run.communicate(timeout=LIMIT)
        assert did.exists()


def test_row_12_a_line_that_is_too_long_fails_the_turn_and_keeps_what_came_before(
    home: Home,
) -> None:
    home.configure({"maxMessageBytes": 65536}, fake=())
    done = home.run("run", "say before\nbig 100000\nsay after", "--agent", "fake")
    assert done.code == 1
    assert "before" in done.out
    assert "after" in done.out
    assert "error (message_too_large): " in done.err
    assert "65536 bytes" in done.err


def test_a_run_that_waits_for_a_place_says_so(home: Home) -> None:
    home.configure({"maxProcesses": 1}, fake=())
    first = home.run("run", "hang", "--agent", "fake", "--detach").out.strip()
    with home.running("run", "say there", "--agent", "fake") as second:
        assert second.stderr is not None
        while b"waiting for a place; running now: 1" not in (line := second.stderr.readline()):
            assert line
        assert home.run("kill", first).code == 0
        out, _ = second.communicate(timeout=LIMIT)
    assert (second.returncode, out.strip()) == (0, b"there")


def test_a_part_of_a_key_means_the_session_that_runs(home: Home) -> None:
    assert home.run("run", "say done", "--agent", "fake").code == 0
    live = home.run("run", "hang", "--agent", "fake", "--detach").out.strip()
    killed = home.run("kill", "agent:fake", "--json")
    assert (killed.code, [r["key"] for r in killed.json["results"]]) == (0, [live])
