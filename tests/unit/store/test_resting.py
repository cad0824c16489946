"""Sessions at rest take little of a daemon's memory: objects are counted, for RSS tells nothing."""

import gc
import uuid
from pathlib import Path

import anyio

from acpbridge.model.events import Fact
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.store.lines import Template
from acpbridge.store.ring import Chunk, Stream
from acpbridge.store.sessionlog import SessionLog
from tests.unit.store.test_forgetting import Clock, say

SESSIONS = 50


def alive(kind: type) -> int:
    gc.collect()
    return sum(type(one) is kind for one in gc.get_objects())


async def live(log: SessionLog, key: SessionKey, turn: str) -> None:
    """Have a session go through a turn, and its process end."""
    for kind in ("turn_queued", "turn_started"):
        log.append(key, turn, Fact(kind))
    log.append(key, turn, say("words"))
    log.append(key, turn, Fact("turn_ended"))
    log.append(key, None, Fact("process_exited"))
    await log.committed(key)


async def test_a_session_at_rest_has_no_stream_and_no_templates_and_goes_on_where_it_was(
    tmp_path: Path,
) -> None:
    """With the stream held by `_Session`: 50 streams; with templates outside of turns: 50."""
    before = [alive(kind) for kind in (Stream, Chunk, Template)]
    with anyio.fail_after(15):
        async with SessionLog(tmp_path, Clock(), "e", lambda line: line, ring_bytes=1) as log:
            keys = [SessionKey.acp(AgentId("codex"), uuid.uuid4()) for _ in range(SESSIONS)]
            for key in keys:
                await log.open(key)
                await live(log, key, "t1")
            assert [alive(kind) for kind in (Stream, Chunk, Template)] == before
            async with log.follow(keys[0], 5) as early, log.follow(keys[0], 5) as late:
                await live(log, keys[0], "t2")
                for follower in (early, late):
                    lines = list[bytes]()
                    while len(lines) < 5:
                        lines += await follower.read()
                    assert [line[:9] for line in lines] == [
                        b'{"seq":%d,' % n for n in range(6, 10)
                    ] + [b'{"seq":10']
            assert log.last_seq(keys[0]) == 10


async def test_a_log_that_is_opened_twice_at_once_is_mended_once(tmp_path: Path) -> None:
    """Without the wait for who opens it already: two ends."""
    key = SessionKey.acp(AgentId("codex"), uuid.uuid4())

    async def mend(_traces: object) -> list[tuple[str | None, Fact]]:
        await anyio.lowlevel.checkpoint()
        return [("t1", Fact("turn_failed"))]

    with anyio.fail_after(15):
        async with SessionLog(tmp_path, Clock(), "e", lambda line: line) as log:
            async with anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(log.open, key, mend)
            assert log.last_seq(key) == 1
            await log.committed(key)
