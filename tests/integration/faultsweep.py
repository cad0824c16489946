"""A daemon that is killed at a named point in the middle of a scripted scenario, and its judge.

`Nursery` starts daemons by forking a process that has imported everything, which saves the second
that a start from nothing takes. `Scenario` is one client, which keeps every line that it was
shown. `judge` trusts no code of ours: it reads the files with sqlite3 and json, what the agent
wrote of its own life, and what it really did.
"""

import hashlib
import json
import os
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.integration.daemon_home import Home, until

LIMIT = 20.0

_NURSERY = """
import json, os, signal, sys, traceback
from functools import partial
from pathlib import Path
import anyio
from acpbridge.app.daemon import run_daemon
from acpbridge.daemon.paths import find

out = os.dup(1)
for line in sys.stdin:
    order = json.loads(line)
    pid = os.fork()
    if pid == 0:
        try:
            os.environ.pop("ACPBRIDGE_FAULT", None)
            if order["fault"]:
                os.environ["ACPBRIDGE_FAULT"] = order["fault"]
            paths = find(order["home"], os.environ)
            ready = lambda: os.write(out, b"ready\\n")
            anyio.run(partial(run_daemon, paths, ready, paths.log))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
            os._exit(70)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.write(out, b"ended %d\\n" % status)
"""


class Nursery:
    """Starts one daemon after the other in one state directory."""

    def __init__(self, process: "subprocess.Popen[str]", home: Home) -> None:
        self._process = process
        self._home = home

    def start(self, fault: str = "") -> int | None:
        """Start a daemon; return None once it is ready, else the status with which it ended."""
        assert self._process.stdin is not None
        order = {"home": str(self._home.path), "fault": fault}
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._word()

    def ended(self) -> int:
        """Wait for the end of a daemon that was ready; return its status."""
        status = self._word()
        assert status is not None
        return status

    def _word(self) -> int | None:
        assert self._process.stdout is not None
        word, _, status = self._process.stdout.readline().strip().partition(" ")
        assert word in ("ready", "ended"), word
        return int(status) if status else None


