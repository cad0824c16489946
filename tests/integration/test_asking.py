"""A person answers, watches and attaches: real terminals, a real daemon, a real agent."""

import json
import os
import signal
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.integration.agents import received
from tests.integration.daemon_home import (
    LIMIT,
    Home,
    Terminal,
    daemon_home,
    until,
    wait_gone,
)

PROMPT = "? = help]: "
TYPE = "/help lists what else can be done"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with daemon_home(tmp_path) as made:
        # Whoever can load a session goes on with it after its process has ended.
        made.configure(fake=("--memory", str(tmp_path / "memory")))
        made.env["TERM"] = "xterm-256color"
        yield made


@pytest.fixture(params=["dumb", "xterm-256color"])
def any_home(home: Home, request: pytest.FixtureRequest) -> Home:
    """Give it once for terminals that can be drawn on, and once for others."""
    home.env["TERM"] = request.param
    return home


def detach(home: Home, script: str, *options: str) -> str:
    """Start a run that nobody waits for; return its key."""
    done = home.run("run", "--detach", *options, script)
    assert done.code == 0, done
    return done.out.strip()


def row(home: Home, key: str) -> dict[str, Any]:
    found: dict[str, Any] = home.row(key)
    return found


def decisions(home: Home) -> list[dict[str, Any]]:
    """Return what the audit has of decisions."""
    lines = (home.path / "audit.jsonl").read_text(encoding="utf-8").splitlines()
    return [entry for entry in map(json.loads, lines) if entry["kind"] == "permission_decided"]


# ---- answering ----


def test_a_denial_takes_its_reason_to_the_audit_and_to_the_event(
    any_home: Home, tmp_path: Path
) -> None:
    home = any_home
    trace = tmp_path / "trace"
    with home.terminal("run", f'ask execute "rm x" do {trace}\nsay on') as terminal:
        shown = terminal.expect(PROMPT)
        assert "\a" in shown
        assert "command  rm x" in shown
        assert shown.rindex("3) Reject once") > shown.index("command  rm x")
        assert "expires  in " in shown
        terminal.type("?\r")
        terminal.expect("deny, and say why")
        terminal.type("d not on a Friday\r")
        terminal.expect("not on a Friday")
        assert terminal.wait() == 0
    assert not trace.exists()
    (decision,) = decisions(home)
    assert (decision["decision"], decision["note"]) == ("deny", "not on a Friday")
    with home.running("attach", "--last", "--json") as attached:
        assert attached.stdout is not None
        while (event := json.loads(attached.stdout.readline()))["type"] != "permission_decided":
            pass
    assert (event["effect"], event["note"]) == ("deny", "not on a Friday")


def test_a_question_that_is_left_for_later_can_be_answered_from_elsewhere(home: Home) -> None:
    with home.terminal("run", 'ask execute "rm x"\nsay on') as terminal:
        terminal.expect(PROMPT)
        terminal.type("s\r")
        terminal.expect("the question waits in the inbox")
        question = home.wait_question()
        listed = home.run("permissions", "list", "--json").json
        assert listed == {"permissions": [question]}
        done = home.run("permissions", "answer", question["id"], "--deny", "--reason", "no")
        assert done.code == 0
        assert terminal.wait() == 0


# ---- permissions --watch ----


def test_a_watch_asks_the_questions_of_other_runs_and_says_what_they_came_to(
    any_home: Home, tmp_path: Path
) -> None:
    home = any_home
    first, second = tmp_path / "first", tmp_path / "second"
    with home.terminal("permissions", "--watch") as watch:
        watch.expect("waiting for questions")
        detach(
            home, f'ask execute "touch first" do {first}\nask execute "touch second" do {second}'
        )
        assert "touch first" in watch.expect(PROMPT)
        watch.type("y\r")
        watch.expect("allowed by operator")
        assert "touch second" in watch.expect(PROMPT)
        name = home.wait_question()["id"]
        answer = home.run("permissions", "answer", name, "--deny", "--reason", "other hand")
        assert answer.code == 0
        watch.expect("answered elsewhere: denied by operator")
        watch.expect("other hand")
        watch.type("\x03")
        assert watch.wait() == 0
    assert first.exists()
    assert not second.exists()


def test_a_watch_without_a_terminal_prints_each_question_and_what_became_of_it(home: Home) -> None:
    with home.running("permissions", "--watch", "--json") as watch:
        assert watch.stdout is not None
        first = json.loads(watch.stdout.readline())
        assert (first["type"], first["ids"]) == ("open_questions", [])
        key = detach(home, 'ask execute "rm x"')
        asked = json.loads(watch.stdout.readline())
        assert (asked["type"], asked["key"]) == ("permission_asked", key)
        assert asked["subject"]["rawInput"] == {"command": "rm x"}
        done = home.run("permissions", "answer", asked["id"], "--deny", "--reason", "no")
        assert done.code == 0
        decided = json.loads(watch.stdout.readline())
        assert (decided["id"], decided["effect"], decided["note"]) == (asked["id"], "deny", "no")
        watch.send_signal(signal.SIGINT)
        assert watch.wait(LIMIT) == 0


