"""G15 on the wire: each request has one answer, whoever dies, cancels, or says a thing twice."""

import json
import os
import signal
import socket
from collections import Counter
from pathlib import Path
from typing import Any

from acpbridge.daemon.wire import WIRE_VERSION
from tests.integration.daemon_home import Home, daemon_home, until
from tests.integration.traffic import client, log_option, start


class Wire:
    """A client that counts what it is answered, by id."""

    def __init__(self, home: Home) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(20)
        self.sock.connect(str(home.path / "daemon.sock"))
        self.answers: dict[Any, list[Any]] = {}
        self.events: list[Any] = []
        self._held = b""
        self.send((1, "hello", {"wire": WIRE_VERSION}))
        self.until(1)

    def send(self, *calls: tuple[Any, str, dict[str, Any]]) -> None:
        """Send so many requests in one write."""
        lines = [
            json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            for number, method, params in calls
        ]
        self.sock.sendall("".join(f"{line}\n" for line in lines).encode())

    def until(self, *numbers: Any) -> None:
        """Read until each of these requests is answered."""
        while not set(numbers) <= set(self.answers):
            self.read()

    def rest(self) -> None:
        """Read what comes until a last request is answered: all others must be by then."""
        self.send(("last", "sessions", {}))
        self.until("last")

    def read(self) -> None:
        """Read what comes next."""
        chunk = self.sock.recv(1 << 18)
        assert chunk, "the daemon hung up"
        *lines, self._held = (self._held + chunk).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "id" in message:
                self.answers.setdefault(message["id"], []).append(message)
            else:
                self.events += message["params"]["events"]


def answered(home: Home) -> Counter[str]:
    """Return how often each request of the agent was answered, by what the agent read."""
    found = Counter[str]()
    for line in (home.path / "agent.log").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        if record["event"] == "line":
            message = json.loads(record["line"])
            if "method" not in message:
                found[json.dumps(message["id"])] += 1
    return found


QUESTIONS = 5


def test_g15_with_everything_open_each_request_is_answered_once_when_the_agent_dies(
    tmp_path: Path,
) -> None:
    with daemon_home(tmp_path) as home:
        home.configure(fake=log_option(home))
        assert home.run("daemon", "start").code == 0
        wire = Wire(home)
        with wire.sock, client(home) as caller:
            done = home.path / "done"
            asks = [f"bg ask execute q{n} do {done} {n}" for n in range(QUESTIONS)]
            refused = ['call fs/read_text_file {"path": "/etc/passwd"}'] * 2
            run = start(caller, "\n".join([*refused, *asks, "hang"]), agent="fake")
            until(lambda: len(caller.call("questions")["permissions"]) == QUESTIONS)
            first, second, *_ = caller.call("questions")["permissions"]
            (row,) = caller.call("status", key=run["key"])["sessions"]
            agent = next(p["pid"] for p in row["processes"] if p["role"] == "agent")
            wait = {"runId": run["runId"]}
            wire.send(*((f"wait-{n}", "wait", wait) for n in range(3)))
            wire.send(("follow", "follow", {"key": run["key"], "after": 0}))
            # Twice in one write, by number and by id; and one whose answer races with the end.
            allow = {"id": first["id"], "effect": "allow"}
            wire.send(("a", "answer", allow), ("b", "answer", allow))
            wire.send(("same", "wait", wait), ("same", "wait", wait))
            wire.until("a", "b", "same")
            os.kill(agent, signal.SIGSTOP)
            wire.send(("late", "answer", {"id": second["id"], "effect": "allow"}))
            os.kill(agent, signal.SIGKILL)
            wire.until("wait-0", "wait-1", "wait-2", "follow", "late")
            while not [e for e in wire.events if e["type"] == "turn_failed"]:
                wire.read()
            wire.rest()
            counts = {number: len(messages) for number, messages in wire.answers.items()}
            assert set(counts.values()) == {1}, counts
            by = {number: messages[0] for number, messages in wire.answers.items()}
            assert sorted("error" in by[number] for number in "ab") == [False, True]
            assert by["same"]["error"]["code"] == -32600
            outcomes = {by[f"wait-{n}"]["result"]["outcome"] for n in range(3)}
            assert outcomes == {"failed"}
            decided = Counter(e["id"] for e in wire.events if e["type"] == "permission_decided")
            assert sorted(decided.values()) == [1] * QUESTIONS
        counted = answered(home)
        assert set(counted.values()) == {1}, counted
        ran = done.read_text(encoding="utf-8").splitlines() if done.exists() else []
        assert ran in ([], [f"executed {first['title'].removeprefix('q')}"])


def test_g15_a_client_that_leaves_in_the_middle_costs_nobody_an_answer(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        home.configure(fake=log_option(home))
        assert home.run("daemon", "start").code == 0
        wire = Wire(home)
        with client(home) as caller:
            content = [{"type": "text", "text": f"ask execute x do {home.path / 'done'}"}]
            fields = {"content": content, "agent": "fake", "env": {}, "callerCwd": "/"}
            run = {"detach": False, "mode": "session", **fields}
            wire.send(("run", "run", run))
            wire.until("run")
            receipt = wire.answers["run"][0]["result"]
            (question,) = until(lambda: caller.call("questions")["permissions"])
            wire.send(("w", "wait", {"runId": receipt["runId"]}))
            wire.send(("a", "answer", {"id": question["id"], "effect": "allow"}))
            wire.sock.close()  # the answer races with what its leaving cancels
            ended = caller.call("wait", limit=30, runId=receipt["runId"])
            assert ended["outcome"] in ("cancelled", "completed"), ended
            assert caller.call("questions")["permissions"] == []
        counted = answered(home)
        assert set(counted.values()) == {1}, counted