@contextmanager
def nursery(home: Home) -> Iterator[Nursery]:
    """Give a test a nursery, which ends with its last daemon."""
    process = subprocess.Popen(
        [sys.executable, "-c", _NURSERY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env=home.env,
        cwd=home.path,
        umask=0,
        start_new_session=True,
    )
    with process:
        try:
            yield Nursery(process, home)
            assert process.stdin is not None
            process.stdin.close()
            process.wait(LIMIT)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # with the daemon that it waits for


class Scenario:
    """One client of the daemon: what it does is the same each time, what it was shown is kept.

    Args:
        home: of the daemon.
        shown: every event line that any client was shown, in order; added to.
        accepted: the runs that any client was told are accepted; added to.
    """

    def __init__(self, home: Home, shown: list[dict[str, Any]], accepted: list[str]) -> None:
        self._home = home
        self._shown = shown
        self._accepted = accepted
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._held = b""
        self._id = 0
        self._answered: set[str] = set()
        self._ends: list[str] = []

    def play(self, nonce: str, session: str) -> bool:
        """Play it to its end, or to that of the daemon; tell which: True for its own.

        A prompt with words, updates and a question that is allowed; then a second one; then a
        status and the end of the session.
        """
        try:
            with self._socket:
                self._connect()
                self._play(nonce, session)
        except (ConnectionError, EOFError):
            return False
        return True

    def open_log(self, key: str) -> None:
        """Have the daemon open a session's log, and write what an earlier one could not."""
        with self._socket:
            self._connect()
            assert "result" in self._call("follow", key=key, after=0, live=False)

    def _connect(self) -> None:
        from acpbridge.daemon.wire import WIRE_VERSION

        self._socket.settimeout(LIMIT)
        self._socket.connect(str(self._home.path / "daemon.sock"))
        self._call("hello", version="0", wire=WIRE_VERSION)

    def _play(self, nonce: str, session: str) -> None:
        done = self._home.path / "done"
        words = f"say one {nonce}\nstream 3\nask execute {nonce} do {done} {nonce}\nsay two"
        first = self._run(words, session)
        answer = self._call("follow", key=first["key"], after=0)
        if "result" not in answer:
            raise AssertionError(answer)
        self._until_end(first["runId"])
        second = self._run(f"say three {nonce}", first["key"])
        self._until_end(second["runId"])
        self._call("status", key="")
        self._call("kill", keys=[first["key"]], grace=0)

    def _run(self, words: str, session: str) -> dict[str, Any]:
        fields = {
            "content": [{"type": "text", "text": words}],
            "env": {"PATH": os.environ["PATH"]},
            "callerCwd": str(self._home.path),
            "mode": "session",
            "detach": True,
        }
        answer = self._call("run", agent="" if session else "fake", session=session, **fields)
        if "error" in answer and session:
            answer = self._call("run", agent="fake", session="", **fields)
        receipt: dict[str, Any] = answer["result"]
        self._accepted.append(receipt["runId"])
        return receipt

    def _until_end(self, run: str) -> None:
        while run not in self._ends:
            self._take(self._line())

    def _call(self, method: str, **params: Any) -> dict[str, Any]:
        self._send(method, params)
        number = self._id
        while (message := self._line()).get("id") != number:
            self._take(message)
        return message

    def _send(self, method: str, params: dict[str, Any]) -> None:
        self._id += 1
        message = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        self._socket.sendall(json.dumps(message).encode() + b"\n")

    def _take(self, message: dict[str, Any]) -> None:
        for event in message.get("params", {}).get("events", []):
            self._shown.append(event)
            if event["type"] == "permission_asked" and event["id"] not in self._answered:
                # Of an earlier daemon too: such a question is gone, and must not be allowed.
                self._answered.add(event["id"])
                self._send("answer", {"id": event["id"], "effect": "allow"})
            if event["type"] in ("turn_ended", "turn_failed"):
                self._ends.append(event["turn"])

    def _line(self) -> dict[str, Any]:
        while b"\n" not in self._held:
            chunk = self._socket.recv(1 << 18)
            if not chunk:
                raise EOFError
            self._held += chunk
        line, _, self._held = self._held.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message


def last_session(home: Home) -> str:
    """Return the session that was made last, "" if there is none that may be taken up again."""
    rows = _rows(home.path / "state.db", "SELECT session_key, state FROM sessions ORDER BY rowid")
    return next((key for key, state in reversed(rows) if state not in ("closed", "failed")), "")


def sessions(home: Home) -> list[str]:
    """Return the sessions that are on record."""
    return [key for (key,) in _rows(home.path / "state.db", "SELECT session_key FROM sessions")]


def judge_ends(home: Home, accepted: list[str]) -> None:
    """Check that every run has exactly one end; after each session's log was opened."""
    kinds = ("turn_ended", "turn_failed")
    ends = Counter(e["turn"] for e in _stored(home).values() if e["type"] in kinds)
    assert {run: ends[run] for run in accepted} == dict.fromkeys(accepted, 1)
    asked = {e["id"] for e in _stored(home).values() if e["type"] == "permission_asked"}
    decided = Counter(e["id"] for e in _stored(home).values() if e["type"] == "permission_decided")
    assert {name: decided[name] for name in asked} == dict.fromkeys(asked, 1)


def judge(home: Home, shown: list[dict[str, Any]], accepted: list[str]) -> None:
    """Check all that must hold of what was ever shown, said and done; after a start."""
    events = _stored(home)
    for event in shown:
        assert events.get((event["key"], event["seq"])) == event, event
    _judge_numbers(events)
    allowed = _judge_audit(home)
    for event in events.values():
        if event["type"] == "permission_decided" and event["effect"] == "allow":
            assert event["id"] in allowed, event
    executed = Counter(_lines(home.path / "done"))
    assert set(executed) <= {f"executed {title}" for title in allowed.values()}, executed
    assert set(executed.values()) <= {1}, executed
    assert len(set(allowed.values())) == len(allowed), "a question was answered twice"
    _judge_runs(home, events, accepted)
    _judge_agent(home)


def _judge_numbers(events: dict[tuple[str, int], dict[str, Any]]) -> None:
    by_session: dict[str, list[int]] = {}
    for key, seq in events:
        by_session.setdefault(key, []).append(seq)
    for key, numbers in by_session.items():
        assert numbers == list(range(1, len(numbers) + 1)), (key, numbers)


def _judge_audit(home: Home) -> dict[str, str]:
    """Check the chain; return the requests that it allows, each with its title."""
    before, allowed = "0" * 64, dict[str, str]()
    for number, line in enumerate(_lines(home.path / "audit.jsonl"), 1):
        record = json.loads(line)
        body, _, own = line.rpartition(',"hash":"')
        assert (record["seq"], record["prev_hash"]) == (number, before), line
        before = hashlib.sha256(f"{body}}}".encode()).hexdigest()
        assert own == f'{before}"}}', line
        if record["kind"] == "permission_decided" and record["decision"] == "allow":
            allowed[record["request_uid"]] = record["title"]
    return allowed


def _judge_runs(
    home: Home, events: dict[tuple[str, int], dict[str, Any]], accepted: list[str]
) -> None:
    runs = dict(_rows(home.path / "state.db", "SELECT run_id, outcome FROM runs"))
    assert set(accepted) <= set(runs)
    assert all(runs.values()), runs
    ends = [e for e in events.values() if e["type"] in ("turn_ended", "turn_failed")]
    assert len({e["turn"] for e in ends}) == len(ends), ends
    for end in ends:
        cut_off = end.get("error", {}).get("code") == "interrupted"
        assert (runs[end["turn"]] == "interrupted") == cut_off, end
    decided = _rows(home.path / "state.db", "SELECT id, decided_at FROM questions")
    assert all(when for _, when in decided), decided


def _judge_agent(home: Home) -> None:
    """Every request of one agent process has at most one answer, every one of ours its own id."""
    answers, requests = Counter[str](), Counter[str]()
    for line in _lines(home.path / "agent.log"):
        record = json.loads(line)
        if record["event"] == "start":
            answers, requests = Counter(), Counter()
        if record["event"] != "line":
            continue
        try:
            message = json.loads(record["line"])
        except ValueError:
            continue  # the daemon was killed in the middle of it
        if "id" in message:
            seen = requests if "method" in message else answers
            seen[json.dumps(message["id"])] += 1
            assert seen[json.dumps(message["id"])] == 1, message


def _stored(home: Home) -> dict[tuple[str, int], dict[str, Any]]:
    query = "SELECT lines FROM events ORDER BY session_key, last_seq"
    rows = _rows(home.path / "agents" / "fake" / "sessions" / "events.db", query)
    found = [json.loads(line) for (blob,) in rows for line in blob.split(b"\n")]
    stored = {(event["key"], event["seq"]): event for event in found}
    assert len(stored) == len(found), "a number stands for two events"
    return stored


def _rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    if not path.exists():
        return []
    with closing(sqlite3.connect(path, timeout=10)) as connection:
        made = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        return connection.execute(query).fetchall() if made != (0,) else []


def _lines(path: Path) -> list[str]:
    if not path.exists():
        return []
    return path.read_text(encoding="utf-8").splitlines()


def nobody_left(home: Home) -> None:
    """Wait for the end of the agents of a daemon that was killed."""

    def gone() -> bool:
        pids = [pid for pid, words in home.marked().items() if home.mark in words]
        return not pids

    until(gone)


def loose(home: Home) -> list[str]:
    """Return what of the state directory others may read, write or enter, with its mode."""
    modes = {home.path: stat.S_IMODE(home.path.stat().st_mode)}
    for path in home.path.rglob("*"):
        if path.name != "config.yaml":
            with suppress(FileNotFoundError):  # a file that is written gets its name at the end
                modes[path] = stat.S_IMODE(path.lstat().st_mode)
    return [f"{mode:o} {path.name}" for path, mode in modes.items() if mode & 0o077]


def killed(status: int) -> bool:
    """Tell whether this is the status of a process that was killed."""
    return status == -signal.SIGKILL
