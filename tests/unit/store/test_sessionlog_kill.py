"""What a log has shown is on disk after SIGKILL, at every fault point and at random moments."""

import json
import random
import signal
import sqlite3
import subprocess
import sys
import uuid
from contextlib import closing
from pathlib import Path

import anyio
import pytest

from acpbridge.model.keys import AgentId, SessionKey

COUNT = 100_000

CHILD = """
import os, signal, sys
from datetime import UTC, datetime
from pathlib import Path
import anyio
from acpbridge.model.events import Update
from acpbridge.model.keys import SessionKey
from acpbridge.store.sessionlog import SessionLog

root, epoch, point, nth, count = sys.argv[1:6]
keys = [SessionKey.parse(text) for text in sys.argv[6:]]
passed = 0

class Clock:
    def wall(self): return datetime.now(UTC)
    def monotonic(self): return 0.0

def faults(here):
    global passed
    passed += here == point
    if here == point and passed == int(nth):
        os.kill(os.getpid(), signal.SIGKILL)

async def show(follower, number):
    while True:
        lines = await follower.read()
        os.write(1, b"%d %d\\n" % (number, follower.position))

async def main():
    async with SessionLog(Path(root), Clock(), epoch, lambda line: line, faults) as log:
        async with anyio.create_task_group() as tasks:
            for number, key in enumerate(keys):
                last = await log.open(key)
                tasks.start_soon(show, log.follow(key, last), number)
            for n in range(int(count)):
                for key in keys:
                    log.append(key, "t", Update(b'{"n":%d}' % n))
                if n % 5 == 0:
                    await log.room()
                    await anyio.sleep(0)

anyio.run(main)
"""


def start(root: Path, keys: list[SessionKey], epoch: str, point: str, nth: int) -> list[str]:
    arguments = [str(root), epoch, point, str(nth), str(COUNT), *map(str, keys)]
    return [sys.executable, "-c", CHILD, *arguments]


def shown(output: bytes, keys: list[SessionKey]) -> dict[SessionKey, int]:
    """Return the last number that was shown of each session; a torn last line was not."""
    last = dict.fromkeys(keys, 0)
    for line in output.split(b"\n")[:-1]:
        number, seq = map(int, line.split())
        last[keys[number]] = seq
    return last


def check(root: Path, keys: list[SessionKey], last: dict[SessionKey, int]) -> None:
    """Every event up to the last that was shown is there once, under its number."""
    for key in keys:
        path = root / "agents" / key.agent / "sessions" / "events.db"
        if not path.exists():
            assert last[key] == 0
            continue
        with closing(sqlite3.connect(path)) as connection:
            query = "SELECT lines FROM events WHERE session_key = ? ORDER BY last_seq"
            rows = connection.execute(query, (str(key),)).fetchall()
        found = [json.loads(line) for (blob,) in rows for line in blob.split(b"\n")]
        assert [event["seq"] for event in found] == list(range(1, len(found) + 1))
        assert len(found) >= last[key]


@pytest.fixture
def keys() -> list[SessionKey]:
    agents = (AgentId("codex"), AgentId("codex"), AgentId("claude"))
    return [SessionKey.acp(agent, uuid.uuid4()) for agent in agents]


@pytest.mark.parametrize("point", ["log.before_commit", "log.after_commit"])
@pytest.mark.parametrize("nth", [1, 2, 7])
async def test_what_was_shown_is_there_after_a_kill_at_a_fault_point(
    tmp_path: Path, keys: list[SessionKey], point: str, nth: int
) -> None:
    for epoch in ("e1", "e2"):
        with anyio.fail_after(15):
            command = start(tmp_path, keys, epoch, point, nth)
            done = await anyio.run_process(command, check=False, stderr=None)
        assert done.returncode == -signal.SIGKILL
        check(tmp_path, keys, shown(done.stdout, keys))


def test_what_was_shown_is_there_after_a_kill_at_any_moment(
    tmp_path: Path, keys: list[SessionKey]
) -> None:
    seed = random.randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    before = dict.fromkeys(keys, 0)
    for epoch in range(3):
        child = subprocess.Popen(
            start(tmp_path, keys, f"e{epoch}", "never", 0), stdout=subprocess.PIPE
        )
        assert child.stdout is not None
        output = b""
        # The moment is a number of bytes that were shown, so a slow machine is killed later.
        for _ in range(chance.randrange(1, 200)):
            output += child.stdout.readline()
        child.kill()
        output += child.stdout.read()
        child.stdout.close()
        assert child.wait() == -signal.SIGKILL
        last = shown(output, keys)
        # One alone may be behind the others: few lines are shown where the number drawn is small.
        assert any(last[key] > before[key] for key in keys)
        before = {key: max(last[key], before[key]) for key in keys}
        check(tmp_path, keys, last)
