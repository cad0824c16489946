"""Completions with real processes: a daemon that is killed tells of nothing twice, and of all."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acpbridge.daemon import quick
from acpbridge.daemon.paths import find
from tests.integration.daemon_home import Home, daemon_home, until, wait_gone

# Asks as a program that a session's agent has started: who it is, the daemon finds.
ASK = """
import json, sys
from acpbridge.daemon.paths import find
from acpbridge.daemon.quick import connect
home, method, params = sys.argv[1:]
with connect(find(home, {})) as client:
    print(json.dumps(client.call(method, limit=60, **json.loads(params))))
"""

REPORT = "What follows is a report of acpbridge"


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with daemon_home(tmp_path) as home:
        memory = ("--memory", str(tmp_path / "memory"))
        home.configure(main=("--log", str(home.path / "main.log"), *memory), worker=())
        home.start()
        yield home


def inside(home: Home, key: str, method: str, **params: Any) -> Any:
    """Ask the daemon from within a session."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(home.path), method, json.dumps(params)],
        env=home.env | {"ACPBRIDGE_MARK": f"{key}.{'0' * 32}"},
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def ask(home: Home, method: str, **params: Any) -> Any:
    client = quick.connect(find(str(home.path), {}))
    assert client is not None
    with client:
        return client.call(method, limit=60, **params)


def working(home: Home, words: str) -> str:
    """Have an agent in a turn that does not end."""
    done = home.run("run", "--agent", "main", "--mode", "session", "--detach", words)
    assert done.code == 0, done
    key = done.out.strip()
    until(lambda: (home.row(key)["turn"] or {}).get("startedAt"))
    return key


def spawned(home: Home, parent: str, task: str) -> dict[str, Any]:
    given = {"task": task, "runtime": "acp", "agentId": "worker", "cwd": str(home.path)}
    receipt: dict[str, Any] = inside(home, parent, "tool/spawn", **given)
    assert receipt["status"] == "accepted"
    return receipt


def deliveries(home: Home) -> dict[str, dict[str, Any]]:
    found = ask(home, "tool/deliveries", everything=True)["deliveries"]
    return {row["runId"]: row for row in found}


def reports(home: Home) -> list[str]:
    """Return the reports that the parent's agent was sent, by whatever daemon."""
    texts = []
    for line in (home.path / "main.log").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["event"] != "line":
            continue
        message = json.loads(record["line"])
        if message.get("method") == "session/prompt":
            texts.append(message["params"]["prompt"][0]["text"])
    return [text for text in texts if text.startswith(REPORT)]


def kill_daemon(home: Home) -> None:
    pid = home.daemon_pid()
    os.kill(pid, signal.SIGKILL)
    assert wait_gone([pid]) == []


def test_3_3_2_4_case_133_r11_r12_a_daemon_that_is_killed_loses_no_completion_and_repeats_none(
    home: Home,
) -> None:
    """Killed between a child's end and its announce, while that waits in the parent's queue."""
    parent = working(home, "hang")
    done = spawned(home, parent, "say found-it")
    broken = spawned(home, parent, "crash")
    cut = spawned(home, parent, "hang")
    child = cut["childSessionKey"]
    until(lambda: (home.row(child)["turn"] or {}).get("startedAt"))
    until(lambda: {done["runId"], broken["runId"]} <= deliveries(home).keys())
    until(lambda: home.row(parent)["queueDepth"] == 1)
    assert reports(home) == []
    kill_daemon(home)
    home.start()
    runs = {one["runId"]: one for one in (done, broken, cut)}
    until(
        lambda: (
            {r: d["state"] for r, d in deliveries(home).items()} == dict.fromkeys(runs, "delivered")
        )
    )
    told = reports(home)
    assert len(told) == 3
    (whole,) = [text for text in told if f"run {done['runId']};" in text]
    assert "| found-it\n" in whole
    assert "status: completed; ready for parent review" in whole
    (dead,) = [text for text in told if f"run {broken['runId']};" in text]
    assert "status: failed: " in dead
    assert "(agent_died)" in dead
    (late,) = [text for text in told if f"run {cut['runId']};" in text]
    assert "\nstatus: interrupted\n" in late
    kill_daemon(home)
    home.start()
    assert {row["state"] for row in deliveries(home).values()} == {"delivered"}
    assert len(reports(home)) == 3
