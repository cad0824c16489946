"""`sessions_list`, `sessions_history` and `session_status`: what each shows, to whom, how much."""

import json
from pathlib import Path
from typing import Any

import pytest

from acpbridge.config.snapshot import Config
from acpbridge.config.tools import SessionTools, Tools, Visibility
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.events import Update
from acpbridge.model.keys import SessionKey
from acpbridge.model.requesters import Requester
from acpbridge.router import history, listing, reading
from acpbridge.router.look_requests import HistoryRequest, SessionRequest, SessionsRequest
from acpbridge.router.spawn_requests import SpawnRequest
from tests.unit.router.test_router import family
from tests.unit.router.world import FAKE, OPERATOR, World, agent_in, refused, until, world

MAIN = "agent:fake:main"


async def listed(w: World, by: Requester = OPERATOR, **how: Any) -> dict[str, Any]:
    return await w.router.tool(SessionsRequest.read(how), by)


async def keys(w: World, by: Requester = OPERATOR, **how: Any) -> list[str]:
    """Return the keys of a list, but for the main session, which is always there."""
    rows = (await listed(w, by, **how))["sessions"]
    return [row["key"] for row in rows if row["key"] != MAIN]


async def said(w: World, by: Requester = OPERATOR, **how: Any) -> dict[str, Any]:
    return await w.router.tool(HistoryRequest.read(how), by)


async def stands(w: World, by: Requester = OPERATOR, **how: Any) -> dict[str, Any]:
    return await w.router.tool(SessionRequest.read(how), by)


async def child(w: World, top: SessionKey, task: str = "wait", **params: Any) -> SessionKey:
    wanted = {"task": task, "runtime": "acp", "agentId": "fake", "callerCwd": w.cwd, **params}
    receipt = await w.router.tool(SpawnRequest.read(wanted), agent_in(top))
    return SessionKey.parse(receipt["childSessionKey"])


def texts(page: dict[str, Any]) -> list[tuple[str, str]]:
    return [(message["role"], message["content"][0]["text"]) for message in page["messages"]]


# ---- sessions_list ----


async def test_case_139_a_list_has_what_one_may_see_and_of_no_other_even_the_key(
    tmp_path: Path,
) -> None:
    """With `parent` shown to whoever asks: `[str(child), str(top)] == [str(child), None]`."""
    async with world(tmp_path) as w:
        top, child, grandchild = await family(w)
        assert await keys(w) == [str(key) for key in (grandchild, child, top)]
        own = await listed(w, agent_in(child))
        assert [row["key"] for row in own["sessions"]] == [str(grandchild), str(child)]
        assert [row["parentSessionKey"] for row in own["sessions"]] == [str(child), None]
        assert str(top) not in json.dumps(own)
        assert own["visibility"]["mode"] == "tree"
        assert own["visibility"]["restricted"] is True
        assert "tools.sessions.visibility" in own["visibility"]["warning"]
        assert "visibility" not in await listed(w)


