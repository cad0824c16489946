"""One bad agent, or one bad client, holds up nobody else: the order of events, not their times.

Somebody misbehaves for as long as the others need, and their turns end while it still does.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from acpbridge.daemon.doorway import MAX_CLIENTS
from acpbridge.daemon.server import AGENT_LINE, STRANGER_LINE
from acpbridge.daemon.wire import WIRE_VERSION
from acpbridge.errors import BridgeError
from tests.integration.daemon_home import Home, daemon_home, until
from tests.integration.traffic import Client, Look, client, ended, log_option, prompt, start, texts

MIB = 1024 * 1024
FOR_EVER = 100_000_000


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("isolation")) as made:
        limits = {"maxProcesses": 20, "maxMessageBytes": 10 * MIB}
        made.configure(limits, good=(), bad=(), logged=log_option(made))
        made.start()
        yield made


@pytest.fixture
def mine(home: Home) -> Iterator[Client]:
    """A client whose sessions are ended with the test."""
    with client(home) as found:
        yield found
        found.call("kill", limit=30, keys=found.call("matching")["keys"], grace=0)


def others_get_on(mine: Client) -> None:
    """Have another session begin, run two turns and be looked at."""
    key = ended(mine, "say one", agent="good", mode="session")["key"]
    assert ended(mine, "say two", session=key)["outcome"] == "completed"
    assert mine.call("status", key=key)["sessions"][0]["state"] == "ready"


def running(mine: Client, key: str) -> bool:
    """Tell whether a session's turn still goes on."""
    return bool(mine.call("status", key=key)["sessions"][0]["turn"])


def newest(home: Home, key: str) -> int:
    with raw(home) as sock:
        return int(asked(sock, "follow", key=key, after=0, live=False)["newest"])


# ---- Bad agents (G13) ----

FLOODS = {
    "updates": f"stream {FOR_EVER} 1024",
    "tiny updates": f"stream {FOR_EVER} 1",
    "noise": "\n".join(["garbage lines 100000"] * 1000),
    "stderr": "\n".join([f"stderr-flood {50 * MIB}"] * 1000),
    "long lines": "\n".join([f"big {8 * MIB}"] * 1000),
    "lines beyond the limit": "\n".join([f"big {60 * MIB}"] * 1000),
}


@pytest.mark.parametrize("flood", sorted(FLOODS))
def test_g13_a_flood_holds_up_no_other_session(mine: Client, flood: str) -> None:
    bad = start(mine, FLOODS[flood], agent="bad")["key"]
    until(lambda: mine.call("status", key=bad)["sessions"][0]["state"] == "running")
    others_get_on(mine)
    assert running(mine, bad)
    assert mine.call("cancel", limit=30, key=bad, grace=0.2)["turnEnded"]


def test_g13_a_stopped_agent_with_a_prompt_pending_holds_up_nobody(mine: Client) -> None:
    """And a kill works on it at once (G13, G1)."""
    bad = ended(mine, "say here", agent="bad", mode="session")["key"]
    rows = mine.call("status", key=bad)["sessions"][0]["processes"]
    os.kill(next(row["pid"] for row in rows if row["role"] == "agent"), signal.SIGSTOP)
    start(mine, "say " + "x" * MIB, session=bad)
    others_get_on(mine)
    assert running(mine, bad)
    assert mine.call("kill", limit=30, keys=[bad], grace=0)["ok"]


@pytest.mark.parametrize("how", ["cancel", "kill"])
def test_g13_an_agent_that_reads_nothing_holds_up_nobody(mine: Client, how: str) -> None:
    """8 MiB wait for a pipe that is full: who prompts another, cancels or kills does not."""
    bad = ended(mine, "say here", agent="bad", mode="session")["key"]
    rows = mine.call("status", key=bad)["sessions"][0]["processes"]
    pid = next(row["pid"] for row in rows if row["role"] == "agent")
    os.kill(pid, signal.SIGSTOP)
    start(mine, "say " + "x" * (8 * MIB), session=bad)
    others_get_on(mine)
    assert running(mine, bad)
    if how == "kill":
        assert mine.call("kill", limit=30, keys=[bad], grace=0)["ok"]
    else:
        receipt = mine.call("cancel", limit=30, key=bad, grace=0.2)
        assert (receipt["rung"], receipt["turnEnded"]) == ("kill", True)


