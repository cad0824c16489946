"""`sessions_send` with real processes: from an agent of a supervised tree, and from a person."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

import acpbridge
from acpbridge.daemon import quick
from acpbridge.daemon.paths import find
from tests.integration.daemon_home import Done, Home, daemon_home, failed, until

RESEARCH = "agent:research:main"

TOOLS = {"sessions": {"visibility": "all"}, "agentToAgent": {"allow": ["main", "research"]}}


def configure(home: Home, tools: dict[str, Any]) -> None:
    home.configure(main=(), research=(), other=())
    path = home.path / "config.yaml"
    value = {**json.loads(path.read_text(encoding="utf-8")), "tools": tools}
    path.write_text(json.dumps(value), encoding="utf-8")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("send")) as home:
        configure(home, TOOLS)
        home.start()
        yield home


def begun(home: Home, agent: str, text: str) -> str:
    """Have an agent begin a turn in a session that stays, and return its key."""
    content = [{"type": "text", "text": text}]
    how = {"cwd": str(home.path), "env": home.env, "mode": "session", "detach": True}
    return str(home.ask("run", content=content, agent=agent, **how)["key"])


def session(home: Home, agent: str) -> str:
    """Have an agent keep a session that waits, and return its key."""
    key = begun(home, agent, "say ready")
    until(lambda: home.row(key)["state"] == "ready")
    return key


def at_work(home: Home, agent: str) -> str:
    """Have an agent in a turn that does not end."""
    key = begun(home, agent, "hang")
    until(lambda: (home.row(key)["turn"] or {}).get("startedAt"))
    return key


def killed(home: Home, *keys: str) -> None:
    assert home.ask("kill", keys=list(keys), grace=0)["ok"]


def from_inside(home: Home, key: str, *words: str) -> Done:
    """Send as what runs in a session does: who it is, the daemon finds by its marker."""
    return home.run_inside(f"{key}.{'0' * 32}", "send", *words)


def events(home: Home, key: str) -> list[dict[str, Any]]:
    return home.run("logs", key, "--json").events


def test_3_3_3_2_an_agent_sends_another_one_a_message_and_gets_its_reply(home: Home) -> None:
    """3-4.3: the log shows source, target, correlation and hop, also to a person who reads it."""
    main, research = at_work(home, "main"), session(home, "research")
    done = from_inside(home, main, research, "say three sources", "--json")
    assert done.code == 0, done
    assert (done.json["status"], done.json["reply"]) == ("ok", "three sources")
    (event,) = [
        event
        for event in events(home, research)
        if event["type"] == "turn_started" and event["runId"] == done.json["runId"]
    ]
    provenance = event["provenance"]
    assert provenance["kind"] == "inter_session"
    assert provenance["sourceSessionKey"] == main
    assert provenance["targetSessionKey"] == research
    assert provenance["correlationId"] == event["correlationId"]
    assert (provenance["hop"], provenance["visited"]) == (1, ["main"])
    assert "isUser=false" in event["prompt"][0]["text"]
    shown = home.run("logs", research).out
    assert f"from {main}" in shown
    assert event["correlationId"] in shown
    killed(home, main, research)


def test_case_139_what_is_out_of_reach_is_answered_like_what_is_not_there(home: Home) -> None:
    main, other = at_work(home, "main"), session(home, "other")
    said = {
        failed(from_inside(home, main, key, "say x"), "no_such_session", 4)
        for key in (other, "nothing")
    }
    (text,) = said
    assert "tools.agentToAgent" in text
    assert "tools.sessions.visibility" in text
    assert len([e for e in events(home, other) if e["type"] == "turn_started"]) == 1
    killed(home, main, other)


def test_a_person_sends_and_waits_as_long_as_told(home: Home) -> None:
    key = session(home, "other")
    assert home.run("send", key[-8:], "say it is done").out == "it is done\n"
    # The main session of a configured agent is there before anybody has spoken to it.
    assert home.run("send", RESEARCH, "say hello").out == "hello\n"
    killed(home, RESEARCH)
    late = home.run("send", key, "hang", "--wait", "0", "--json")
    assert (late.code, late.json["status"]) == (0, "accepted")
    steered = home.run("send", key, "say steered", "--wait", "0", "--mode", "steer")
    assert steered.code == 0
    assert "waits for the end" in steered.err
    cancelled = home.run("cancel", key)
    assert cancelled.code == 0, cancelled
    failed(home.run("send", key, "say x", "--mode", "steer"), "not_running", 1)
    failed(home.run("send", "nobody", "say x"), "no_such_session", 4)
    failed(home.run("send", key, "  "), "usage", 2)
    told = home.run("send", key, "the build is green", "--mode", "notify", "--json")
    assert told.json["durability"] == "process"
    died = home.run("send", key, "crash", "--json")
    assert (died.code, died.json["errorCode"]) == (6, "agent_died")
    fresh = session(home, "other")
    failed(home.run("send", fresh, "crash"), "agent_died", 6)  # what to do next is told too
    killed(home, fresh)
    assert home.run("send", "-", "-").code != 0
    killed(home, key)


def test_3_3_2_3_messages_arrive_in_the_order_in_which_they_were_accepted(home: Home) -> None:
    """Ten senders at once, each with a connection of its own."""
    key = session(home, "research")

    def send(number: int) -> Any:
        client = quick.connect(find(str(home.path), {}))
        assert client is not None
        with client:
            params = {"message": f"say r{number}", "sessionKey": key, "timeoutSeconds": 60}
            return client.call("tool/send", limit=90, **params)

    with ThreadPoolExecutor(10) as pool:
        done = list(pool.map(send, range(10)))
    assert [row["reply"] for row in done] == [f"r{number}" for number in range(10)]
    seen = events(home, key)
    ran = [event["turn"] for event in seen if event["type"] == "turn_started"][1:]
    queued = [event["turn"] for event in seen if event["type"] == "turn_queued"][1:]
    assert ran == queued
    assert sorted(ran) == sorted(row["runId"] for row in done)
    killed(home, key)


async def test_a_program_sends(home: Home) -> None:
    async with acpbridge.connect(home.path) as bridge:
        key = (await bridge.run("say ready", agent="other", keep=True)).key
        sent = await bridge.send(key, "say on")
        assert (sent.status, sent.reply, sent.error) == ("ok", "on", None)
        died = await bridge.send(key, "crash")
        assert died.status == "error"
        assert died.error is not None
        assert died.error.code == "agent_died"
        late = await bridge.send(key, "hang", wait=0)
        assert (late.status, late.key, late.reply) == ("accepted", key, "")
        assert (await bridge.send(key, "x", mode="notify")).status == "queued"
        await bridge.kill(key, grace=0)