def test_a_watch_ends_with_8_when_the_daemon_is_gone(home: Home) -> None:
    with home.running("permissions", "--watch") as watch:
        assert watch.stderr is not None
        assert b"waiting for questions" in watch.stderr.readline()
        assert home.run("daemon", "stop").code == 0
        assert watch.wait(LIMIT) == 8
        assert b"connection_closed" in watch.stderr.read()


# ---- attach ----


def test_an_attach_follows_prompts_cancels_and_leaves_the_turn_running(home: Home) -> None:
    key = detach(home, "say before\nhang", "--mode", "session")
    with home.terminal("attach", key[-8:]) as terminal:
        shown = terminal.expect(TYPE)
        assert "> say before" in shown
        assert "before" in shown
        terminal.type("say after\r")
        terminal.expect("queued behind the running turn")
        until(lambda: row(home, key)["queueDepth"] == 1)
        terminal.type("\x03")
        terminal.expect("cancelling")
        terminal.expect("■ cancelled after")
        until(lambda: row(home, key)["turn"] is None)
        terminal.type("say again\r")
        terminal.expect("say again")
        terminal.expect("again")
        until(lambda: row(home, key)["turn"] is None)
        terminal.type("/detach\r")
        terminal.expect("detached")
        assert terminal.wait() == 0


def test_a_turn_that_was_typed_goes_on_when_its_attach_leaves(home: Home) -> None:
    key = detach(home, "say one", "--mode", "session")
    with home.terminal("attach", "--last") as terminal:
        terminal.expect(TYPE)
        terminal.type("hang\r")
        until(lambda: (row(home, key)["turn"] or {}).get("state") == "running")
        terminal.type("\x04")
        terminal.expect("the turn goes on")
        assert terminal.wait() == 0
    with home.terminal("attach", key) as terminal:
        terminal.expect(TYPE)
        os.kill(terminal.pid, signal.SIGKILL)
    assert row(home, key)["turn"]["state"] == "running"


def test_two_attaches_see_the_same_and_one_takes_the_question_from_the_other(
    any_home: Home,
) -> None:
    home = any_home
    key = detach(home, "say one", "--mode", "session")
    with home.terminal("attach", key) as one, home.terminal("attach", key) as other:
        one.expect(TYPE)
        other.expect(TYPE)
        one.type('ask execute "rm x"\r')
        other.expect('> ask execute "rm x"')
        one.expect(PROMPT)
        other.expect(PROMPT)
        other.type("d no\r")
        one.expect("answered elsewhere: denied by operator")
        one.type("/close\r")
        for terminal in (one, other):
            terminal.expect("the session is closed (closed)")
            assert terminal.wait() == 0


def test_an_attach_to_a_session_of_an_earlier_daemon_goes_on_with_it(home: Home) -> None:
    key = detach(home, "say yesterday", "--mode", "session")
    until(lambda: row(home, key)["state"] == "ready")
    assert home.run("daemon", "stop").code == 0
    with home.terminal("attach", "--last") as terminal:
        shown = terminal.expect(TYPE)
        assert "yesterday" in shown
        terminal.type("say today\r")
        until(lambda: row(home, key)["opens"] == 2 and row(home, key)["turn"] is None)
        terminal.type("\x03")
        terminal.expect("detached")
        assert terminal.wait() == 0
    assert "today" in terminal.seen


def test_an_attach_says_that_a_turn_was_interrupted_by_the_end_of_its_daemon(home: Home) -> None:
    key = detach(home, "say one\nhang", "--mode", "session")
    until(lambda: (row(home, key)["turn"] or {}).get("lastUpdateAt"))
    pids = [process["pid"] for process in row(home, key)["processes"]]
    os.kill(home.daemon_pid(), signal.SIGKILL)
    assert wait_gone(pids, 5) == []
    with home.terminal("attach", key) as terminal:
        terminal.expect("The daemon ended in the middle of this turn.")
        terminal.expect(TYPE)
        terminal.type("\x03")
        terminal.expect("detached; come back")
        assert terminal.wait() == 0