def test_case_46_open_questions_of_one_session_hold_up_no_other(home: Home, mine: Client) -> None:
    """G13: of 1,000 at once 32 are open, the others are a no; another's is asked and answered."""
    lines = "\n".join(["bg ask execute rm"] * 1000)
    bad = start(mine, lines, agent="bad")["key"]
    until(lambda: len(mine.call("questions")["permissions"]) == 32)
    good = start(mine, "ask execute mine", agent="good", mode="session")["key"]
    until(lambda: good in [q["sessionKey"] for q in mine.call("questions")["permissions"]])
    others_get_on(mine)
    question = next(q for q in mine.call("questions")["permissions"] if q["sessionKey"] == good)
    assert mine.call("answer", id=question["id"], effect="allow")["effect"] == "allow"
    until(lambda: not running(mine, good))
    assert running(mine, bad)
    assert home.run("status").code == 0
    assert mine.call("kill", limit=30, keys=[bad], grace=0)["ok"]
    assert mine.call("questions")["permissions"] == []


def test_g13_what_is_said_in_long_lines_is_kept_byte_by_byte(home: Home) -> None:
    """A plan of 100,000 entries and its like are read by nobody here, and arrive as they are."""
    entry = '{"content":"step", "priority":"medium","status":"pending"}'
    plan = '{"sessionUpdate":"plan","entries":[' + ",".join([entry] * 20_000) + "]}"
    done = prompt(home, "good", "say before", f"update {plan}", "say after")
    assert done.code == 0, done.err
    updates = [event["update"] for event in done.events if event["type"] == "update"]
    assert [u["sessionUpdate"] for u in updates][1] == "plan"
    assert len(updates[1]["entries"]) == 20_000
    assert [updates[0]["content"]["text"], updates[2]["content"]["text"]] == ["before", "after"]


# ---- Cases of stalls and floods ----


def test_case_76_a_noisy_stderr_blocks_no_answer(home: Home) -> None:
    sizes = [256 * 1024, 50 * MIB]
    lines = [f"stderr-flood {size}{raw}\nsay {size}" for size in sizes for raw in ("", " raw")]
    assert texts(prompt(home, "good", *lines)) == [str(size) for size in sizes for _ in "12"]


def test_case_79_a_reader_that_pauses_loses_nothing(home: Home, mine: Client) -> None:
    """G14: the turn ends while it pauses, and then it reads all 5,000 in order."""
    receipt = start(mine, "sleep 200\nstream 5000 100", agent="good", mode="session")
    with raw(home) as sock:
        number = asked(sock, "follow", key=receipt["key"], after=0)["follow"]
        assert mine.call("wait", limit=60, runId=receipt["runId"])["outcome"] == "completed"
        events = read_until(sock, number, "turn_ended")
    said = [e["update"]["content"]["text"] for e in events if e["type"] == "update"]
    assert [text.partition(";")[0] for text in said] == [f"chunk {n}" for n in range(5000)]
    check_numbers(events)


def test_case_80_prompts_to_a_busy_session_wait_in_order_or_are_refused(
    home: Home, mine: Client
) -> None:
    """20 wait; the next one is `busy`. The agent never sees two at once."""
    look = Look(home)
    key = start(mine, "ask execute first", agent="logged", mode="session")["key"]
    (question,) = until(lambda: mine.call("questions")["permissions"])
    waiting = [start(mine, f"say {n}", session=key)["runId"] for n in range(20)]
    with pytest.raises(BridgeError) as busy:
        start(mine, "say never", session=key)
    assert busy.value.code == "busy"
    mine.call("answer", id=question["id"], effect="allow")
    for run in waiting:
        assert mine.call("wait", limit=30, runId=run)["outcome"] == "completed"
    assert order_of_prompts(look) == ["ask execute first", *(f"say {n}" for n in range(20))]


def order_of_prompts(look: Look) -> list[str]:
    """Check that each prompt was answered before the next was sent; return their texts."""
    prompts = [m for m in look.sent_to_agent if m.get("method") == "session/prompt"]
    order = []
    for record in [*look.agent("line"), *look.agent("sent")]:
        text = record.get("line", record.get("bytes", ""))
        try:
            message = json.loads(text)
        except ValueError:
            continue
        order.append((record["t"], message))
    ids = [m["id"] for m in prompts]
    seen = [
        ("asked" if "method" in m else "answered", m["id"])
        for _, m in sorted(order, key=lambda row: row[0])
        if m.get("id") in ids and m.get("method") in (None, "session/prompt")
    ]
    assert seen == [(what, number) for number in ids for what in ("asked", "answered")]
    return [m["params"]["prompt"][0]["text"] for m in prompts]