async def test_a_list_says_of_a_session_who_it_is_and_what_it_started(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = (await w.run("wait", one_shot=False)).key
        await w.diary.has("prompt wait")
        one = await child(w, top, label="Tests", taskName="look")
        await w.diary.has("prompt wait", 2)
        rows = {row["key"]: row for row in (await listed(w))["sessions"]}
        assert rows[str(top)]["childSessions"] == [str(one)]
        row = rows[str(one)]
        assert (row["label"], row["taskName"], row["spawnDepth"]) == ("Tests", "look", 1)
        assert (row["kind"], row["sessionId"]) == ("other", one.parts[0])
        assert (row["runStatus"], row["endedAt"]) == ("running", None)
        assert row["stateVersion"] == w.log.last_seq(one) > 0
        main = rows[MAIN]
        assert (main["kind"], main["sessionId"], main["runStatus"]) == ("main", None, None)


@pytest.mark.parametrize(
    ("how", "found"),
    [
        ({"label": "Tests"}, ["one"]),
        ({"label": "tests"}, []),
        ({"search": "TEST"}, ["one"]),
        ({"search": "LOO"}, ["one"]),
        ({"excludeSubagents": True}, ["top", "done"]),
        ({"activeOnly": True}, ["one", "top"]),
        ({"kinds": ["other"]}, ["one", "top", "done"]),
        ({"kinds": ["main"]}, []),
        ({"kinds": ["cron"]}, []),
        ({"agentId": "FAKE"}, ["one", "top", "done"]),
        ({"agentId": "other"}, []),
        ({"archived": True}, ["gone"]),
        ({"archived": "all"}, ["one", "top", "gone", "done"]),
        ({"activeMinutes": 60}, ["one", "top", "done"]),
    ],
)
async def test_a_list_can_be_narrowed(
    tmp_path: Path, how: dict[str, Any], found: list[str]
) -> None:
    async with world(tmp_path) as w:
        done = (await w.done("say x"))[0].key
        gone = (await w.done("say x"))[0].key
        await w.rest(gone)
        await w.router.close(str(gone), OPERATOR)
        top = (await w.run("wait", one_shot=False)).key
        await w.diary.has("prompt wait")
        one = await child(w, top, label="Tests", taskName="look")
        await w.rest(done)
        names = {"one": one, "top": top, "gone": gone, "done": done}
        assert await keys(w, **how) == [str(names[name]) for name in found]


async def test_only_what_was_used_lately_is_listed_where_that_is_wanted(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        old = (await w.done("say x"))[0].key
        await w.rest(old)
        record = w.session(old).record
        w.clock.wall = lambda: later(record.created_at)  # type: ignore[method-assign]
        assert await keys(w, activeMinutes=30) == []
        assert await keys(w, activeMinutes=61) == [str(old)]


def later(moment: str) -> Any:
    from datetime import datetime, timedelta

    return datetime.fromisoformat(moment) + timedelta(minutes=60)


async def test_a_list_comes_in_pages_and_says_where_the_next_one_begins(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        for n in range(3):
            await w.done(f"say {n}")
        whole = [row["key"] for row in (await listed(w))["sessions"]]
        first = await listed(w, limit=3)
        assert (first["count"], first["hasMore"], first["nextOffset"]) == (3, True, 3)
        rest = await listed(w, limit=3, offset=first["nextOffset"])
        assert (rest["count"], rest["hasMore"]) == (1, False)
        assert "nextOffset" not in rest
        assert [row["key"] for row in first["sessions"] + rest["sessions"]] == whole
        assert (await listed(w, limit=1000))["limitApplied"] == 200


async def test_a_list_that_is_too_long_ends_where_it_must_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path) as w:
        for n in range(3):
            await w.done(f"say {n}")
        monkeypatch.setattr(listing, "SIZE", 1000)
        short = await listed(w)
        assert short["truncationReason"] == "byte-limit"
        assert 0 < short["count"] < 4
        assert short["nextOffset"] == short["count"]


async def test_a_list_can_have_the_newest_messages_of_each(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        key = (await w.done("say hello"))[0].key
        rows = {row["key"]: row for row in (await listed(w, messageLimit=1))["sessions"]}
        (message,) = rows[str(key)]["messages"]
        assert message["content"][0]["text"] == "hello"
        assert rows[MAIN]["messages"] == []


async def test_3_2_5p_a_row_says_of_state_what_status_says(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        key = (await w.run("ask 1", one_shot=False)).key
        await w.run("wait", key=key)
        await w.questions(1)
        (shown,) = (await w.router.status(str(key), OPERATOR))["sessions"]
        rows = {row["key"]: row for row in (await listed(w))["sessions"]}
        one = await stands(w, sessionKey=str(key))
        assert shown["turn"]["state"] == "waiting"
        for name in listing.SHARED:
            assert rows[str(key)][name] == shown[name] == one[name], name


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"limit": 0}, "limit"),
        ({"kinds": ["cat"]}, "kinds"),
        ({"archived": "some"}, "archived"),
        ({"messageLimit": 21}, "messageLimit"),
        ({"message_limit_": 1}, "message_limit_"),
        ({"parent": "agent:x:main"}, "parent"),
    ],
)
def test_what_a_list_does_not_take_is_refused_by_name(params: dict[str, Any], named: str) -> None:
    with pytest.raises(BridgeError, match=named) as caught:
        SessionsRequest.read(params)
    assert caught.value.code == "invalid_params"


async def test_a_look_at_what_nobody_used_writes_nothing(tmp_path: Path) -> None:
    """With every log opened: an empty database is there for each agent."""
    async with world(tmp_path) as w:
        (main,) = (await listed(w, messageLimit=5))["sessions"]
        assert (main["key"], main["stateVersion"], main["messages"]) == (MAIN, 0, [])
        assert not (tmp_path / "agents").exists()


