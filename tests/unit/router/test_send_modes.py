"""How a message reaches a session otherwise than by a turn: notes, steering, watching, resuming."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from acpbridge.errors import BridgeError
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.messages import PromptRequest
from acpbridge.router import notes as limits
from acpbridge.router.notes import Note, Notes
from acpbridge.router.turns import Turn
from acpbridge.router.watching import MOST, Watching
from tests.unit.router.test_send import (
    MAIN,
    RESEARCH,
    WRITER,
    configured,
    have,
    pass_on,
    peers,
    queued,
    send,
    started,
)
from tests.unit.router.world import OPERATOR, World, agent_in, refused, until, world


def blocks(w: World, key: SessionKey) -> list[str]:
    """Return the texts of the prompt that a session's agent has got last."""
    return [str(block["text"]) for block in w.agent(key).contents[-1]]


async def told(w: World, key: SessionKey) -> list[dict[str, Any]]:
    """Return the notices of what a session was told beside its prompts."""
    return [e for e in await w.events(key) if e.get("kind") == "note_told"]


# ---- notify ----


async def test_a_note_wakes_nobody_and_comes_with_the_next_turn_once(tmp_path: Path) -> None:
    async with world(tmp_path, config=configured()) as w:
        by = await peers(w)
        how: dict[str, Any] = {"session_key": str(RESEARCH), "mode": "notify"}
        done = await send(w, by, "the build is green", **how)
        assert done == {
            "status": "queued",
            "sessionKey": str(RESEARCH),
            "notificationId": done["notificationId"],
            "durability": "process",
            "runStarted": False,
        }
        assert w.session(RESEARCH).at_rest
        await send(w, OPERATOR, "from a person", **how)
        await w.run("say a", key=RESEARCH)
        await w.is_ready(RESEARCH)
        first, note, persons = blocks(w, RESEARCH)
        assert first == "say a"
        assert note.startswith("[Inter-session message] sourceSession=agent:main:main")
        assert note.endswith("\n\nthe build is green")
        assert persons.endswith("from a person")
        assert "isUser=false" not in persons
        notices = await told(w, RESEARCH)
        assert [n["provenance"]["kind"] for n in notices] == ["inter_session", "external_user"]
        assert notices[0]["notificationId"] == done["notificationId"]
        assert notices[0]["provenance"]["correlationId"]
        assert RESEARCH not in w.services.notes._kept  # nothing is kept of what was told
        await w.done("say b", key=RESEARCH)
        assert blocks(w, RESEARCH) == ["say b"]


async def test_a_note_that_was_not_heard_comes_with_the_prompt_after(tmp_path: Path) -> None:
    notes, key = Notes(), RESEARCH
    notes.add(key, Note("n", "text", {}))

    def turn(code: str = "") -> Turn:
        made = Turn("r", PromptRequest(OPERATOR, key, ()), "now")
        made.error = BridgeError(code, "x") if code else None
        return made

    unheard = turn("mode_not_set")
    assert len(notes.behind(key, unheard, ())[1]) == 1
    assert len(notes.behind(key, unheard, ())[0]) == 1  # the same prompt once more
    notes.over(key, unheard)
    heard = turn("turn_failed")
    assert [note.id for note in notes.behind(key, heard, ())[1]] == ["n"]
    notes.over(key, heard)
    assert notes.behind(key, turn(), ()) == ((), [])


async def test_as_many_notes_wait_as_fit_and_more_are_refused_with_none_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    notes = Notes()
    for number in range(limits.MOST):
        notes.add(RESEARCH, Note(str(number), "x", {}))
    with pytest.raises(BridgeError, match="was not told") as caught:
        notes.add(RESEARCH, Note("more", "x", {}))
    assert caught.value.code == "busy"
    notes.add(RESEARCH, Note("3", "y", {}))  # in place of the one before
    turn = Turn("r", PromptRequest(OPERATOR, RESEARCH, ()), "now")
    found = notes.behind(RESEARCH, turn, ())[1]
    assert [note.id for note in found] == [str(number) for number in range(limits.MOST)]
    assert found[3].block["text"] == "y (and 1 changes before)"
    monkeypatch.setattr(limits, "SIZE", 10)
    notes.add(WRITER, Note("long", "x" * 20, {}))  # one alone always fits
    with pytest.raises(BridgeError):
        notes.add(WRITER, Note("b", "x", {}))
    monkeypatch.setattr(limits, "SIZE_OF_ALL", 60)
    with pytest.raises(BridgeError):
        notes.add(MAIN, Note("c", "x" * 20, {}))
    notes.forget(WRITER)
    notes.add(MAIN, Note("c", "x" * 20, {}))


# ---- steer and resume ----