# ---- Bad clients (G14) ----


@contextmanager
def raw(home: Home, *, hello: bool = True) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(30)
        sock.connect(os.fspath(home.path / "daemon.sock"))
        if hello:
            asked(sock, "hello", version="0", wire=WIRE_VERSION)
        yield sock


def asked(sock: socket.socket, method: str, **params: Any) -> Any:
    """Call by hand; return the result, the first line that comes. Reads no byte beyond it."""
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    sock.sendall(json.dumps(request).encode() + b"\n")
    line = b""
    while not line.endswith(b"\n"):
        line += sock.recv(1)
    return json.loads(line)["result"]


def read_events(
    sock: socket.socket, follow: int, enough: Callable[[list[dict[str, Any]]], bool]
) -> list[dict[str, Any]]:
    """Read the events of a follower until there are enough."""
    out: list[dict[str, Any]] = []
    with sock.makefile("rb") as file:
        for line in file:
            params = json.loads(line)["params"]
            assert params["follow"] == follow
            out += params["events"]
            if enough(out):
                break
    return out


def read_until(sock: socket.socket, follow: int, last: str) -> list[dict[str, Any]]:
    """Read the events of a follower up to the first of a type."""
    return read_events(sock, follow, lambda events: bool(events[-1]["type"] == last))


def check_numbers(events: list[dict[str, Any]]) -> None:
    """G16: upwards without a gap, and of one epoch."""
    assert all(after["seq"] == before["seq"] + 1 for before, after in pairwise(events))
    assert len({event["epoch"] for event in events}) == 1


def test_g14_clients_that_never_read_hold_up_nobody(home: Home, mine: Client) -> None:
    """One follows a flood, one asks on and on; neither takes a byte."""
    bad = start(mine, f"stream {FOR_EVER} 1024", agent="bad")["key"]
    with raw(home) as deaf, raw(home) as asker:
        follow = {"jsonrpc": "2.0", "id": 2, "method": "follow", "params": {"key": bad}}
        deaf.sendall(json.dumps(follow).encode() + b"\n")
        question = b'{"jsonrpc":"2.0","id":%d,"method":"sessions","params":{"all":true}}\n'
        asker.sendall(b"".join(question % number for number in range(500)))
        others_get_on(mine)
        assert running(mine, bad)
        done = ended(mine, "stream 3000 1000", agent="good", limit=60)
        assert done["outcome"] == "completed"


def test_g14_a_client_that_reads_a_byte_at_a_time_holds_up_nobody(home: Home, mine: Client) -> None:
    bad = start(mine, f"stream {FOR_EVER} 1024", agent="bad")["key"]
    with raw(home) as slow:
        follow = {"jsonrpc": "2.0", "id": 2, "method": "follow", "params": {"key": bad}}
        slow.sendall(json.dumps(follow).encode() + b"\n")
        for _ in range(3):
            assert slow.recv(1)
            others_get_on(mine)
        assert running(mine, bad)


SHOUTS = {
    "garbage": b"\xff\x00{]\n" * 20_000,
    "a line of 100 MiB": b"x" * (100 * MIB) + b"\n",
    "half a line": b'{"jsonrpc":"2.0","id":7,"method":"sta',
    "nothing": b"",
}


@pytest.mark.parametrize("shout", sorted(SHOUTS))
@pytest.mark.parametrize("hello", [True, False])
def test_g14_what_a_client_sends_holds_up_nobody(
    home: Home, mine: Client, shout: str, *, hello: bool
) -> None:
    daemon = home.daemon_pid()
    with raw(home, hello=hello) as sock:
        talk = threading.Thread(target=_shout, args=(sock, SHOUTS[shout]))
        talk.start()
        try:
            others_get_on(mine)
        finally:
            sock.shutdown(socket.SHUT_RDWR)
            talk.join()
    assert home.status()["daemon"]["pid"] == daemon


def _shout(sock: socket.socket, data: bytes) -> None:
    try:
        sock.sendall(data)
    except OSError:
        return


SPEAK = """
import json, socket, sys
sock = socket.socket(socket.AF_UNIX)
sock.connect(sys.argv[1])
file = sock.makefile("rb")
def say(method, size, **params):
    head = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    sock.sendall(head[:-1] + b" " * max(0, size - len(head)) + b"}\\n")
    answer = json.loads(file.readline())
    return answer["error"]["code"] if "error" in answer else 0
said = [say("sessions", int(size)) for size in sys.argv[3:]] if sys.argv[2] == "-" else []
hello = {"version": "0", "wire": int(sys.argv[2].strip("-") or 0)}
if not said:
    said = [say("hello", 0, **hello), *(say("sessions", int(size)) for size in sys.argv[3:])]
print(json.dumps(said))
"""


