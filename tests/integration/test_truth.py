"""Status, kill and outcomes say what is true: of an agent that is silent, gone or stubborn."""

import json
import os
import signal
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from tests.integration.daemon_home import LIMIT, PAUSE, Home, alive, daemon_home, until, wait_gone
from tests.integration.traffic import Client, client, ended, log_option, start

PLACES = 2
TTL = 1  # seconds that a session may be idle; three of them stand for "long" below


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("truth")) as made:
        made.configure(
            {"maxProcesses": PLACES, "startSeconds": 5, "idleTtlSeconds": TTL},
            fake=log_option(made),
            strange=("--protocol-version", "9"),
            stillborn=("--die-at-start", "3"),
            homeless=("--auth-required", "new"),
            stubborn=("--ignore-term", "--ignore-eof", "--children", "term-ignoring", "setsid"),
        )
        # The children of stubborn ones carry the mark of this home, too.
        assert made.run("daemon", "start").code == 0
        yield made


def look_at(daemon: Client, key: str, true: Any) -> Any:
    """Return the session's row, once it fulfils a condition."""
    deadline = time.monotonic() + LIMIT
    while True:
        (row,) = daemon.call("status", key=key)["sessions"]
        if true(row):
            return row
        assert time.monotonic() < deadline, row
        time.sleep(PAUSE)


def wait_for_nothing_to_run(daemon: Client) -> None:
    """Wait for the processes of runs that are over: a turn ends a moment before its process."""
    until(lambda: not daemon.call("status")["sessions"])


def silence(turn: dict[str, Any]) -> float:
    """Return for how long nothing was heard in a turn, in seconds."""
    heard = datetime.fromisoformat(turn["lastUpdateAt"] or turn["startedAt"])
    return (datetime.now(UTC) - heard).total_seconds()


def test_case_114_an_agent_that_is_alive_but_deaf_is_shown_as_such(home: Home) -> None:
    with client(home) as daemon:
        key = start(daemon, "say on\nhang")["key"]
        again = look_at(daemon, key, lambda r: r["turn"] and silence(r["turn"]) > TTL)
        assert (again["state"], again["turn"]["state"]) == ("running", "running")
        assert again["turn"]["waitsFor"] == "model"
        assert any(process["role"] == "agent" for process in again["processes"])
        daemon.call("kill", keys=[key], grace=0)


def test_an_agent_that_a_signal_has_stopped_gets_a_warning_until_it_goes_on(home: Home) -> None:
    """Without `view.stopped` its turn "runs" for ever, and nothing says why nothing comes."""
    with client(home) as daemon:
        key = start(daemon, "say on\nhang")["key"]
        row = look_at(daemon, key, lambda r: r["agentSessionId"] and r["processes"])
        (pid,) = (p["pid"] for p in row["processes"] if p["role"] == "agent")

        def told() -> list[str]:
            return [w for w in daemon.call("status")["warnings"] if f"kill -CONT {pid}" in w]

        assert told() == []
        os.kill(pid, signal.SIGSTOP)
        until(told)
        os.kill(pid, signal.SIGCONT)
        until(lambda: not told())
        daemon.call("kill", keys=[key], grace=0)
    wait_gone([pid])


def test_case_116_a_place_is_free_after_every_kind_of_end(home: Home) -> None:
    rounds = [
        ("fake", "say on", "completed"),
        ("fake", "crash 1", "failed"),
        ("stillborn", "say never", "failed"),
        ("strange", "say never", "failed"),
        ("homeless", "say never", "failed"),
        ("fake", "error -32603 no", "failed"),
    ]
    with client(home) as daemon:
        for number in range(10):
            for agent, words, outcome in rounds:
                got = ended(daemon, words, agent=agent)
                assert (number, agent, words, got["outcome"]) == (number, agent, words, outcome)
            killed = [start(daemon, "hang")["key"] for _ in range(PLACES)]
            receipts = daemon.call("kill", limit=30, keys=killed, grace=0)
            assert receipts["ok"]
            wait_for_nothing_to_run(daemon)
        both = [start(daemon, "say up\nhang")["key"] for _ in range(PLACES)]
        for key in both:
            look_at(daemon, key, lambda r: r["turn"] and r["turn"]["lastUpdateAt"])
        daemon.call("kill", keys=both, grace=0)