# ---- sessions_history ----


async def test_a_history_has_what_was_asked_what_was_said_and_how_it_failed(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        key = (await w.done("say hello", one_shot=False))[0].key
        await w.done("raise", key=key)
        page = await said(w, sessionKey=str(key))
        assert texts(page) == [
            ("user", "say hello"),
            ("assistant", "hello"),
            ("user", "raise"),
            ("system", "The turn failed (turn_failed): it went wrong"),
        ]
        assert page["messages"][0]["provenance"]["kind"] == "operator"
        assert (page["truncated"], page["droppedMessages"]) == (False, 0)
        assert "nextOffset" not in page


async def test_a_history_comes_in_pages_by_number_which_nothing_new_shifts(tmp_path: Path) -> None:
    """With pages counted from the end: "say 3" comes twice."""
    async with world(tmp_path) as w:
        key = (await w.done("say 0", one_shot=False))[0].key
        for n in range(1, 5):
            await w.done(f"say {n}", key=key)
        newest = await said(w, sessionKey=str(key), limit=4)
        assert texts(newest)[0] == ("user", "say 3")
        assert newest["truncated"] is True
        await w.done("say 5", key=key)
        older = await said(w, sessionKey=str(key), limit=4, offset=newest["nextOffset"])
        assert texts(older) == [
            ("user", "say 1"),
            ("assistant", "1"),
            ("user", "say 2"),
            ("assistant", "2"),
        ]
        oldest = await said(w, sessionKey=str(key), limit=4, offset=older["nextOffset"])
        assert texts(oldest) == [("user", "say 0"), ("assistant", "0")]
        assert oldest["truncated"] is False
        upto = await said(w, sessionKey=str(key), limit=1, messageId=older["messages"][-1]["id"])
        assert texts(upto) == [("assistant", "2")]


async def test_a_long_log_is_read_from_its_end_and_no_message_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what began before the window: the first message is "3456789" without its beginning."""
    monkeypatch.setattr(reading, "WINDOW", 4)
    async with world(tmp_path) as w:
        key = (await w.run("wait", one_shot=False)).key
        await w.diary.has("prompt wait")
        for n in range(10):
            w.agent(key).say(str(n))
        w.agent(key).answer("end_turn")
        page = await said(w, sessionKey=str(key), limit=1)
        assert texts(page) == [("assistant", "0123456789")]


async def test_a_history_is_bounded_and_says_what_it_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path) as w:
        key = (await w.done("say " + "x" * 5000, one_shot=False))[0].key
        await w.done("say short", key=key)
        page = await said(w, sessionKey=str(key))
        assert page["contentTruncated"] is True
        assert len(page["messages"][1]["content"][0]["text"]) == 4000
        assert page["messages"][1]["truncated"] is True
        assert page["bytes"] <= history.SIZE
        monkeypatch.setattr(history, "SIZE", 6000)
        less = await said(w, sessionKey=str(key))
        assert texts(less)[-1] == ("assistant", "short")
        assert less["droppedMessages"] == 4 - len(less["messages"]) > 0
        assert less["truncated"] is True
        assert less["bytes"] <= 6000
        rest = await said(w, sessionKey=str(key), offset=less["nextOffset"])
        assert len(rest["messages"]) >= 1


async def test_what_tools_gave_is_told_only_where_it_is_wanted(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        key = (await w.run("wait", one_shot=False)).key
        await w.diary.has("prompt wait")
        agent = w.agent(key)
        agent.say("before")
        tell(agent, sessionUpdate="tool_call", toolCallId="t", title="Read", kind="read")
        content = [{"type": "content", "content": {"type": "text", "text": "SECRET OUTPUT"}}]
        tell(agent, sessionUpdate="tool_call_update", toolCallId="t", content=content)
        tell(agent, sessionUpdate="tool_call_update", toolCallId="t", status="completed")
        tell(agent, sessionUpdate="tool_call_update", toolCallId="unknown", status="completed")
        agent.say("after")
        agent.answer("end_turn")
        plain = await said(w, sessionKey=str(key))
        assert texts(plain)[1:] == [("assistant", "before"), ("assistant", "after")]
        assert "SECRET OUTPUT" not in json.dumps(plain)
        told = await said(w, sessionKey=str(key), includeTools=True)
        assert texts(told)[2] == ("tool", "Read\nSECRET OUTPUT")
        assert told["messages"][2]["status"] == "completed"


def tell(agent: Any, **update: Any) -> None:
    agent.host.emit(Update(json.dumps(update).encode(), update["sessionUpdate"]))


async def test_a_history_says_that_secrets_were_taken_out(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        key = (await w.done("say [redacted:openai:0a1b2c]"))[0].key
        assert (await said(w, sessionKey=str(key)))["contentRedacted"] is True
        other = (await w.done("say hello"))[0].key
        assert (await said(w, sessionKey=str(other)))["contentRedacted"] is False


async def test_prompts_that_wait_are_told_with_a_history_without_secrets(tmp_path: Path) -> None:
    """Without `redact`: "a secret" is in the answer."""
    hidden = {"redact": lambda value: json.loads(json.dumps(value).replace("secret", "***"))}
    async with world(tmp_path, more=hidden) as w:
        key = (await w.run("wait", one_shot=False)).key
        await w.diary.has("prompt wait")
        runs = [(await w.run(f"say {text}", key=key)).run_id for text in ("secret", "two")]
        page = await said(w, sessionKey=str(key))
        assert page["pendingInputs"]["total"] == 2
        items = page["pendingInputs"]["items"]
        assert [(item["runId"], item["text"]) for item in items] == [
            (runs[0], "say ***"),
            (runs[1], "say two"),
        ]
        before = await said(w, sessionKey=str(key), pendingBefore=runs[1])
        assert [item["runId"] for item in before["pendingInputs"]["items"]] == runs[:1]
        with pytest.raises(BridgeError, match="No prompt of run"):
            await said(w, sessionKey=str(key), pendingBefore="nobody")


@pytest.mark.parametrize(
    "params",
    [{"sessionId": "another"}, {"messageId": "999"}, {"messageId": "x"}, {"messageId": "1"}],
)
async def test_a_history_of_what_is_not_there_is_refused(
    tmp_path: Path, params: dict[str, Any]
) -> None:
    async with world(tmp_path) as w:
        key = (await w.done("say hello"))[0].key
        await refused("invalid_params", said(w, sessionKey=str(key), **params))


async def test_case_139_what_an_agent_may_not_see_is_answered_all_alike(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top, child, grandchild = await family(w)
        other = (await w.done("say x"))[0].key
        ways = [str(other), other.parts[0], str(other).upper(), "agent:none:main", "nothing"]
        asked = [(agent_in(grandchild), key) for key in (*ways, str(top), str(child))]
        told = set()
        for who, key in [*asked, *((agent_in(top), key) for key in ways)]:
            error = await refused("no_such_session", said(w, who, sessionKey=key))
            told.add((error.message, error.hint))
        for key in ways:
            error = await refused("no_such_session", stands(w, agent_in(top), sessionKey=key))
            told.add((error.message, error.hint))
        assert len(told) == 1
        assert "tools.sessions.visibility" in told.pop()[0]
        assert (await said(w, agent_in(child), sessionKey=str(grandchild)))["messages"]


async def test_current_is_the_session_of_whoever_asks(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = (await w.run("wait")).key
        await w.diary.has("prompt wait")
        assert (await said(w, agent_in(top)))["sessionKey"] == str(top)
        assert (await stands(w, agent_in(top)))["sessionKey"] == str(top)
        await refused("invalid_params", said(w))
        await refused("invalid_params", stands(w, sessionKey="current"))


async def test_visibility_of_the_configuration_bounds_what_is_listed(tmp_path: Path) -> None:
    tools = Tools(sessions=SessionTools(visibility=Visibility.SELF))
    fake = AgentDefinition(id=FAKE, command=("fake",))
    async with world(tmp_path, config=Config(agents={FAKE: fake}, tools=tools)) as w:
        top, child, _ = await family(w)
        mine = await listed(w, agent_in(top))
        assert [row["key"] for row in mine["sessions"]] == [str(top)]
        assert mine["visibility"]["mode"] == "self"
        await refused("no_such_session", said(w, agent_in(top), sessionKey=str(child)))


# ---- session_status ----


async def test_a_status_tells_what_changed_since_a_version(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        top = (await w.run("wait", one_shot=False)).key
        await w.diary.has("prompt wait")
        begun = await stands(w, sessionKey=str(top))
        assert "stateChanges" not in begun
        one = await child(w, top)
        await w.diary.has("prompt wait", 2)
        w.agent(top).answer("end_turn")
        await until(lambda: w.session(top).turn is None)
        await w.done("raise", key=top)
        run = await w.run("wait", key=top)
        await w.diary.has("prompt wait", 3)
        await w.router.cancel(str(top), 1.0, OPERATOR)
        await w.wait(run)
        now = await stands(w, sessionKey=str(top), changesSince=begun["stateVersion"])
        changes = now["stateChanges"]
        assert [(event["type"], event.get("outcome")) for event in changes["events"]] == [
            ("child_spawned", None),
            ("run_completed", "completed"),
            ("run_failed", "failed"),
            ("run_failed", "cancelled"),
        ]
        assert changes["events"][0]["childSessionKey"] == str(one)
        assert (changes["historyGap"], changes["truncated"]) == (False, False)
        numbers = [event["sequence"] for event in changes["events"]]
        assert numbers == sorted(numbers)
        half = await stands(w, sessionKey=str(top), changesSince=numbers[1])
        assert [event["sequence"] for event in half["stateChanges"]["events"]] == numbers[2:]
        again = await stands(w, sessionKey=str(top), changesSince=now["stateVersion"])
        assert again["stateChanges"]["events"] == []
        first = await stands(w, sessionKey=str(top), changesSince=0)
        assert first["stateChanges"]["events"][0]["type"] == "created"


async def test_a_person_who_speaks_to_a_child_is_a_change_of_its_state(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        _, one, _ = await family(w)
        run = await w.run("say x", key=one)
        w.agent(one).answer("end_turn")
        await w.wait(run)
        told = (await stands(w, sessionKey=str(one), changesSince=0))["stateChanges"]["events"]
        spoken = [event for event in told if event["type"] == "human_direct_message"]
        assert run.run_id in [event["runId"] for event in spoken]


async def test_a_version_survives_a_restart_and_a_gap_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with world(tmp_path) as w:
        key = (await w.done("say hello", one_shot=False))[0].key
        await w.router.close(str(key), OPERATOR)
        before = await stands(w, sessionKey=str(key))
    async with world(tmp_path) as w:
        after = await stands(w, sessionKey=str(key), changesSince=before["stateVersion"])
        assert after["stateVersion"] >= before["stateVersion"]
        assert after["stateChanges"]["events"] == []
        monkeypatch.setattr("acpbridge.router.changes.MOST", 1)
        gap = (await stands(w, sessionKey=str(key), changesSince=0))["stateChanges"]
        assert gap["historyGap"] is True
        assert gap["earliestAvailableSequence"] == after["stateVersion"]


async def test_a_session_goes_on_with_the_model_that_was_chosen_until_it_is_cleared(
    tmp_path: Path,
) -> None:
    async with world(tmp_path) as w:
        key = (await w.done("say x", one_shot=False))[0].key
        chosen = await stands(w, agent_in(key), model="fast")
        assert (chosen["changedModel"], chosen["model"]) == (True, "fast")
        assert chosen["modelOverride"] == "fast"
        await w.done("say y", key=key)
        applied = [line for line in w.diary.lines if line.startswith("apply")]
        assert '"model": "fast"' in applied[-1]
        cleared = await stands(w, agent_in(key), model="default")
        assert "modelOverride" not in cleared
        await w.done("say z", key=key)
        stored = await w.ledger.session(key)
        assert stored is not None
        assert stored.settings.model is None
        assert (await stands(w, agent_in(key)))["changedModel"] is False


async def test_nobody_chooses_the_model_of_a_session_that_is_not_below_it(tmp_path: Path) -> None:
    tools = Tools(sessions=SessionTools(visibility=Visibility.AGENT))
    fake = AgentDefinition(id=FAKE, command=("fake",))
    async with world(tmp_path, config=Config(agents={FAKE: fake}, tools=tools)) as w:
        one, other = [(await w.done("say x"))[0].key for _ in range(2)]
        await refused(
            "permission_denied", stands(w, agent_in(one), sessionKey=str(other), model="fast")
        )
        assert w.session(other).record.settings.model is None
