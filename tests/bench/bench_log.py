"""Events per second through the session log, against plain JSONL, alternating in one run.

Run it by hand: `python tests/bench/bench_log.py [EVENTS] [FOLLOWERS]`. It asserts nothing.
"""

import os
import resource
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import anyio

from acpbridge.model.events import Stamp, Update, render
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.store.follower import Follower
from acpbridge.store.sessionlog import SessionLog

ROUNDS = 5
PER_CHUNK = 180  # lines of one read of 64 KiB
EVENT = Update(
    b'{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"}}' % (b"x" * 140)
)


class SystemClock:
    def wall(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        return time.monotonic()


def new_key() -> SessionKey:
    return SessionKey.acp(AgentId("codex"), uuid.uuid4())


async def through_the_log(root: Path, count: int, followers: int) -> None:
    async def follow(follower: Follower) -> None:
        while follower.position < count:
            await follower.read()

    async with SessionLog(root, SystemClock(), "epoch", lambda line: line) as log:
        key = new_key()
        await log.open(key)
        async with anyio.create_task_group() as tasks:
            for _ in range(followers):
                tasks.start_soon(follow, log.follow(key))
            for number in range(count):
                log.append(key, "turn", EVENT)
                if number % PER_CHUNK == 0:
                    await log.room()
                    await anyio.lowlevel.checkpoint()
        await log.committed(key)


async def append_only(root: Path, count: int) -> None:
    await through_the_log(root, count, 0)


async def one_follower(root: Path, count: int) -> None:
    await through_the_log(root, count, 1)


async def sixteen_followers(root: Path, count: int) -> None:
    await through_the_log(root, count, 16)


async def jsonl_by_message(root: Path, count: int) -> None:
    """A rendered line and a write per event, nobody following."""
    key = new_key()
    handle = os.open(root / "events.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for number in range(count):
        at = datetime.now(UTC).isoformat()
        os.write(handle, render(EVENT, Stamp(number, "epoch", at, key, "turn")) + b"\n")
    os.close(handle)


async def jsonl_by_chunk(root: Path, count: int) -> None:
    """Rendered once beforehand, a write per read of the agent: the least a log can cost."""
    line = render(EVENT, Stamp(1, "epoch", datetime.now(UTC).isoformat(), new_key(), "turn"))
    handle = os.open(root / "events.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for _ in range(0, count, PER_CHUNK):
        os.write(handle, b"\n".join([line] * PER_CHUNK))
    os.close(handle)


async def idle_latency(root: Path) -> list[float]:
    """Seconds from append to a waiting follower, one event at a time."""
    taken: list[float] = []
    async with SessionLog(root, SystemClock(), "epoch", lambda line: line) as log:
        key = new_key()
        await log.open(key)
        follower = log.follow(key)
        for _ in range(500):
            began = time.perf_counter()
            log.append(key, "turn", EVENT)
            await follower.read()
            taken.append(time.perf_counter() - began)
    return taken


def cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def measure(run: Callable[[Path, int], Awaitable[None]], count: int) -> tuple[float, float]:
    """Return microseconds of time and of CPU per event."""
    with tempfile.TemporaryDirectory() as root:
        began, used = time.perf_counter(), cpu()
        await run(Path(root), count)
        return (time.perf_counter() - began) / count * 1e6, (cpu() - used) / count * 1e6


async def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    runs = [jsonl_by_message, jsonl_by_chunk, append_only, one_follower, sixteen_followers]
    figures: dict[str, list[tuple[float, float]]] = {run.__name__: [] for run in runs}
    for _ in range(ROUNDS):
        for run in runs:
            figures[run.__name__].append(await measure(run, count))
    yardstick = [used for _, used in figures["jsonl_by_message"]]
    print(f"{count} events, {ROUNDS} rounds; medians, ratio of CPU with min and max")
    for name, rounds in figures.items():
        wall, used = (statistics.median(column) for column in zip(*rounds, strict=True))
        ratios = [mine / its for (_, mine), its in zip(rounds, yardstick, strict=True)]
        print(
            f"{name:18} {1e6 / wall:10,.0f} events/s {used:6.2f} us CPU/event"
            f"   {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f}) x JSONL"
        )
    with tempfile.TemporaryDirectory() as root:
        taken = sorted(await idle_latency(Path(root)))
    print(f"append to follower, idle: p50 {taken[250] * 1e6:.0f} us, p99 {taken[494] * 1e6:.0f} us")


if __name__ == "__main__":
    anyio.run(main)
