"""G12 with real processes: nothing that a session has spawned outlives it, however it is raced."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from acpbridge.daemon import client as daemon
from acpbridge.daemon import quick
from acpbridge.daemon.paths import find
from fixtures import shell_agent
from fixtures.fake_acp import fake_agent
from tests.integration.daemon_home import Home, alive, daemon_home, until, wait_gone

# Asks for children as fast as it can, over a connection of its own each time, and lies about who
# it is: what the fields say has no say.
SPAWNER = """
import os, sys
from acpbridge.daemon.paths import find
from acpbridge.daemon.quick import connect
from acpbridge.errors import BridgeError
home, said = sys.argv[1:]
for _ in range(2):
    if os.fork() == 0:
        break
forged = {"parentKey": "agent:other:main", "spawnedBy": None, "depth": -9, "spawnDepth": -9,
          "lineage": {"parent": None, "depth": -9}, "requester": {"role": "operator"},
          "role": "operator", "agentPath": "main"}
content = [{"type": "text", "text": "hang"}]
while True:
    try:
        with connect(find(home, {})) as client:
            done = client.call("run", content=content, agent="fake", cwd="/", detach=True, **forged)
            word = done["key"]
    except BridgeError as error:
        word = error.code
    except (OSError, AttributeError, TypeError):
        word = "lost"
    with open(said, "a") as out:
        out.write(word + "\\n")
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with daemon_home(tmp_path) as home:
        rows = [
            {"id": "fake", "runtime": {"command": list(fake_agent("--mark", home.mark))}},
            {
                "id": "shell",
                "runtime": {"command": [sys.executable, "-P", shell_agent.__file__]},
            },
        ]
        value = {"agents": {"list": rows}, "limits": {"maxChildrenPerSession": 4}}
        (home.path / "config.yaml").write_text(json.dumps(value), encoding="utf-8")
        yield home


def call(home: Home, method: str, **params: Any) -> Any:
    """Ask the daemon without the cost of a command."""
    client = quick.connect(find(str(home.path), {}))
    assert client is not None
    with client:
        return client.call(method, limit=30, **params)


def detached(home: Home, words: str, agent: str = "fake", **how: Any) -> str:
    """Start a run and return its key once it is in its turn."""
    if not (home.path / "daemon.lock").exists():
        home.start()
    content = [{"type": "text", "text": words}]
    how = {"cwd": str(home.path), "detach": True, "agent": agent, "env": home.env, **how}
    return in_turn(home, call(home, "run", content=content, **how)["key"])


def rows(home: Home) -> dict[str, Any]:
    found = call(home, "sessions", all=True)["sessions"]
    return {row["key"]: row for row in found if not row["key"].endswith(":main")}


def in_turn(home: Home, key: str) -> str:
    until(lambda: (rows(home)[key]["turn"] or {}).get("startedAt"))
    return key


def pids_of(home: Home, *keys: str, role: str = "") -> list[int]:
    found = (row for row in call(home, "status")["sessions"] if not keys or row["key"] in keys)
    return [p["pid"] for row in found for p in row["processes"] if role in ("", p["role"])]


def child_of(home: Home, key: str) -> str:
    """Have a session's agent start a child, as its marker says; return it once it is in a turn."""
    done = home.run_inside(f"{key}.{'0' * 32}", "run", "--detach", "hang", "--agent", "fake")
    assert done.code == 0, done
    return in_turn(home, done.out.strip())


def test_g12_case_137_a_child_that_is_started_in_mid_kill_does_not_survive(
    home: Home, tmp_path: Path
) -> None:
    """Without the look at `closing` in `may_spawn`: children live on when the kill has returned."""
    script, said = tmp_path / "spawner.py", tmp_path / "said"
    script.write_text(SPAWNER, encoding="utf-8")
    for _ in range(2):
        said.write_text("", encoding="utf-8")
        top = detached(home, f"sh {sys.executable} {script} {home.path} {said}", "shell")
        until(lambda: "subagent_policy" in said.read_text(encoding="utf-8"), 30)
        killed = home.run("kill", top, "--json", limit=30)
        assert (killed.code, killed.json["ok"]) == (0, True)
        assert call(home, "status")["sessions"] == []
        mine = {key: row for key, row in rows(home).items() if row["parentKey"] == top}
        # Four at once: no more were ever accepted, and all of them below the one that asked.
        words = said.read_text(encoding="utf-8").split()
        assert {word for word in words if ":" in word} <= set(mine)
        assert len(mine) == 4
        assert {(row["state"], row["closeReason"]) for row in mine.values()} == {
            ("closed", "parent")
        }
        assert not [pid for result in killed.json["results"] for pid in result["survivors"]]


