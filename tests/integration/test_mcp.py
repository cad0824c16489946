"""The session tools over MCP, by the package's own client, against a real daemon."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acpbridge.errors import BridgeError
from tests.integration.daemon_home import Home, daemon_home
from tests.integration.mcp_client import (
    SERVER,
    call,
    client,
    configure,
    hello,
    inside,
    said_token,
    say_hello,
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("mcp")) as found:
        configure(found)
        found.start()
        yield found


async def test_3_1_3_a_client_lists_the_agents(home: Home) -> None:
    async with client(home) as session:
        listed = await session.list_tools()
        names = [tool.name for tool in listed.tools]
        agents = await call(session, "agents_list")
    assert names.index("agents_list") < names.index("sessions_spawn")
    assert {row["id"] for row in agents["agents"]} == {"fake", "user", "none"}


async def test_a_client_starts_a_child_below_its_own_key(home: Home, tmp_path: Path) -> None:
    async with client(home) as session:
        got = await call(session, "sessions_spawn", task="say hello", runtime="acp", agentId="fake")
    assert got["status"] == "accepted"
    record = home.record(got["childSessionKey"])
    assert record["parentKey"] == "agent:main:main"
    assert record["cwd"] == str(home.path)  # where the client was started


def test_c_2_a_client_is_an_agent_and_no_operator(home: Home) -> None:
    peer, told = hello(home, **{"as": "agent:main:main"})
    with peer:
        assert (told["role"], told["session"]) == ("agent", "agent:main:main")
        for method, params in (
            ("answer", {"id": "q", "effect": "allow"}),
            ("grants", {}),
            ("revoke", {"ids": ["x"]}),
            ("stop", {}),
            ("prune", {"keys": []}),
            ("run", {"content": [{"type": "text", "text": "x"}], "onPermission": "allow"}),
        ):
            with pytest.raises(BridgeError) as caught:
                peer.call(method, **params)
            assert caught.value.code == "permission_denied", method


def test_a_client_sees_nothing_of_what_others_started(home: Home) -> None:
    key = home.run("run", "say hi", "--agent", "fake", "--detach").out.strip()
    peer, _ = hello(home, **{"as": "agent:main:main"})
    with peer, pytest.raises(BridgeError) as caught:
        peer.call("status", key=key)
    assert caught.value.code == "no_such_session"


def test_a_client_may_not_be_a_session_that_the_bridge_runs(home: Home) -> None:
    key = home.run("run", "say hi", "--agent", "fake", "--detach").out.strip()
    with pytest.raises(BridgeError) as caught:
        hello(home, **{"as": key})
    assert caught.value.code == "permission_denied"


def test_once_lowered_a_peer_stays_what_it_is(home: Home) -> None:
    peer, _ = hello(home, **{"as": "agent:main:main"})
    with peer:
        for claims in ({"as": "agent:fake:main"}, {}):
            again = say_hello(peer, **claims)
            assert (again["role"], again["session"]) == ("agent", "agent:main:main")


def test_an_agent_with_session_tools_has_them_for_its_own_session(home: Home) -> None:
    """Whatever its server says: without the token ancestry says whose it is."""
    spawn = {"task": "say done", "runtime": "acp", "agentId": "fake"}
    listed, spawned, bare = inside(
        home,
        {"tool": "agents_list"},
        {"tool": "sessions_spawn", "arguments": spawn},
        {"tool": "agents_list", "env": {"ACPBRIDGE_TOOL_TOKEN": None}},
    )
    assert "sessions_spawn" in listed["tools"]
    assert listed["result"]["requester"] == bare["result"]["requester"] == "user"
    assert spawned["result"]["status"] == "accepted", spawned
    record = home.record(spawned["result"]["childSessionKey"])
    assert record["parentKey"].startswith("agent:user:acp:")


def test_a_call_that_is_too_long_is_answered(home: Home) -> None:
    """A client's may be as long as an operator's; of an agent inside a tree the bound is told."""
    long: dict[str, Any] = {"task": "x" * 2_000_000, "agentId": "nobody"}
    peer, _ = hello(home, **{"as": "agent:main:main"})
    with peer, pytest.raises(BridgeError) as caught:
        peer.call("tool/spawn", **long)
    assert caught.value.code == "no_such_agent"
    arguments = {"task": "x" * 1_100_000, "agentId": "nobody"}
    prompt = json.dumps({"tool": "sessions_spawn", "arguments": arguments})
    done = home.run("run", "-", "--agent", "user", "--format", "quiet", stdin=prompt)
    assert json.loads(done.out)["result"]["errorCode"] == "message_too_large", done


def test_an_agent_without_session_tools_is_given_none(home: Home) -> None:
    assert inside(home, {"server": True}, agent="none") == [[]]


def test_a_token_lowers_whoever_has_it_and_ends_with_its_process(home: Home) -> None:
    """Neither another session's tools nor anybody, once the process has ended, goes by it."""
    run = home.run("run", SERVER, "--agent", "user", "--mode", "session", "--format", "json")
    events = [json.loads(line) for line in run.out.splitlines()]
    key = events[0]["key"]
    token = said_token(events)
    assert token.startswith("acpb_")

    peer, told = hello(home, token=token)
    with peer:
        assert (told["role"], told["session"]) == ("agent", key)
        with pytest.raises(BridgeError, match="may not"):
            peer.call("grants")

    wanted = {"tool": "agents_list", "env": {"ACPBRIDGE_TOOL_TOKEN": token}}
    (found,) = inside(home, wanted)
    assert found["result"]["errorCode"] == "permission_denied"
    assert "token" in found["error"]["message"]

    assert home.run("close", key).code == 0
    with pytest.raises(BridgeError) as caught:
        hello(home, token=token)
    assert caught.value.code == "permission_denied"
    leaks = [path for path, data in home.files().items() if token.encode() in data]
    assert leaks == []


async def test_3_acc2_a_client_delegates_and_gets_each_completion_once(home: Home) -> None:
    """The four tools; what is not acknowledged is given again, to the next client of the key."""
    async with client(home, "--agent", "fake") as session:
        listed = await call(session, "agents_list")
        assert next(row for row in listed["agents"] if row["id"] == "fake")["canSpawn"]
        spawned = await call(
            session,
            "sessions_spawn",
            task="say all is well",
            taskName="check",
            runtime="acp",
            agentId="fake",
            mode="session",
        )
        key, run = spawned["childSessionKey"], spawned["runId"]
        told = await call(session, "sessions_yield")
        while not told["completions"]:
            told = await call(session, "sessions_yield")
        (completion,) = told["completions"]
        assert (completion["runId"], completion["sessionKey"]) == (run, key)
        assert (completion["outcome"], completion["result"]) == ("completed", "all is well")
        sent = await call(session, "sessions_send", sessionKey=key, message="say and still")
        assert (sent["status"], sent["reply"]) == ("ok", "and still")
        info = await call(session, "subagents", action="info", target="check")
        assert info["run"]["sessionKey"] == key, info
        killed = await call(session, "subagents", action="kill", target=key)
        assert killed["failed"] == [], killed
    async with client(home, "--agent", "fake") as session:
        again = await call(session, "sessions_yield")
        assert completion["id"] in [one["id"] for one in again["completions"]]
        taken = [one["id"] for one in again["completions"]]
        last = await call(session, "sessions_yield", acknowledgment=taken)
        assert last["completions"] == []
        nothing = await call(session, "sessions_yield")
        assert nothing["errorCode"] == "nothing_pending"
