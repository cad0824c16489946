"""What one bad agent or client adds to the round trips of another session.

Run it by hand: `python -m tests.bench.bench_isolation [SECONDS] [NAME...]`. Each bad thing goes on
for as long as the healthy session is measured; quiet windows alternate with bad ones. It asserts
nothing: p99 on a shared machine is a figure to look at.

A turn is a prompt to a living session and its end on record; a call is the daemon's answer alone.
"""

import json
import os
import signal
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.integration.daemon_home import Home, daemon_home, until
from tests.integration.traffic import Client, client, ended, start

MIB = 1024 * 1024
ROUNDS = 3


def scene(*lines: str, agent: str = "bad", **fields: Any) -> Any:
    """An agent of its own that is given these directives again and again."""

    @contextmanager
    def going_on(home: Home) -> Iterator[None]:
        stop = threading.Event()

        def repeat() -> None:
            while not stop.is_set():
                with client(home) as mine:
                    receipt = start(mine, "\n".join(lines), agent=agent, **fields)
                    keys.append(receipt["key"])
                    while not stop.is_set():
                        try:
                            mine.call("wait", limit=0.5, runId=receipt["runId"])
                            break
                        except Exception:  # noqa: BLE001 - it goes on, which is what is wanted
                            mine = mine_again(home)

        keys: list[str] = []
        worker = threading.Thread(target=repeat)
        worker.start()
        until(lambda: bool(keys))
        try:
            yield
        finally:
            stop.set()
            worker.join()
            with client(home) as mine:
                mine.call("kill", limit=30, keys=keys[-1:], grace=0)

    return going_on


def mine_again(home: Home) -> Client:
    """A connection in place of one whose answer was not waited for."""
    return client(home).__enter__()


@contextmanager
def stopped(home: Home) -> Iterator[None]:
    """SIGSTOP with 1 MiB of a prompt pending."""
    with client(home) as mine:
        key = ended(mine, "say here", agent="bad", mode="session")["key"]
        row = mine.call("status", key=key)["sessions"][0]
        (pid,) = [p["pid"] for p in row["processes"] if p["role"] == "agent"]
        os.kill(pid, signal.SIGSTOP)
        start(mine, "say " + "x" * MIB, session=key)
        try:
            yield
        finally:
            mine.call("kill", limit=30, keys=[key], grace=0)


@contextmanager
def deaf(home: Home) -> Iterator[None]:
    """An agent that reads no more, and 8 MiB of a prompt for it."""
    with client(home) as mine:
        first = start(mine, "close-stdin-not\nbg hang-deaf", agent="bad", mode="session")
        start(mine, "say " + "x" * (8 * MIB), session=first["key"])
        try:
            yield
        finally:
            mine.call("kill", limit=30, keys=[first["key"]], grace=0)


def raw_socket(home: Home) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX)
    sock.connect(str(home.path / "daemon.sock"))
    return sock


HELLO = {"jsonrpc": "2.0", "id": 0, "method": "hello", "params": {"version": "0", "wire": 2}}


@contextmanager
def unread(home: Home) -> Iterator[None]:
    """A client that follows a flood and never reads."""
    with scene("stream 100000 1024")(home), raw_socket(home) as sock, client(home) as mine:
        rows = until(
            lambda: [r for r in mine.call("sessions")["sessions"] if r["agentId"] == "bad"]
        )
        follow = {"key": rows[0]["key"], "after": 0}
        ask = {"jsonrpc": "2.0", "id": 1, "method": "follow", "params": follow}
        sock.sendall(b"".join(json.dumps(m).encode() + b"\n" for m in (HELLO, ask)))
        yield


@contextmanager
def long_garbage(home: Home) -> Iterator[None]:
    """A client that sends lines of 100 MiB."""
    stop = threading.Event()

    def shout() -> None:
        while not stop.is_set():
            try:
                with raw_socket(home) as sock:
                    sock.sendall(json.dumps(HELLO).encode() + b"\n")
                    for _ in range(100):
                        sock.sendall(b"x" * MIB)
                    sock.sendall(b"\n")
            except OSError:
                continue

    worker = threading.Thread(target=shout)
    worker.start()
    try:
        yield
    finally:
        stop.set()
        worker.join()


