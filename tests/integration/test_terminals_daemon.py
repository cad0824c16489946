"""Commands run for an agent, in a whole daemon: who decides, what is kept, and what is left."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from acpbridge.controller.journal import Entry, Tree
from acpbridge.daemon import frozen
from acpbridge.transport.helpers import kernel
from tests.integration import evil
from tests.integration.daemon_home import Home, alive, daemon_home, until, wait_gone
from tests.integration.terminal_talk import PYTHON, calls, creates

# Said by a command, and given to one: neither is for any file of ours.
CANARY = "s3cr3t-canary-of-a-terminal-0451"


def configure(home: Home, **limits: int) -> None:
    command = home.agent()
    agent = {
        "id": "fake",
        "runtime": {"command": command},
        "clientCapabilities": {"terminal": True},
    }
    value = {"agents": {"list": [agent]}, "limits": limits}
    (home.path / "config.yaml").write_text(json.dumps(value), encoding="utf-8")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """One daemon for the tests that leave it as they found it."""
    with daemon_home(tmp_path_factory.mktemp("shared")) as home:
        configure(home)
        yield home


def answers(home: Home, key: str) -> str:
    """Return all that the agent has said in a session."""
    events = home.run("logs", key, "--json").events
    chunks = [event["update"] for event in events if event["type"] == "update"]
    return "".join(c["content"]["text"] for c in chunks if "message_chunk" in c["sessionUpdate"])


def audit(home: Home) -> list[Any]:
    lines = (home.path / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


def detached(home: Home, *lines: str, rule: str = "ask") -> str:
    words = "\n".join(lines)
    done = home.run("run", words, "--agent", "fake", "--detach", "--on-permission", rule)
    assert done.code == 0, done
    return done.out.strip()


def terminals(home: Home, key: str) -> list[int]:
    """Return the pids below the shims of a session's terminals, as `status` has them."""
    rows = [row for row in home.row(key)["processes"] if row["state"] != "zombie"]
    tops = {row["ppid"] for row in rows if row["role"] == "terminal"}
    found = [row["pid"] for row in rows if row["ppid"] in tops]
    for pid in found:
        found += [row["pid"] for row in rows if row["ppid"] == pid]
    return found


def evil_session(home: Home, *kinds: str) -> tuple[str, list[int]]:
    """Have an agent run a command whose children hide; return the key and everybody's pids."""
    argv = (sys.executable, evil.__file__, home.mark, *kinds)
    key = detached(home, creates(*argv), calls("wait_for_exit"), rule="allow")
    until(lambda: home.serves() and len(terminals(home, key)) >= len(kinds) + 1)
    return key, terminals(home, key)


def test_case_60_a_person_sees_and_decides_what_runs_and_no_secret_is_kept(home: Home) -> None:
    """Case 60, G20 and G26: asked, audited before it runs, and nothing of its output is stored."""
    ran = home.path / "ran"
    code = "import os, sys; open(sys.argv[1], 'a').write('ran\\n'); print(os.environ['API_TOKEN'])"
    argv = (*PYTHON, "-c", code, str(ran))
    create = creates(*argv, env=[{"name": "API_TOKEN", "value": CANARY}])
    # Spelt otherwise in the prompt, which is stored as well.
    create = create.replace(CANARY, "".join(f"\\u{ord(letter):04x}" for letter in CANARY))
    key = detached(home, create, create, calls("wait_for_exit"), "say over")
    question = home.wait_question()
    assert question["subject"]["rawInput"]["args"] == list(argv[1:])
    assert question["subject"]["rawInput"]["env"] == [{"name": "API_TOKEN", "value": CANARY}]
    assert Path(question["subject"]["locations"][0]).name == Path(sys.executable).name
    assert home.row(key)["turn"]["waitsFor"] == "permission"
    assert home.run("permissions", "answer", question["id"], "--deny").code == 0
    second = until(lambda: next_question(home, question["id"]))
    assert not ran.exists()
    assert home.run("permissions", "answer", second["id"], "--allow").code == 0
    until(
        lambda: home.row(key)["turn"] is None if home.ask("status", key=key)["sessions"] else True
    )
    assert ran.read_text(encoding="utf-8") == "ran\n"
    said = answers(home, key)
    assert "permission_denied" in said
    assert "over" in said
    decided = [row for row in audit(home) if row["kind"] == "permission_decided"]
    assert [row["decision"] for row in decided] == ["deny", "allow"]
    assert [row["argv"] for row in decided] == [list(argv), list(argv)]
    assert {row["tool_kind"] for row in decided} == {"execute"}
    events = home.run("logs", key, "--json").events
    kinds = [event["kind"] for event in events if event["type"] == "notice"]
    assert kinds == ["terminal_started", "terminal_ended"]
    assert [path for path, data in home.files().items() if CANARY.encode() in data] == []


def next_question(home: Home, before: str) -> Any:
    found = home.ask("questions")["permissions"]
    return next((question for question in found if question["id"] != before), None)


