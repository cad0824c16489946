"""A served agent as a process, and an editor that is odd, early, wrong or rude."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acpbridge.edge.sessions import WAITING_LIMIT
from tests.unit.fixtures.raw_client import Client, stop_reason

ROOT = Path(__file__).parents[2]
SERVE = (sys.executable, "-P", "-m", "acpbridge", "serve", "tests.unit.runtimes.scripted:scripted")
MIB = 1024 * 1024
BOM = b"\xef\xbb\xbf"
INITIALIZE = {"protocolVersion": 1, "clientCapabilities": {}}


class Editor(Client):
    """A client that can also write what is no message."""

    def write(self, data: bytes, *cuts: int) -> None:
        """Write bytes in one piece, or cut at these places."""
        assert self.process.stdin
        for start, end in zip((0, *cuts), (*cuts, len(data)), strict=True):
            self.process.stdin.write(data[start:end])
            self.process.stdin.flush()

    def next(self) -> Any:
        line = self.line()
        assert line is not None
        return json.loads(line)

    def line_of(self, number: Any, method: str, **params: Any) -> bytes:
        """Return a request as a line without its end."""
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        return json.dumps(message, ensure_ascii=False).encode()

    def prompt_line(self, number: Any, words: str) -> bytes:
        block = {"type": "text", "text": words}
        return self.line_of(number, "session/prompt", sessionId=self.session, prompt=[block])


@contextmanager
def editor(*, opened: bool = True, status: int = 0) -> Iterator[Editor]:
    """Serve the scripted agent, and end it by closing its input."""
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    with subprocess.Popen(SERVE, stdin=pipe, stdout=pipe, stderr=pipe, env=environ) as process:
        client = Editor(process)
        try:
            if opened:
                client.open()
            yield client
            assert client.end() == status
        finally:
            process.kill()


def weight(text: str) -> str:
    return f"{len(text)} {sum(text.encode())}"


def test_case_13_prompts_of_every_size_arrive_whole() -> None:
    prompts = ["return " + "a" * size for size in (65_535, 65_536, 65_537, MIB, 8 * MIB)]
    with editor() as client:
        for text in prompts:
            assert stop_reason(client.prompt(text)) == "end_turn"
        client.prompt("weigh")
        assert client.said()[-1].split("|") == [weight(text) for text in prompts]


def test_case_15_where_a_prompt_is_cut_makes_no_difference() -> None:
    with editor() as client:
        text = "return " + "é" * (5 * MIB // 2)
        for number, cuts in enumerate([[], range(1, 100), [-8], [-1]]):
            data = client.prompt_line(f"p{number}", text) + b"\r\n"
            client.write(data, *(cut % len(data) for cut in cuts))
            assert client.wait(f"p{number}")["result"] == {"stopReason": "end_turn"}
        client.prompt("weigh")
        assert client.said()[-1].split("|") == [weight(text)] * 4


def test_cases_16_18_19_odd_lines_do_no_harm_and_stdout_is_protocol_only() -> None:
    with editor(opened=False) as client:
        end = b"\r\n \r\n\r\n"
        client.write(BOM + client.line_of("a", "initialize", **INITIALIZE) + end)
        assert client.next()["id"] == "a"
        client.write(client.line_of("b", "session/new", cwd="/", mcpServers=[]) + end)
        answer = client.next()
        assert answer["id"] == "b"  # and nothing was said of the blank lines
        client.session = answer["result"]["sessionId"]
        client.write(b'\xff\xfe\n42\n"text"\nnull\n{"foo":1}\nLoaded cached credentials.\n')
        client.write(client.prompt_line(1, "raise") + end)
        messages: list[Any] = []
        while not messages or messages[-1].get("id") != 1:
            messages.append(client.next())
        assert messages[-1]["error"]["code"] == -32603
        assert all(m["id"] is None for m in messages[:-1])
        assert [m["error"]["code"] for m in messages[:-1]] == [-32700, -32700]
        assert client.end() == 0
        assert client.line() is None
        assert client.process.stderr
        assert b"a word on stdout before the end" in client.process.stderr.read()


def test_case_18_a_signal_leaves_no_word_on_stdout() -> None:
    with editor(status=130) as client:
        client.start_prompt("hang")
        while client.next().get("method") != "session/update":
            pass
        client.process.send_signal(signal.SIGINT)
        while (line := client.line()) is not None:
            assert json.loads(line)["jsonrpc"] == "2.0"


def test_case_104_requests_before_initialize_each_get_an_error() -> None:
    with editor(opened=False) as client:
        early = {"session/prompt": {"sessionId": "x", "prompt": []}, "_x/y": {}}
        early["session/new"] = {"cwd": "/", "mcpServers": []}
        for number, (method, params) in enumerate(early.items()):
            client.write(client.line_of(number, method, **params) + b"\n")
        answers = [client.next() for _ in early]
        assert sorted(a["id"] for a in answers) == [0, 1, 2]
        assert {a["error"]["code"] for a in answers} == {-32600}
        for _ in range(2):
            assert client.call("initialize", **INITIALIZE)["result"]["protocolVersion"] == 1
        unknown = client.call("session/prompt", sessionId="gone", prompt=[])
        assert unknown["error"]["code"] == -32002
        assert client.call("session/new", cwd="/", mcpServers=[])["result"]["sessionId"]


ODD_IDS: tuple[Any, ...] = ("init-1", 1, "1", 0, "", -5, 2**63, "9be3b1a8-7c4b", 1.5)


def test_case_144_ids_that_are_open_together_come_back_as_they_were() -> None:
    with editor() as client:
        client.write(client.prompt_line("first", "hang") + b"\n")
        for value in ODD_IDS:
            client.write(client.prompt_line(value, "return") + b"\n")
        client.until_said("hanging")
        client.cancel()
        seen: list[str] = []
        while len(seen) <= len(ODD_IDS):
            message = client.next()
            if "method" not in message:
                assert message["result"] == {"stopReason": "cancelled"}
                seen.append(json.dumps(message["id"]))
        assert sorted(seen) == sorted(map(json.dumps, ["first", *ODD_IDS]))


ALLOWED = {"outcome": {"outcome": "selected", "optionId": "allow_once"}}
MALFORMED: dict[str, dict[str, Any]] = {
    "both": {"result": ALLOWED, "error": {"code": -1, "message": "x"}},
    "neither": {},
    "an error that is text": {"error": "no"},
    "an error without a code": {"error": {"message": "no"}},
    "another version": {"jsonrpc": "1.0", "result": ALLOWED},
    "a result that is text": {"result": "allow_once"},
}


def test_cases_147_149_154_answers_that_are_stray_or_malformed_allow_nothing() -> None:
    with editor() as client:
        for number, (name, body) in enumerate([*MALFORMED.items(), ("good", {"result": ALLOWED})]):
            # The prompt has the id that the question will have: both count from 0.
            client.updates.clear()
            client.write(client.prompt_line(number, "ask rm") + b"\n")
            while (asked := client.look(client.line())) is None or "id" not in asked:
                pass
            assert (asked["method"], asked["id"]) == ("session/request_permission", number)
            for stray in ({"id": 999}, {"id": "x"}, {"id": None}, {"id": str(number)}):
                client.send({**stray, "result": ALLOWED})
            client.send({"id": number, **body})
            message: Any = None
            while message is None or "id" not in message:
                message = client.look(client.line())
            assert message["result"] == {"stopReason": "end_turn"}, name
            assert (name, client.said()) == (name, ["allowed" if name == "good" else "denied"])


def test_case_150_a_notification_is_never_answered() -> None:
    with editor() as client:
        for method, params in (
            ("unknown/thing", {}),
            ("_vendor/x", {"a": 1}),
            ("session/cancel", {"sessionId": "gone"}),
            ("session/cancel", None),
            ("session/update", {"sessionId": "x", "update": {"sessionUpdate": "frobnicate"}}),
            ("session/prompt", {}),
            ("$/cancel_request", {"requestId": 99}),
        ):
            message = {"jsonrpc": "2.0", "method": method}
            given = message if params is None else {**message, "params": params}
            client.write(json.dumps(given).encode() + b"\n")
        client.write(client.line_of("after", "_vendor/y") + b"\n")
        answer = client.next()
        assert (answer["id"], answer["error"]["code"]) == ("after", -32601)


def test_case_156_each_fault_has_its_code() -> None:
    with editor() as client:
        new = {"cwd": "/", "mcpServers": []}
        wrong: list[tuple[str, Any, int]] = [
            ("unknown/method", {}, -32601),
            ("session/new", None, -32602),
            ("session/new", [], -32602),
            ("session/new", {**new, "cwd": 5}, -32602),
            ("session/new", {**new, "mcpServers": "none"}, -32602),
            ("session/prompt", None, -32602),
            ("session/prompt", ["x"], -32602),
            ("session/prompt", {"sessionId": 5, "prompt": []}, -32602),
            ("session/prompt", {"sessionId": client.session, "prompt": "text"}, -32602),
            ("session/prompt", {"sessionId": client.session}, -32602),
            ("session/prompt", {"sessionId": "gone", "prompt": []}, -32002),
            ("session/set_mode", {"sessionId": client.session, "modeId": 1}, -32602),
            ("initialize", {"protocolVersion": "1"}, -32602),
            ("initialize", None, -32602),
        ]
        for number, (method, params, code) in enumerate(wrong):
            message = {"jsonrpc": "2.0", "id": number, "method": method}
            given = message if params is None else {**message, "params": params}
            client.write(json.dumps(given).encode() + b"\n")
            answer = client.next()
            assert (number, answer["id"], answer["error"]["code"]) == (number, number, code)
            assert "Traceback" not in json.dumps(answer)
            assert "Error" not in answer["error"]["message"]
        client.write(client.prompt_line("runs", "hang") + b"\n")
        client.until_said("hanging")
        for number in range(WAITING_LIMIT + 1):
            client.write(client.prompt_line(f"w{number}", "return") + b"\n")
        busy = client.wait(f"w{WAITING_LIMIT}")["error"]
        assert (busy["code"], busy["data"]["code"]) == (-32003, "busy")
        client.cancel()
        assert stop_reason(client.wait("runs")) == "cancelled"