def answers(home: Home, wire: str, *sizes: int, mark: str = "") -> list[int]:
    """Send lines of so many bytes from a process of its own; return the code of each answer."""
    words = [sys.executable, "-c", SPEAK, os.fspath(home.path / "daemon.sock"), wire]
    env = {**home.env, "ACPBRIDGE_MARK": mark} if mark else home.env
    done = subprocess.run(
        [*words, *map(str, sizes)], capture_output=True, check=True, timeout=30, env=env
    )
    return list(json.loads(done.stdout))


def test_g14_who_a_client_is_says_how_long_its_lines_may_be(home: Home, mine: Client) -> None:
    """A line beyond the limit is lost and answered as an invalid request; the next one is read."""
    key = ended(mine, "say here", agent="good", mode="session")["key"]
    invalid, wire = -32600, str(WIRE_VERSION)
    not_greeted = answers(home, "-", STRANGER_LINE - 10, STRANGER_LINE + 10)
    assert not_greeted[1] == invalid
    assert len(set(not_greeted)) == 1 or not_greeted[0] != 0
    inside = answers(home, wire, AGENT_LINE - 10, AGENT_LINE + 10, 0, mark=f"{key}.x")
    assert inside == [0, 0, invalid, 0]
    assert answers(home, wire, AGENT_LINE + 10, 10 * MIB + 10, 0) == [0, 0, invalid, 0]


def test_g14_a_client_that_ends_its_own_direction_is_still_answered(home: Home) -> None:
    with raw(home) as sock:
        sock.sendall(b'{"jsonrpc":"2.0","id":9,"method":"sessions","params":{}}\n')
        sock.shutdown(socket.SHUT_WR)
        with sock.makefile("rb") as file:
            answers = [json.loads(line) for line in file]
    assert [answer["id"] for answer in answers] in ([9], [])


def test_g14_a_crowd_of_clients_that_say_nothing_holds_up_nobody(home: Home, mine: Client) -> None:
    crowd = [socket.socket(socket.AF_UNIX) for _ in range(MAX_CLIENTS)]
    try:
        for sock in crowd:
            sock.settimeout(30)
            sock.connect(os.fspath(home.path / "daemon.sock"))
        assert crowd[-1].recv(1) == b""  # with `mine` it is one too many
        others_get_on(mine)
    finally:
        for sock in crowd:
            sock.close()


# ---- Numbers (G16) ----


def test_g16_numbers_have_no_gap_from_replay_to_live_under_load(home: Home, mine: Client) -> None:
    """A follower begins late in a flood, reads what is on disk alone by then, then what comes.

    So does one that is cut off and comes again with the number that it had. Without the `None` in
    `Stream.since` the first numbers are missing.
    """
    receipt = start(mine, "stream 10000 500", agent="good", mode="session")
    key = receipt["key"]
    until(lambda: newest(home, key) > 8000)
    with raw(home) as sock:
        number = asked(sock, "follow", key=key, after=0)["follow"]
        seen = read_events(sock, number, lambda events: len(events) >= 3000)
    assert [event["seq"] for event in seen] == list(range(1, len(seen) + 1))
    with raw(home) as sock:
        number = asked(sock, "follow", key=key, after=seen[-1]["seq"])["follow"]
        rest = read_until(sock, number, "turn_ended")
    check_numbers([*seen, *rest])
    said = [e["update"]["content"]["text"] for e in [*seen, *rest] if e["type"] == "update"]
    assert [text.partition(";")[0] for text in said] == [f"chunk {n}" for n in range(10000)]


def test_g16_a_new_epoch_goes_on_with_the_next_number(tmp_path: Path) -> None:
    with daemon_home(tmp_path) as home:
        home.configure(good=("--memory", str(tmp_path / "memory"), "--resume"))
        assert home.run("run", "--agent", "good", "--mode", "session", "say one").code == 0
        key = home.session()["key"]
        assert home.run("daemon", "restart").code == 0
        assert home.run("run", "--session", key, "say two").code == 0
        events = home.run("logs", key, "--json").events
    seqs = [event["seq"] for event in events]
    assert seqs == list(range(1, len(seqs) + 1))
    epochs = [event["epoch"] for event in events]
    assert len(set(epochs)) == 2
    assert epochs == sorted(epochs, key=epochs.index)
