"""How a run is getting on, shown to the session that had asked for it: contract 3.8."""

import json
from pathlib import Path
from typing import Any

import anyio.lowlevel

from acpbridge.model.events import Update
from acpbridge.model.keys import SessionKey
from acpbridge.router import relaying
from acpbridge.router.api import RunReceipt
from acpbridge.router.relaying import Relaying
from acpbridge.router.spawn_requests import SpawnRequest
from acpbridge.transport.tasks import background
from tests.unit.router.world import World, agent_in, until, world


async def a_child(w: World, words: str = "wait", **how: Any) -> tuple[SessionKey, RunReceipt]:
    parent, _ = await w.done("say hello", one_shot=False)
    await w.is_ready(parent.key)
    return parent.key, await w.run(words, by=agent_in(parent.key), detached=True, **how)


async def relayed(w: World, parent: SessionKey, run_id: str) -> list[tuple[str, str]]:
    """Return the notices of a run by the last part of their context key."""
    found = [event for event in await w.events(parent) if event.get("kind") == "relay"]
    keys = [event["contextKey"].rpartition(":") for event in found]
    assert {head for head, _, _ in keys} <= {f"acp-spawn:{run_id}"}
    return [(word, event["message"]) for (_, _, word), event in zip(keys, found, strict=True)]


async def said(w: World, parent: SessionKey, run_id: str, word: str) -> str:
    while True:
        for one, message in await relayed(w, parent, run_id):
            if one == word:
                return message
        await anyio.lowlevel.checkpoint()


def say(w: World, key: SessionKey, text: str, kind: str = "agent_message_chunk") -> None:
    block = {"sessionUpdate": kind, "content": {"type": "text", "text": text}}
    w.agent(key).host.emit(Update(json.dumps(block).encode(), kind))


async def test_3_8_what_a_child_says_is_shown_in_bits_and_its_end_once(tmp_path: Path) -> None:
    async with world(tmp_path) as w, background() as tasks:
        parent, child = await a_child(w)
        Relaying(w.router._directory, w.services, tasks).start(child, parent)
        await w.diary.has("prompt wait")
        say(w, child.key, "x" * 5000 + "looking \n around\x1b")
        say(w, child.key, "a thought", "agent_thought_chunk")
        sleeps = w.clock.sleeps
        await w.log.committed(child.key)
        while not [one for one in await relayed(w, parent, child.run_id) if one[0] == "progress"]:
            w.clock.advance(relaying.FLUSH)
            await until(lambda sleeps=sleeps: w.clock.sleeps > sleeps)  # type: ignore[misc]
            sleeps = w.clock.sleeps
        message = await said(w, parent, child.run_id, "progress")
        assert message.endswith("xlooking around⟨U+001B⟩")
        assert len(message) <= relaying.SNIPPET + len("⟨U+001B⟩")
        w.agent(child.key).answer("end_turn")
        assert (await said(w, parent, child.run_id, "done")).endswith(": end_turn")
        # The clock may have gone on for longer than the reader took.
        words = [word for word, _ in await relayed(w, parent, child.run_id)]
        told = [word for word in words if word not in ("stall", "resumed")]
        assert told == ["start", "progress", "done"]


async def test_3_8_what_was_said_last_is_shown_with_the_end_though_no_time_went_by(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w, background() as tasks:
        parent, child = await a_child(w, "say found-it")
        Relaying(w.router._directory, w.services, tasks).start(child, parent)
        await said(w, parent, child.run_id, "done")
        told = await relayed(w, parent, child.run_id)
        assert told[1:] == [("progress", "found-it"), ("done", f"{child.key}: end_turn")]


async def test_3_8_each_bad_end_has_its_word(tmp_path: Path) -> None:
    async with world(tmp_path) as w, background() as tasks:
        relay = Relaying(w.router._directory, w.services, tasks)
        parent, child = await a_child(w, "crash")
        relay.start(child, parent)
        assert "The agent died" in await said(w, parent, child.run_id, "error")
        parent, child = await a_child(w, timeout=0.01)
        relay.start(child, parent)
        assert "did not end in" in await said(w, parent, child.run_id, "timeout")


async def test_3_8_a_silence_is_told_once_with_its_kind_and_that_it_is_over(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w, background() as tasks:
        parent, child = await a_child(w, env={"https_proxy": "http://secret@x", "PATH": "/bin"})
        await w.diary.has("prompt wait")
        Relaying(w.router._directory, w.services, tasks).start(child, parent)
        await said(w, parent, child.run_id, "start")
        await go_on(w, parent, child, "stall")
        (stall,) = [m for word, m in await relayed(w, parent, child.run_id) if word == "stall"]
        assert "it was prompted, and nothing has come from its agent" in stall
        assert stall.endswith("the proxies https_proxy")
        say(w, child.key, "here I am")
        await w.log.committed(child.key)
        await go_on(w, parent, child, "resumed")
        await go_on(w, parent, child, "stall", 2)
        stalls = [m for word, m in await relayed(w, parent, child.run_id) if word == "stall"]
        assert stalls[1].endswith("it is silent after what it said")


async def go_on(w: World, parent: SessionKey, child: RunReceipt, word: str, times: int = 1) -> None:
    """Let time go by in small steps until a notice was there so often."""
    while [one for one, _ in await relayed(w, parent, child.run_id)].count(word) < times:
        sleeps = w.clock.sleeps
        w.clock.advance(relaying.FLUSH)
        await until(lambda sleeps=sleeps: w.clock.sleeps > sleeps)  # type: ignore[misc]


async def test_3_8_a_spawn_that_asks_for_it_is_relayed(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        parent, _ = await w.done("say hello", one_shot=False)
        await w.is_ready(parent.key)
        wanted = SpawnRequest(
            task="say found-it",
            runtime="acp",
            agent_id="fake",
            cwd=w.cwd,
            stream_to="parent",
            expects_completion_message=False,
        )
        receipt = await w.router.tool(wanted, agent_in(parent.key))
        await said(w, parent.key, receipt["runId"], "done")
        words = [word for word, _ in await relayed(w, parent.key, receipt["runId"])]
        assert words == ["start", "progress", "done"]