async def test_steering_waits_for_the_end_of_the_turn_and_says_so(tmp_path: Path) -> None:
    async with world(tmp_path, config=configured()) as w:
        by = await peers(w)
        how: dict[str, Any] = {"session_key": str(RESEARCH), "mode": "steer", "timeout_seconds": 0}
        await refused("not_running", send(w, by, "say x", **how))
        assert w.session(RESEARCH).at_rest
        await w.run("busy", key=RESEARCH)
        await w.diary.has("prompt busy", 2)
        done = await send(w, by, "say x", **how)
        assert (done["status"], done["targetDisposition"]) == ("accepted", "queued")
        assert "waits for the end" in done["message"]
        await queued(w, RESEARCH, 1)
        assert "cancel" not in w.diary.lines
        w.agent(RESEARCH).answer("end_turn")
        await w.diary.has("prompt say x")


async def test_what_goes_on_is_a_python_child_of_one_s_own_that_rests(tmp_path: Path) -> None:
    async with world(tmp_path, config=configured()) as w:
        by = await peers(w)
        child, other = (SessionKey.subagent(AgentId("writer"), uuid4()) for _ in range(2))
        await have(w, child, MAIN, runtime="python")
        await have(w, other, runtime="python")
        how: dict[str, Any] = {"mode": "resume"}
        for key in (child, other, RESEARCH):
            await refused("not_paused", send(w, by, "say x", session_key=str(key), **how))
        task, _ = await w.done("say a", key=child)
        done = await send(w, by, "say on", session_key=str(child), **how)
        assert done == {
            "status": "accepted",
            "mode": "resume",
            "runId": done["runId"],
            "taskRunId": task.run_id,
            "sessionKey": str(child),
            "completion": "task",
        }
        stored = await w.ledger.run(done["runId"])
        assert stored is not None
        assert stored.deliver_to == str(MAIN)
        await w.run("busy", key=child)
        await w.diary.has("prompt busy", 2)
        await refused("not_paused", send(w, by, "say x", session_key=str(child), **how))


# ---- watch ----


async def test_who_watches_is_told_once_of_the_latest_and_not_of_what_it_did_itself(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, config=configured()) as w:
        by = await peers(w)
        await send(w, by, "say a", session_key=str(RESEARCH), watch=True)
        assert not w.services.notes._kept.get(MAIN)
        for text in ("say b", "raise"):
            await w.done(text, key=RESEARCH)
        await w.router.close(str(RESEARCH), OPERATOR)
        w.agent(MAIN).answer("end_turn")
        await w.done("say now", key=MAIN)
        prompt, news = blocks(w, MAIN)
        assert prompt == "say now"
        assert "agent:research:main: closed: closed (and 4 changes before)" in news
        (notice,) = await told(w, MAIN)
        assert notice["provenance"] == {
            "kind": "internal_system",
            "sourceSessionKey": str(RESEARCH),
            "targetSessionKey": str(MAIN),
            "sourceTool": "sessions_send",
        }
        assert not w.services.watching._watchers


async def test_nobody_is_told_who_does_not_watch_but_a_parent_to_whose_child_a_person_speaks(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, config=configured()) as w:
        by = await peers(w)
        child = SessionKey.acp(AgentId("writer"), uuid4())
        await have(w, child, MAIN)
        await send(w, by, "say a", session_key=str(child))
        await w.done("say b", key=RESEARCH)
        assert not w.services.notes._kept.get(MAIN)
        await w.done("say c", key=child)
        w.agent(MAIN).answer("end_turn")
        await w.done("say now", key=MAIN)
        assert blocks(w, MAIN)[1].endswith(f"- {child}: human_direct_message")


def test_as_many_watch_and_are_watched_as_may() -> None:
    watching = Watching(Notes())
    others = [SessionKey.acp(AgentId("a"), uuid4()) for _ in range(MOST + 1)]
    for key in others[:MOST]:
        watching.watch(MAIN, key)
        watching.watch(key, RESEARCH)
    watching.watch(MAIN, others[0])  # once more is the same
    for watcher, target in ((MAIN, others[MOST]), (others[MOST], RESEARCH)):
        with pytest.raises(BridgeError) as caught:
            watching.watch(watcher, target)
        assert caught.value.code == "busy"
    watching.forget(MAIN)
    watching.watch(MAIN, others[MOST])


# ---- Two peers that speak on ----


CHAT = SessionKey(AgentId("main"), "telegram", ("direct", "42"))


async def answered(w: World, key: SessionKey, number: int, text: str) -> str:
    """Have a session's agent answer its prompt of that number; return what it was asked."""
    here = w.runtime.running
    await until(lambda: str(key) in here and len(w.agent(key).contents) >= number)
    asked = str(w.agent(key).contents[number - 1][0]["text"])
    if text:
        w.agent(key).say(text)
    w.agent(key).answer("end_turn")
    return asked