def test_row_1_a_rule_may_allow_a_command_by_its_words_but_none_with_variables(
    tmp_path: Path,
) -> None:
    rule = {"effect": "allow", "tool_kind": ["execute"], "argv": ["touch", "..."]}
    with daemon_home(tmp_path) as home:
        configure(home)
        policy = home.path / "policy.yaml"
        policy.touch(0o600)
        policy.write_text(json.dumps({"rules": [rule]}), encoding="utf-8")
        # Not in a directory of our own: no rule allows a command to name one.
        ruled, asked = tmp_path / "ruled", tmp_path / "asked"
        variables = [{"name": "PATH", "value": os.defpath}]
        lines = (creates("touch", str(ruled)), creates("touch", str(asked), env=variables))
        key = detached(home, lines[0], calls("wait_for_exit"), lines[1], "say over")
        question = home.wait_question()
        assert ruled.exists()
        assert question["subject"]["rawInput"]["args"] == [str(asked)]
        home.run("permissions", "answer", question["id"], "--deny")
        until(lambda: "over" in answers(home, key))
        assert not asked.exists()
        rules = [row["rule_id"] for row in audit(home) if row["kind"] == "permission_decided"]
        assert rules[0] == "policy:1"


def test_row_20_a_command_that_nobody_answers_for_does_not_run(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        configure(home, permissionSeconds=1)
        ran = home.path / "ran"
        done = home.run("run", creates("touch", str(ran)), "--agent", "fake", "--format", "quiet")
        assert "nobody answered in time" in done.out
        assert not ran.exists()


def test_row_24_a_command_answers_no_question(home: Home) -> None:
    other = detached(home, f"ask execute x do {home.path}/did")
    question = home.wait_question()
    bridge = f"{sys.executable} -m acpbridge --home {home.path}"
    answer = f"{bridge} permissions answer {question['id']} --allow"
    ways = f"{answer}; env -u ACPBRIDGE_MARK {answer}; setsid {answer}; env -i PATH=$PATH {answer}"
    done = home.run(
        "run",
        "\n".join((creates("sh", "-c", ways), calls("wait_for_exit"), calls("output"))),
        "--agent",
        "fake",
        "--on-permission",
        "allow",
        "--format",
        "quiet",
    )
    assert done.out.count("(permission_denied)") == 4, done
    assert home.wait_question()["id"] == question["id"]
    assert not (home.path / "did").exists()
    home.run("kill", other)


def test_g1_g2_kill_ends_the_terminals_of_a_session_and_names_them(home: Home) -> None:
    key, pids = evil_session(home, "double", "bare", "deaf", "stopped")
    done = home.run("kill", key, "--now", "--json")
    assert done.code == 0, done
    (receipt,) = done.json["results"]
    assert set(pids) <= set(receipt["killed"])
    assert receipt["survivors"] == []
    assert [pid for pid in pids if alive(pid)] == []


def test_g3_a_daemon_that_is_killed_leaves_nothing_of_a_terminal(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        configure(home)
        _, pids = evil_session(home, "double", "bare", "deaf", "stopped")
        os.kill(home.daemon_pid(), signal.SIGKILL)
        assert wait_gone(pids) == []


# Does what a shim is asked to, as far as it is looked at here.
SHIM = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: os._exit(7))
os.write(1, b"up")
while True: signal.pause()
"""


def test_g1_each_shim_of_a_session_is_told_to_end_past_a_frozen_daemon() -> None:
    with ExitStack() as stack:
        shims, entries = [], []
        for _ in range(3):
            shim = subprocess.Popen([*PYTHON, "-c", SHIM], stdout=subprocess.PIPE)
            stack.enter_context(shim)
            stack.callback(shim.kill)
            assert shim.stdout
            assert shim.stdout.read(2) == b"up"
            row = kernel.read_process(shim.pid)
            assert row
            shims.append(shim)
            entries.append(Entry(row.pid, row.start_ticks))
        own, *beside = entries
        (receipt,) = frozen.end_trees({"x": Tree(own, own, beside=tuple(beside))})
        assert receipt["survivors"] == []
        assert set(receipt["killed"]) == {entry.pid for entry in entries}
        # Each has ended as it does when it is told to; nobody had to be killed.
        assert [shim.wait() for shim in shims] == [7, 7, 7]


def test_g1_a_kill_past_a_frozen_daemon_ends_the_terminals_too(home: Home) -> None:
    key, pids = evil_session(home, "double", "bare", "deaf")
    until(lambda: journalled(home, key) >= set(pids))
    os.kill(home.daemon_pid(), signal.SIGSTOP)
    try:
        done = home.run("kill", key, "--json")
        (receipt,) = done.json["results"]
        assert set(pids) <= set(receipt["killed"])
        assert [pid for pid in pids if alive(pid)] == []
    finally:
        os.kill(home.daemon_pid(), signal.SIGCONT)


def journalled(home: Home, key: str) -> set[int]:
    value = json.loads((home.path / "processes.json").read_text(encoding="utf-8"))
    tree = value["sessions"].get(key, {"members": []})
    return {member["pid"] for member in tree["members"]}


def test_a_cancel_ends_the_commands_of_its_turn_and_nothing_is_left_running(home: Home) -> None:
    key = detached(
        home,
        creates("sh", "-c", "sleep 3600 & exec sleep 3600"),
        calls("wait_for_exit"),
        rule="allow",
    )
    until(lambda: len(terminals(home, key)) == 2)
    pids = terminals(home, key)
    assert home.row(key)["turn"]["waitsFor"] == "tool"
    done = home.run("cancel", key, "--json")
    assert done.code == 0, done
    assert wait_gone(pids) == []
    home.run("kill", key)


def test_the_processes_of_terminals_count_for_the_sessions_limit(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        configure(home, maxProcessesPerSession=4)
        many = creates("sh", "-c", "for i in 1 2 3 4 5; do sleep 3600 & done; wait")
        done = home.run(
            "run",
            f"{many}\n{calls('wait_for_exit')}",
            "--agent",
            "fake",
            "--on-permission",
            "allow",
        )
        assert "over_limit" in done.err
