"""JSON-RPC at its edges, towards agents: through the whole path, by what either side logs."""

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from acpbridge import __version__
from acpbridge.daemon.paths import Paths
from acpbridge.daemon.wire import WIRE_VERSION
from acpbridge.router.turns import INBOX_LIMIT
from tests.integration.daemon_home import LIMIT, PAUSE, Done, Home, daemon_home
from tests.integration.traffic import Look, client, ended, log_option, prompt, start, texts

SECRET = "sentinel-5f2c8a91d0e34b77"
SETUP = ["initialize", "session/new"]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("rpc")) as made:
        made.env["ACME_API_KEY"] = SECRET
        made.configure(fake=log_option(made), single=("--busy", "error", *log_option(made)))
        made.start()
        yield made


def raw(**message: Any) -> str:
    """Return the directive for a line; `@ID@` in it becomes the id of the prompt."""
    return "raw " + json.dumps(message).replace('"@ID@"', "@ID@")


ODD_IDS: tuple[Any, ...] = ("init-1", 1, "1", 0, "", -5, 2**63, "9be3b1a8-7c4b", 1.5)


def test_case_144_each_open_question_is_answered_with_its_id_as_it_came(home: Home) -> None:
    """And a cancel answers all of them: C10."""
    look = Look(home)
    lines = [f"next-id {json.dumps(value)}\nbg ask" for value in ODD_IDS]
    with client(home) as daemon:
        receipt = start(daemon, "\n".join(lines))
        deadline = time.monotonic() + LIMIT
        while len(daemon.call("questions")["permissions"]) < len(ODD_IDS):
            assert time.monotonic() < deadline
            time.sleep(PAUSE)
        assert daemon.call("cancel", key=receipt["key"], grace=LIMIT)["rung"] == "cancel"
    answers = [m for m in look.sent_to_agent if "result" in m]
    assert sorted(json.dumps(m["id"]) for m in answers) == sorted(map(json.dumps, ODD_IDS))
    assert all(m["result"] == {"outcome": {"outcome": "cancelled"}} for m in answers)


def test_case_147_answers_that_nobody_waits_for_are_ignored(home: Home) -> None:
    look = Look(home)
    stray = [raw(jsonrpc="2.0", id=value, result={}) for value in (999, "x", None, "@ID@x")]
    stray.append(raw(jsonrpc="2.0", id=None, error={"code": -32700, "message": "Parse error"}))
    many = ["\n".join(stray)] * 50
    assert texts(prompt(home, "fake", *stray, "say one", *many, "say two")) == ["one", "two"]
    assert look.methods == [*SETUP, "session/prompt"]
    assert look.noise[-1]["count"] > 100
    assert len(look.noise) < 20


GOOD = {"stopReason": "end_turn"}
MALFORMED = {
    "both": "answer " + json.dumps({"result": GOOD, "error": {"code": -1, "message": "x"}}),
    "neither": "answer {}",
    "an error that is text": 'answer {"error":"no"}',
    "an error without a code": 'answer {"error":{"message":"no"}}',
    "an error without a message": 'answer {"error":{"code":-1}}',
    "a code that is text": 'answer {"error":{"code":"-1","message":"no"}}',
    "another version": "answer " + json.dumps({"jsonrpc": "1.0", "result": GOOD}),
    "no version": "no-answer\n" + raw(id="@ID@", result=GOOD),
    "a result that is text": 'answer {"result":"end_turn"}',
    "a result that is a list": 'answer {"result":[]}',
    "a result that is null": 'answer {"result":null}',
}


def test_case_149_a_malformed_answer_fails_its_prompt_at_once_and_no_other(home: Home) -> None:
    look = Look(home)
    with client(home) as daemon:
        key = ended(daemon, "say up", mode="session")["key"]
        for name, words in MALFORMED.items():
            result = ended(daemon, words, session=key, limit=LIMIT)
            assert (name, result["outcome"]) == (name, "failed")
            assert result["error"]["code"] == "invalid_message", name
            assert "broke the protocol" in result["error"]["hint"], name
            assert ended(daemon, "say on", session=key)["outcome"] == "completed", name
        (row,) = daemon.call("status", key=key)["sessions"]
        assert row["opens"] == 1
        daemon.call("close", key=key)
    assert look.methods == [*SETUP, *["session/prompt"] * (1 + 2 * len(MALFORMED))]


