"""A hundred turns open at one instant on one daemon, each with an agent process of its own."""

import json
import os
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon_home import PAUSE, Home, daemon_home
from tests.integration.test_acceptance import stored
from tests.integration.traffic import Client, client, start

TURNS = 100
STREAM = 20
WORDS = f"stream {STREAM}\nask\nstream {STREAM}"
# Guards against hanging, on a machine that does other things as well. Seconds.
PATIENCE = 100
STATUS_LIMIT = 10

pytestmark = pytest.mark.timeout(3 * PATIENCE)


def kilobytes(pid: int, file: str, name: str) -> int:
    """Return a figure of a process in kB, as the kernel has it."""
    text = Path(f"/proc/{pid}/{file}").read_text(encoding="utf-8")
    return int(text.partition(f"{name}:")[2].split()[0])


def open_all(daemon: Client) -> list[Any]:
    """Have all turns accepted and wait until each of them is open with its question."""
    runs = [start(daemon, WORDS) for _ in range(TURNS)]
    deadline = time.monotonic() + PATIENCE
    while len(daemon.call("questions")["permissions"]) < TURNS:
        assert time.monotonic() < deadline
        time.sleep(PAUSE * 10)
    return runs


def watch_all(home: Home) -> str:
    """Look at all of them from the command line; return what it took."""
    begun = time.monotonic()
    status = home.status()
    took = time.monotonic() - begun
    assert took < STATUS_LIMIT
    rows = status["sessions"]
    assert [row["turn"]["state"] for row in rows] == ["waiting"] * TURNS
    assert status["pendingPermissions"] == TURNS
    agents = [p["pid"] for row in rows for p in row["processes"] if p["role"] == "agent"]
    assert len(set(agents)) == TURNS
    shims = [p["pid"] for row in rows for p in row["processes"] if p["role"] == "shim"]
    pid = status["daemon"]["pid"]
    rss, pss = kilobytes(pid, "status", "VmRSS"), kilobytes(pid, "smaps_rollup", "Pss")
    ticks = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    cpu = (int(ticks[11]) + int(ticks[12])) / os.sysconf("SC_CLK_TCK")
    one = sum(kilobytes(shim, "smaps_rollup", "Pss") for shim in shims) // TURNS
    memory = f"daemon RSS {rss} kB, PSS {pss} kB; a shim PSS {one} kB"
    return f"status --json {took:.2f} s; daemon CPU so far {cpu:.1f} s; {memory}"


def answer_all(daemon: Client, runs: list[Any]) -> None:
    for question in daemon.call("questions")["permissions"]:
        daemon.call("answer", id=question["id"], effect="allow")
    for run in runs:
        result = daemon.call("wait", runId=run["runId"], limit=PATIENCE)
        assert (result["outcome"], result["stopReason"]) == ("completed", "end_turn")


def told(events: list[Any]) -> list[str]:
    """Return what one session's events tell, a word each."""
    return [
        event["update"]["content"]["text"]
        if event["type"] == "update" and "content" in event["update"]
        else event["type"]
        for event in events
    ]


def test_a_hundred_turns_at_once_are_each_in_order_and_end_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with daemon_home(tmp_path) as home:
        home.configure({"maxProcesses": TURNS + 5, "startSeconds": PATIENCE}, fake=())
        assert home.run("daemon", "start").code == 0
        begun = time.monotonic()
        with client(home) as daemon:
            runs = open_all(daemon)
            opened = time.monotonic() - begun
            seen = watch_all(home)
            answer_all(daemon, runs)
        took = time.monotonic() - begun
        with capsys.disabled():
            print(f"\n{TURNS} turns: open in {opened:.1f} s, over in {took:.1f} s; {seen}")
        assert home.run("daemon", "stop", limit=60).code == 0
        check_events(home)


def check_events(home: Home) -> None:
    """Check what is stored of each session: all of it, in order, with one end."""
    sessions: dict[str, list[Any]] = defaultdict(list)
    for line in stored(home, "fake"):
        event = json.loads(line)
        sessions[event["key"]].append(event)
    assert len(sessions) == TURNS
    chunks = [f"chunk {number};" for number in range(STREAM)]
    for events in sessions.values():
        events.sort(key=lambda event: int(event["seq"]))
        assert [event["seq"] for event in events] == list(range(1, len(events) + 1))
        words = told(events)
        assert [word for word in words if word.startswith("chunk")] == chunks * 2
        assert words.count("permission_asked") == words.count("permission_decided") == 1
        assert words.index("permission_asked") > words.index(chunks[-1])
        assert sum(word in ("turn_ended", "turn_failed") for word in words) == 1
        assert words.index("turn_ended") > len(words) - words[::-1].index(chunks[-1]) - 1