async def chat(w: World, target: SessionKey = RESEARCH) -> str:
    """Have somebody on a channel send another agent a message and get its reply; its run's id."""
    await peers(w)
    await have(w, CHAT)
    await w.run("busy", key=CHAT)
    await w.diary.has("prompt busy", 2)
    done = await send(w, agent_in(CHAT), "say first", session_key=str(target))
    assert done["status"] == "ok"
    assert done["delivery"] == {"status": "pending", "mode": "announce"}
    w.agent(CHAT).answer("end_turn")  # what it was doing when it sent the message
    return str(done["runId"])


async def test_3_2_3_two_peers_speak_of_a_reply_for_five_turns_and_the_receiver_announces(
    tmp_path: Path,
) -> None:
    async with world(tmp_path, config=configured()) as w:
        await chat(w)
        asked = [await answered(w, CHAT, 2, "second")]
        asked += [await answered(w, RESEARCH, 2, "third"), await answered(w, CHAT, 3, "fourth")]
        asked += [await answered(w, RESEARCH, 3, "fifth"), await answered(w, CHAT, 4, "sixth")]
        for number, (text, role, said) in enumerate(
            zip(
                asked,
                ("the requester", "the target") * 3,
                ("first", "second", "third", "fourth", "fifth"),
                strict=False,
            ),
            1,
        ):
            assert f"You are {role}. Turn {number} of 5." in text
            assert text.endswith(f"\n\n{said}")
        announced = await answered(w, RESEARCH, 4, "to all")
        assert "announce step" in announced
        assert announced.endswith("sixth")
        await w.is_ready(RESEARCH)
        turns = [*await started(w, CHAT), *await started(w, RESEARCH)]
        spoken = [event["provenance"] for event in turns if event["provenance"].get("hop")]
        assert len(spoken) == 7  # the message, five turns, the announcement: one hop
        assert {(one["hop"], one["correlationId"]) for one in spoken} == {
            (1, spoken[0]["correlationId"])
        }
        # Without a channel nobody hears the announcement.
        assert not [e for e in await w.events(RESEARCH) if e.get("kind") == "channel_announce"]


async def test_3_2_3_exactly_two_words_end_it_and_leave_it_unannounced(tmp_path: Path) -> None:
    async with world(tmp_path, config=configured()) as w:
        group = SessionKey(AgentId("research"), "slack", ("group", "7"))
        await have(w, group)
        await chat(w, group)
        await answered(w, CHAT, 2, "not REPLY_SKIP yet")
        await answered(w, group, 2, "REPLY_SKIP")
        assert "announce step" in await answered(w, group, 3, "ANNOUNCE_SKIP")
        await w.is_ready(group)
        w.agent(CHAT).contents.clear()
        await w.run("busy", key=CHAT)
        await until(lambda: w.agent(CHAT).contents)
        await send(w, agent_in(CHAT), "say again", session_key=str(group))
        w.agent(CHAT).answer("end_turn")
        await answered(w, CHAT, 2, "")
        await answered(w, group, 5, "heard by all")
        await w.is_ready(group)
        found: dict[str, Any] = {}
        while not found:
            told = [e for e in await w.events(group) if e.get("kind") == "channel_announce"]
            found = next(iter(told), {})  # the silence before it was none of these
        assert (found["channel"], found["message"]) == ("slack", "heard by all")


async def test_a_turn_that_fails_ends_the_speaking_on(tmp_path: Path) -> None:
    async with world(tmp_path, config=configured()) as w:
        await chat(w)
        await until(lambda: len(w.agent(CHAT).contents) == 2)
        w.agent(CHAT).die()
        assert "announce step" in await answered(w, RESEARCH, 2, "x")
        await w.is_ready(RESEARCH)


@pytest.mark.parametrize("why", ["internal", "child", "sub-agent", "no time"])
async def test_nothing_more_is_said_where_the_result_is_delivered_once(
    tmp_path: Path, why: str
) -> None:
    async with world(tmp_path, config=configured()) as w:
        by = await peers(w)
        await have(w, CHAT)
        child = SessionKey.acp(AgentId("writer"), uuid4())
        sender, target = (MAIN, RESEARCH) if why == "internal" else (CHAT, RESEARCH)
        if why == "child":
            await have(w, child, CHAT)
            target = child
        elif why == "sub-agent":
            sender = SessionKey(AgentId("main"), "telegram", ("direct", "43"))
            await have(w, sender, MAIN)
            await have(w, child, sender)
            target = child
        if sender != MAIN:
            await w.run("busy", key=sender)
            await w.diary.has("prompt busy", 2)
        how = {"timeout_seconds": 0} if why == "no time" else {}
        by = agent_in(sender)
        done = await pass_on(w, by, "say a", session_key=str(target), **how)
        expected = "pending" if why == "no time" else "skipped"  # then it is announced
        assert done["delivery"]["status"] == expected
        await until(lambda: w.session(target).turn is None and not w.session(target).inbox)
        assert not [text for text in w.diary.lines if "Agent-to-agent" in text]