def test_g12_what_a_session_has_spawned_ends_when_its_agent_is_killed_from_outside(
    home: Home,
) -> None:
    top = detached(home, "hang")
    child = child_of(home, top)
    deeper = child_of(home, child)
    pids = pids_of(home)
    (agent,) = pids_of(home, top, role="agent")
    os.kill(agent, signal.SIGKILL)
    until(lambda: {rows(home)[key]["state"] for key in (child, deeper)} == {"closed"})
    assert wait_gone(pids) == []
    assert rows(home)[top]["state"] == "died"
    assert rows(home)[deeper]["closeReason"] == "parent"


def test_g12_kills_of_overlapping_subtrees_from_two_clients_at_once(home: Home) -> None:
    top = detached(home, "hang")
    child = child_of(home, top)
    deeper = child_of(home, child)
    other = detached(home, "hang")
    pids = pids_of(home)
    commands = [("kill", top, child, "--json"), ("kill", "--all", "--json")]
    started = [
        subprocess.Popen(home.argv(*words), env=home.env, stdout=subprocess.PIPE)
        for words in commands
    ]
    outs = [process.communicate(timeout=40)[0] for process in started]
    assert [process.returncode for process in started] in ([0, 0], [0, 1])
    results = [row for out in outs for row in json.loads(out)["results"]] if all(outs) else []
    assert not any(row["survivors"] for row in results)
    assert {row["key"] for row in results} >= {top, child, deeper}
    assert [pid for pid in pids if alive(pid)] == []
    assert {rows(home)[key]["state"] for key in (top, child, deeper, other)} == {"closed"}


def test_g12_past_a_frozen_daemon_a_line_is_followed_over_one_without_a_process(
    home: Home,
) -> None:
    """Without `above` in the journal: the grandchild is alive when the kill has returned."""
    top = detached(home, "hang")
    middle = child_of(home, top)
    deeper = child_of(home, middle)
    idle = child_of(home, top)
    for key in (middle, idle):
        call(home, "cancel", key=key, grace=9)
        until(lambda key=key: rows(home)[key]["state"] == "idle")  # type: ignore[misc]
    # To cancel has ended what the turn had asked for, too; a person goes on with it.
    until(lambda: rows(home)[deeper]["state"] == "idle")
    detached(home, "hang", "", session=deeper)
    journal = home.path / "processes.json"
    until(lambda: deeper in journal.read_text(encoding="utf-8"))
    until(lambda: middle not in json.loads(journal.read_text(encoding="utf-8"))["sessions"])
    pids = pids_of(home)
    frozen = home.daemon_pid()
    os.kill(frozen, signal.SIGSTOP)
    try:
        killed = home.run("kill", top, "--json", limit=30)
        assert (killed.code, {row["key"] for row in killed.json["results"]}) == (0, {top, deeper})
        assert [pid for pid in pids if alive(pid)] == []
    finally:
        os.kill(frozen, signal.SIGCONT)
    until(lambda: {row["state"] for row in rows(home).values()} == {"closed"})
    reasons = {key: row["closeReason"] for key, row in rows(home).items()}
    assert reasons == {top: "killed", middle: "parent", deeper: "parent", idle: "parent"}


async def test_case_35_a_cancel_is_read_while_its_own_client_waits_for_the_turn(
    home: Home,
) -> None:
    """Were calls of one client served one after the other, the cancel would wait for the turn."""
    home.start()
    with anyio.fail_after(30):
        async with daemon.connect(find(str(home.path), {}), start=False) as client:
            content = [{"type": "text", "text": "say on\nslow-cancel 30 end_turn"}]
            run = await client.call("run", content=content, agent="fake", cwd="/", mode="session")
            ended: list[Any] = []

            async def wait() -> None:
                ended.append(await client.call("wait", runId=run["runId"]))

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(wait)
                async with client.follow(run["key"], run["after"]) as events:
                    while (await events.next()).value["type"] != "update":
                        pass
                receipt = await client.call("cancel", key=run["key"], grace=10)
            # Cases 30 and 35: the agent has said that it came to its end.
            assert (receipt["rung"], receipt["turnEnded"]) == ("cancel", True)
            assert (ended[0]["outcome"], ended[0]["stopReason"]) == ("cancelled", "cancelled")
            assert receipt["children"] == []
            done = await client.call(
                "run", content=[{"type": "text", "text": "say clean"}], session=run["key"]
            )
            assert (await client.call("wait", runId=done["runId"]))["outcome"] == "completed"