def test_case_117_a_kill_returns_when_nothing_is_left(home: Home) -> None:
    with client(home) as daemon:
        key = start(daemon, "pids\nhang", agent="stubborn")["key"]
        row = look_at(daemon, key, lambda r: len(r["processes"]) >= 4 and r["turn"]["lastUpdateAt"])
        pids = [process["pid"] for process in row["processes"] if process["role"] != "keeper"]
    done = home.run("kill", key, "--grace", "0.5", "--json", limit=30)
    left = [pid for pid in pids if alive(pid)]  # the moment it has returned
    assert left == []
    assert done.code == 0
    (result,) = done.json["results"]
    assert result["survivors"] == []
    agents = {process["pid"] for process in row["processes"] if process["role"] in AGENTS}
    assert set(result["killed"]) >= agents
    assert key not in [row["key"] for row in home.status()["sessions"]]


AGENTS = ("agent", "child")

ENDS = {
    "end_turn": ("completed", "end_turn", 0),
    "max_tokens": ("failed", "max_tokens", 1),
    "max_turn_requests": ("failed", "max_turn_requests", 1),
    "refusal": ("failed", "refusal", 1),
    "cancelled": ("cancelled", "cancelled", 130),
    "frobnicate": ("failed", "frobnicate", 1),
    "missing": ("failed", None, 1),
    "null": ("failed", None, 1),
    "5": ("failed", None, 1),
    '""': ("failed", None, 1),
}


@pytest.mark.parametrize("reason", ENDS)
def test_case_121_only_end_turn_counts_as_completed(home: Home, reason: str) -> None:
    outcome, told, code = ENDS[reason]
    with client(home) as daemon:
        result = ended(daemon, f"say on\nstop {reason}")
        assert (result["outcome"], result["stopReason"]) == (outcome, told)
        if told is None:
            assert result["error"]["code"] == "turn_failed"
    done = home.run("run", "--format", "json", f"say on\nstop {reason}")
    assert done.code == code
    last = done.events[-1]
    assert last["type"] == ("turn_failed" if told is None else "turn_ended")
    assert last.get("stopReason") == told


CALL = {"toolCallId": "t", "title": "build", "kind": "execute", "status": "in_progress"}


def test_case_123_a_long_silent_tool_call_is_no_hang(home: Home) -> None:
    begun = json.dumps({"sessionUpdate": "tool_call", **CALL})
    over = {"sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed"}
    words = f"update {begun}\nsleep {TTL * 3000}\nupdate {json.dumps(over)}\nsay built"
    with client(home) as daemon:
        run = start(daemon, words, mode="session")
        row = look_at(daemon, run["key"], lambda r: r["turn"] and r["turn"]["waitsFor"] == "tool")
        assert row["turn"]["state"] == "running"
        assert daemon.call("wait", runId=run["runId"], limit=30)["stopReason"] == "end_turn"


def test_case_123_a_question_that_is_open_for_long_is_no_hang(home: Home) -> None:
    with client(home) as daemon:
        run = start(daemon, "ask\nsay on", mode="session")
        row = look_at(daemon, run["key"], lambda r: r["pendingPermissions"])
        time.sleep(TTL * 3)  # nobody answers
        again = look_at(daemon, run["key"], lambda r: True)
        assert (again["turn"]["state"], again["turn"]["waitsFor"]) == ("waiting", "permission")
        assert again["opens"] == row["opens"]
        daemon.call("answer", id=row["questions"][0]["id"], effect="allow")
        assert daemon.call("wait", runId=run["runId"])["stopReason"] == "end_turn"
    assert wait_gone([p["pid"] for p in again["processes"] if p["role"] in AGENTS]) == []