def test_case_150_notifications_get_no_byte_in_return(home: Home) -> None:
    """C25: an unknown notification is ignored."""
    look = Look(home)
    update = {"sessionId": "nowhere", "update": {"sessionUpdate": "plan", "entries": []}}
    lines = [
        "notify unknown/thing {}",
        "notify _vendor/x",
        'notify session/cancel {"sessionId":"nowhere"}',
        "notify session/update",
        f"notify session/update {json.dumps(update)}",
        'notify session/update {"sessionId":"@SID@","update":{}}',
        'notify session/update {"sessionId":"@SID@","update":[]}',
        'update {"sessionUpdate":"frobnicate","x":1}',
        'notify $/cancel_request {"requestId":77}',
        "notify $/cancel_request",
        'call _vendor/ask {"a":1}',
    ]
    done = prompt(home, "fake", *lines)
    assert done.code == 0, done
    assert look.methods == [*SETUP, "session/prompt", None]
    assert (look.sent_to_agent[-1]["id"], look.sent_to_agent[-1]["error"]["code"]) == (0, -32601)


def test_case_151_unknown_requests_are_refused_at_once(home: Home) -> None:
    """C25: an unknown request is method not found."""
    look = Look(home)
    lines = ["next-id 3", "call _vendor/drain {}", 'call terminal/create {"command":"ls"}']
    lines += [f'call {name} {{"path":"/etc/passwd"}}' for name in ("fs/read_text_file", "fs/x")]
    lines += ['call fs/write_text_file {"path":"/x","content":""}', "call session/new", "say on"]
    done = prompt(home, "fake", *lines)
    assert texts(done)[-1] == "on"
    answers = [m for m in look.sent_to_agent if "error" in m]
    assert [(m["id"], m["error"]["code"]) for m in answers] == [
        (number, -32601) for number in (3, 0, 1, 2, 3, 4)
    ]
    assert all(wait < 10 for wait in look.waits)


def test_c28_an_agent_sees_one_prompt_at_a_time(home: Home) -> None:
    look = Look(home)
    with client(home) as daemon:
        key = ended(daemon, "say up", agent="single", mode="session")["key"]
        runs = [start(daemon, f"sleep 100\nsay {n}", session=key)["runId"] for n in range(4)]
        ends = [daemon.call("wait", runId=run)["outcome"] for run in runs]
        daemon.call("close", key=key)
    assert ends == ["completed"] * 4
    prompts = [m["params"]["prompt"] for m in look.sent_to_agent if m["method"][-6:] == "prompt"]
    assert [blocks[0]["text"][-1] for blocks in prompts] == ["p", "0", "1", "2", "3"]


def test_case_154_equal_ids_of_both_directions_do_not_mix(home: Home) -> None:
    look = Look(home)
    call = {"toolCallId": "t", "title": "rm", "kind": "execute"}
    params = {
        "sessionId": "@SID@",
        "toolCall": call,
        "options": [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}],
    }
    method = "session/request_permission"
    done = prompt(
        home,
        "fake",
        raw(jsonrpc="2.0", id="@ID@", method=method, params=params),
        raw(jsonrpc="2.0", id="@ID@", result=GOOD),
        "no-answer",
    )
    assert (done.code, done.events[-1]["stopReason"]) == (0, "end_turn")
    number = look.sent_to_agent[2]["id"]
    assert look.sent_to_agent[3:] == [
        {"jsonrpc": "2.0", "id": number, "result": {"outcome": {"outcome": "cancelled"}}}
    ]
    words = ("run", "--on-permission", "allow", "next-id 2\nask")
    assert home.run(*words).code == 0
    assert look.sent_to_agent[-1]["id"] == 2
    assert look.sent_to_agent[-1]["result"]["outcome"]["outcome"] == "selected"


