"""Whatever goes wrong, `acpbridge mcp` writes messages to stdout and nothing else."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.integration.daemon_home import LIMIT, Home, daemon_home, until, wait_gone

INITIALIZE = {
    "protocolVersion": "2025-06-18",
    "capabilities": {},
    "clientInfo": {"name": "raw", "version": "1"},
}


class Raw:
    """A client that takes no line for granted."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        self.process = process
        self._number = 0

    def send(self, line: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + b"\n")
        self.process.stdin.flush()

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a request and return its answer; every line on the way must be a message."""
        self._number += 1
        message = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        self.send(json.dumps(message).encode())
        assert self.process.stdout is not None
        for line in self.process.stdout:
            answer: dict[str, Any] = json.loads(line)
            assert answer["jsonrpc"] == "2.0", line
            if answer.get("id") == self._number:
                return answer
        raise AssertionError("no answer")

    def begin(self) -> dict[str, Any]:
        answer = self.ask("initialize", **INITIALIZE)
        self.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return answer

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        result: dict[str, Any] = self.ask("tools/call", name=tool, arguments=arguments)["result"]
        return result

    def end(self) -> int:
        """Close the input; check that nothing else was said, and return the exit status."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.close()
        for line in self.process.stdout:
            json.loads(line)
        return self.process.wait(LIMIT)


@contextmanager
def raw(home: Home, *options: str, **env: str) -> Iterator[Raw]:
    with subprocess.Popen(
        home.argv("mcp", *options),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=home.env | env,
        cwd=home.path,
    ) as process:
        try:
            yield Raw(process)
        finally:
            process.kill()


def test_a_daemon_that_cannot_start_is_told_of_and_reached_once_it_can(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        good = (home.path / "config.yaml").read_text(encoding="utf-8")
        (home.path / "config.yaml").write_text("agents: [", encoding="utf-8")
        with raw(home) as client:
            assert client.begin()["result"]["serverInfo"]["name"] == "acpbridge"
            error = client.ask("tools/list")["error"]
            assert "config.yaml" in error["message"]
            failed = client.call("agents_list")
            assert failed["isError"]
            assert failed["structuredContent"]["errorCode"] == "config_error"
            assert failed["structuredContent"]["status"] == "error"

            (home.path / "config.yaml").write_text(good, encoding="utf-8")
            assert client.ask("tools/list")["result"]["tools"]
            assert client.call("agents_list")["structuredContent"]["agents"]
            assert client.end() == 0


def test_a_daemon_that_was_killed_is_reached_anew(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home, raw(home) as client:
        client.begin()
        assert not client.call("agents_list")["isError"]
        first = home.daemon_pid()
        os.kill(first, signal.SIGKILL)
        assert wait_gone([first]) == []
        # A call that goes out before the end of the old connection was seen fails, and is not
        # made again by itself: it may have been heard.
        until(lambda: not client.call("agents_list")["isError"])
        assert home.daemon_pid() != first
        assert client.end() == 0


def test_no_daemon_is_started_from_inside_a_tree(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        for env in ({"ACPBRIDGE_MARK": "agent:x:main.1"}, {"ACPBRIDGE_TOOL_TOKEN": "acpb_1"}):
            with raw(home, **env) as client:
                client.begin()
                failed = client.call("agents_list")
                assert failed["structuredContent"]["errorCode"] == "daemon_unreachable", failed
                assert client.end() == 0
        assert not (home.path / "daemon.lock").exists()


def test_noise_on_stdin_costs_nothing_but_itself(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home, raw(home) as client:
        client.begin()
        for noise in (b"not json", b"[]", b"\xff\xfe", b"{" * 100_000, b"x" * 20_000_000):
            client.send(noise)
        assert client.ask("ping")["result"] == {}
        unknown = client.call("no_such_tool")
        assert unknown["isError"]
        assert "agents_list" in unknown["structuredContent"]["error"]
        assert client.ask("no/such/method")["error"]["code"] == -32601
        assert client.end() == 0


def test_a_wrong_use_says_so_on_stderr_and_nothing_on_stdout(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        both = home.run("mcp", "--session", "agent:main:main", "--agent", "x")
        assert (both.code, both.out) == (2, "")
        bad = home.run("mcp", "--session", "nonsense")
        assert (bad.code, bad.out) == (2, "")
        assert "agent:<agentId>" in bad.err