@contextmanager
def crowd(home: Home) -> Iterator[None]:
    """400 clients that say nothing."""
    socks = [raw_socket(home) for _ in range(400)]
    try:
        yield
    finally:
        for sock in socks:
            sock.close()


SCENES: dict[str, Any] = {
    "quiet": scene("sleep 100000"),
    "a stopped": stopped,
    "b flood of 1 KiB": scene("stream 100000 1024"),
    "b tiny flood": scene("stream 100000 1"),
    "c line of 60 MiB": scene(f"big {60 * MIB}"),
    "c line of 8 MiB": scene(f"big {8 * MIB}"),
    "c line of 8 MiB, urls": scene(f"big {8 * MIB} https://example.org/a/b?c=d\\n "),
    "c plan of 100,000": scene(
        "update "
        + json.dumps(
            {
                "sessionUpdate": "plan",
                "entries": [
                    {"content": f"step {n}", "priority": "medium", "status": "pending"}
                    for n in range(100_000)
                ],
            }
        )
    ),
    "c nested": scene(
        "update " + json.dumps({"sessionUpdate": "plan", "entries": [[] for _ in range(300_000)]})
    ),
    "d stderr 50 MiB": scene(f"stderr-flood {50 * MIB}"),
    "e deaf": deaf,
    "f 1000 questions": scene(*["bg ask execute rm"] * 1000, "join"),
    "g noise": scene("garbage lines 100000"),
    "client unread": unread,
    "client garbage": long_garbage,
    "client crowd": crowd,
}


def measure(home: Home, key: str, seconds: float) -> tuple[list[float], list[float]]:
    turns, calls = [], []
    with client(home) as mine:
        until_ = time.monotonic() + seconds
        while time.monotonic() < until_:
            began = time.monotonic()
            done = ended(mine, "say pong", session=key)
            turns.append(time.monotonic() - began)
            assert done["outcome"] == "completed", done
            for _ in range(5):
                began = time.monotonic()
                mine.call("questions")
                calls.append(time.monotonic() - began)
    return turns, calls


def p(values: list[float], part: float) -> float:
    values = sorted(values)
    return 1000 * values[min(len(values) - 1, int(part * len(values)))]


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    wanted = sys.argv[2:]
    chosen = {n: s for n, s in SCENES.items() if not wanted or any(w in n for w in wanted)}
    place = tempfile.TemporaryDirectory()
    with place as tmp, daemon_home(Path(tmp)) as home:
        home.configure({"maxProcesses": 50}, fake=(), bad=())
        assert home.run("daemon", "start").code == 0
        with client(home) as mine:
            key = ended(mine, "say hello", agent="fake", mode="session")["key"]
        print(
            f"{'ms':24}{'turn p50':>9}{'p99':>8}{'max':>8}{'quiet p99':>11}{'added':>8}"
            f"{'call p50':>10}{'p99':>8}{'max':>8}{'quiet p99':>11}{'added':>8}   n"
        )
        for name, bad in chosen.items():
            sets: list[list[float]] = [[], [], [], []]
            for _ in range(ROUNDS):
                for at, values in enumerate(measure(home, key, seconds / 2)):
                    sets[at] += values
                with bad(home):
                    for at, values in enumerate(measure(home, key, seconds)):
                        sets[2 + at] += values
            row = f"{name:24}"
            for quiet, busy, width in ((sets[0], sets[2], 9), (sets[1], sets[3], 10)):
                row += f"{1000 * statistics.median(busy):{width}.1f}{p(busy, 0.99):8.1f}"
                row += f"{1000 * max(busy):8.1f}{p(quiet, 0.99):11.1f}"
                row += f"{p(busy, 0.99) - p(quiet, 0.99):8.1f}"
            print(f"{row}   {len(sets[2])}", flush=True)


if __name__ == "__main__":
    main()