DATA: dict[str, tuple[Any, str]] = {
    "text": ("the reason", "It broke: the reason"),
    "details": ({"details": "the reason"}, "It broke: the reason"),
    "error": ({"error": "the reason"}, "It broke: the reason"),
    "a tree": ({"cwd": {"_errors": ["Required"]}}, '"Required"'),
    "a list": (["a"], '["a"]'),
    "a number": (5, "It broke: 5"),
    "null": (None, "It broke\n"),
    "a megabyte": ("the reason " * 90_900, "It broke: the reason the reason"),
    "a secret that is cut": (f"{'x ' * 245}{SECRET}", "x x..."),
    "a secret": (f"the key {SECRET} is bad", "It broke: the key [redacted:"),
}


@pytest.mark.parametrize("name", [*DATA, "nothing"])
def test_case_155_the_reason_in_data_is_shown_whatever_its_shape(home: Home, name: str) -> None:
    look = Look(home)
    data, shown = DATA.get(name, (None, "It broke\n"))
    error = {"code": -32050, "message": "It broke"} | ({"data": data} if name in DATA else {})
    done = home.run("run", "-", stdin="answer " + json.dumps({"error": error}))
    assert done.code == 1
    assert shown in done.err
    assert "error (turn_failed): It broke" in done.err
    assert "-32050" in done.err
    assert "{'" not in done.err
    assert "object Object" not in done.err
    assert len(done.err) < 4000
    assert_kept_secret(home, done, look)


def assert_kept_secret(home: Home, done: Done, look: Look) -> None:
    assert SECRET not in done.out + done.err + look.daemon
    files = {path: data for path, data in home.files().items() if path.suffix != ".log"}
    assert files
    assert [str(path) for path, data in files.items() if SECRET.encode() in data] == []


def on_the_wire(home: Home, *requests: tuple[str, Any]) -> list[Any]:
    """Say hello to the daemon and make requests; return what was answered, in their order."""
    hello = ("hello", {"version": __version__, "wire": WIRE_VERSION})
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(LIMIT)
        sock.connect(str(Paths(home.path, home.path / "config.yaml").socket))
        with sock.makefile("rwb") as file:
            for number, (method, params) in enumerate((hello, *requests)):
                message = {"jsonrpc": "2.0", "id": number, "method": method}
                given = message if params is ... else {**message, "params": params}
                file.write(json.dumps(given).encode() + b"\n")
            file.flush()
            answers = {m["id"]: m for m in (json.loads(file.readline()) for _ in range(number + 1))}
    return [answers[number] for number in range(1, len(requests) + 1)]


def test_case_156_the_daemon_answers_each_fault_with_its_code(home: Home) -> None:
    with client(home) as daemon:
        key = start(daemon, "hang")["key"]
        for _ in range(INBOX_LIMIT):
            start(daemon, "say on", session=key)
        content = [{"type": "text", "text": "x"}]
        wrong: list[tuple[str, Any, int, str]] = [
            ("nonsense", {}, -32601, "method_not_found"),
            ("run", ..., -32602, "invalid_params"),
            ("run", [content], -32602, "invalid_params"),
            ("run", "text", -32600, "invalid_message"),
            ("run", {"content": "text"}, -32602, "invalid_params"),
            ("run", {"content": content, "timeout": "soon"}, -32602, "invalid_params"),
            ("cancel", {"key": 5}, -32602, "invalid_params"),
            ("cancel", {"key": "gone"}, -32002, "no_such_session"),
            ("answer", {"id": "gone", "effect": "allow"}, -32002, "no_such_question"),
            ("run", {"content": content, "session": key}, -32003, "busy"),
        ]
        answers = on_the_wire(home, *((method, params) for method, params, _, _ in wrong))
        daemon.call("kill", keys=[key], grace=0)
    told = [(a["error"]["code"], a["error"].get("data", {}).get("code")) for a in answers]
    assert [code for code, _ in told] == [code for _, _, code, _ in wrong]
    assert [word for _, word in told if word] == [w for *_, w in wrong if w != "invalid_message"]
    assert "Traceback" not in json.dumps(answers)