def test_a_pasted_text_is_one_prompt(home: Home) -> None:
    key = detach(home, "say one", "--mode", "session")
    with home.terminal("attach", key) as terminal:
        terminal.expect(TYPE)
        terminal.type("\x1b[200~say two\nsay three\x1b[201~\r")
        until(lambda: "two" in terminal_text(terminal) and "three" in terminal_text(terminal))
        terminal.type("\x04")
        assert terminal.wait() == 0
    assert "queued behind" not in terminal.seen


def terminal_text(terminal: Terminal) -> str:
    """Return what was shown so far, and let it show more."""
    terminal._read(0.05)
    return terminal.seen


def test_an_attach_without_a_terminal_only_follows_until_the_session_is_closed(home: Home) -> None:
    key = detach(home, "say one\nhang", "--mode", "session")
    until(lambda: (row(home, key)["turn"] or {}).get("lastUpdateAt"))
    with home.running("attach", key, "--json") as attached:
        assert attached.stdout is not None
        first = json.loads(attached.stdout.readline())
        assert first["type"] == "turn_started"
        assert home.run("kill", key, "--now").code == 0
        assert attached.wait(LIMIT) == 0
        events = [json.loads(line) for line in attached.stdout.read().splitlines()]
    assert events[-1]["type"] == "session_closed"
    assert events[-1]["reason"] == "killed"
    closed = home.run("attach", key)
    assert (closed.code, "the session is closed (killed)" in closed.err) == (0, True)
    assert home.run("attach", "nothing").code == 4
    assert home.run("attach").code == 2


def test_a_read_only_attach_asks_nothing_and_ends_nothing(home: Home) -> None:
    key = detach(home, 'ask execute "rm x"')
    with home.terminal("attach", key, "--read-only") as terminal:
        terminal.expect("session: ")
        until(lambda: row(home, key)["pendingPermissions"] == 1)
        terminal.type("y\r")
        terminal.type("\x03")
        terminal.expect("detached")
        assert terminal.wait() == 0
    assert PROMPT not in terminal.seen
    assert row(home, key)["pendingPermissions"] == 1


# ---- a reason ----


def prompts(log: Path) -> list[list[str]]:
    """Return the texts of each prompt that the agent was sent."""
    found = [m for m in received(log.parent) if m.get("method") == "session/prompt"]
    return [[block["text"] for block in message["params"]["prompt"]] for message in found]


def is_gone(home: Home, name: str) -> bool:
    return name not in [question["id"] for question in home.ask("questions")["permissions"]]


def test_a_reason_reaches_the_agent_with_the_next_prompt_of_its_session_and_only_once(
    home: Home, tmp_path: Path
) -> None:
    """The turn goes on meanwhile, and is not spoken into."""
    log = tmp_path / "log.jsonl"
    home.configure(fake=("--memory", str(tmp_path / "memory"), "--log", str(log)))
    script = 'ask execute "rm x"\nask execute "rm y"'
    key = detach(home, script, "--mode", "session")
    for reason in ("not on a Friday", "nor this"):
        question = home.wait_question()
        done = home.run("permissions", "answer", question["id"], "--deny", "--reason", reason)
        assert done.code == 0
        assert "the reason goes to the agent with the next prompt" in done.err
        until(partial(is_gone, home, question["id"]))
    until(lambda: row(home, key)["turn"] is None)
    assert home.run("run", "say one", "--session", key).out == "one\n"
    assert home.run("run", "say two", "--session", key).out == "two\n"
    first, second, third = prompts(log)
    assert (first, third) == ([script], ["say two"])
    assert second[0] == "say one"
    assert second[1].startswith("[From acpbridge, not part of the prompt.")
    assert second[1].index("not on a Friday") < second[1].index("nor this")
    assert [decision["note"] for decision in decisions(home)] == ["not on a Friday", "nor this"]
    events = [json.loads(line) for line in home.run("logs", key, "--json").out.splitlines()]
    told = [e for e in events if e["type"] == "notice" and e["kind"] == "reasons_told"]
    assert [e["message"] for e in told] == [
        "with this prompt the agent is told why 2 questions were denied"
    ]
    assert [e["told"] for e in events if e["type"] == "permission_decided"] == [True, True]
    assert home.run("close", key).code == 0


def test_a_reason_is_not_told_of_a_question_that_a_kill_has_cancelled(
    home: Home, tmp_path: Path
) -> None:
    key = detach(home, 'ask execute "rm x"', "--mode", "session")
    question = home.wait_question()
    assert home.run("kill", key).code == 0
    late = home.run("permissions", "answer", question["id"], "--deny", "--reason", "late")
    assert late.code == 4
    events = [json.loads(line) for line in home.run("logs", key, "--json").out.splitlines()]
    (decided,) = [e for e in events if e["type"] == "permission_decided"]
    assert (decided["effect"], "told" in decided) == ("cancel", False)
