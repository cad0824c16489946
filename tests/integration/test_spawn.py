"""`sessions_spawn` with real processes: by a person, by what runs in a session, by a program."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import acpbridge
from tests.integration.daemon_home import Done, Home, daemon_home, failed, until, wait_gone

AGENT = '''
"""Says what it was told, and of what it is to go by the first line."""


async def echo(turn):
    for given in turn.resources:
        turn.say(open(given.path, encoding="utf-8").read())
    turn.say(f"{turn.text}|{turn.instructions.partition(chr(10))[0]}")
'''


def configure(home: Home) -> None:
    entry = home.path / "echo.py"
    entry.write_text(AGENT, encoding="utf-8")
    home.configure({"maxChildrenPerSession": 20, "maxProcesses": 6}, codex=(), other=())
    path = home.path / "config.yaml"
    value = json.loads(path.read_text(encoding="utf-8"))
    python = {"id": "house", "runtime": {"kind": "python", "entry": f"{entry}:echo"}}
    value["agents"]["list"].append(python)
    value["acp"] = {"allowedAgents": ["codex"]}
    value["tools"] = {"sessions_spawn": {"attachments": {"enabled": True}}}
    path.write_text(json.dumps(value), encoding="utf-8")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("spawn")) as home:
        configure(home)
        home.start()
        yield home


def at_work(home: Home, agent: str = "codex") -> str:
    """Have an agent in a turn that does not end."""
    done = home.run("run", "--agent", agent, "--mode", "session", "--detach", "hang")
    assert done.code == 0, done
    key = done.out.strip()
    until(lambda: (home.row(key)["turn"] or {}).get("startedAt"))
    return key


def from_inside(home: Home, key: str, *words: str) -> Done:
    """Spawn as what runs in a session does: who it is, the daemon finds by its marker."""
    return home.run_inside(f"{key}.{'0' * 32}", "spawn", *words)


def test_a_person_gets_key_and_run_at_once_and_the_end_by_waiting(home: Home) -> None:
    done = home.run("spawn", "say hello", "--agent", "codex", "--label", "greeting")
    key, run = done.out.split()
    assert (done.code, key.split(":")[1:3]) == (0, ["codex", "acp"])
    assert "works by itself" in done.err
    # What is told to be typed next can be typed, and finds it.
    follow = done.err.split("acpbridge logs -f ")[1].split()[0]
    assert follow in key
    assert home.run("logs", follow, "--json").code == 0
    until(lambda: home.record(key)["state"] == "idle")
    assert run in home.run("logs", key, "--json").out
    waited = home.run("spawn", "say and bye", "--agent", "codex", "--wait")
    assert (waited.code, waited.out) == (0, "and bye\n")
    told = home.run("spawn", "say now", "--agent", "codex", "--wait", "--json").json
    assert (told["outcome"], told["result"], told["error"]) == ("completed", "now", None)
    late = home.run("spawn", "hang", "--agent", "codex", "--wait", "--timeout", "1")
    assert "error (prompt_timeout)" in failed(late, "prompt_timeout", 3)
    died = home.run("spawn", "crash", "--agent", "codex", "--wait", "--json")
    assert (died.code, died.json["outcome"]) == (6, "failed")


def test_3_4_4_a_python_child_is_told_its_place_apart_from_its_task(home: Home) -> None:
    """3-1.6c: the instructions reach its code as such, and its task without them."""
    told = home.run("spawn", "inspect", "--agent", "house", "--wait", "--json").json
    assert told["childSessionKey"].startswith("agent:house:subagent:")
    text, _, first = told["result"].rpartition("|")
    assert text.startswith("[Subagent Context]")
    assert "[Subagent Task]\ninspect\n" in text
    assert first == "# Subagent Context"


async def test_3_2_4_a_python_child_reads_the_files_that_it_was_given(home: Home) -> None:
    files = [{"name": "given.txt", "content": "from a file "}]
    receipt = home.ask(
        "tool/spawn", task="x", agentId="house", callerCwd=str(home.path), attachments=files
    )
    assert receipt["attachments"] == [{"name": "given.txt", "bytes": 12}]
    key = receipt["childSessionKey"]
    until(lambda: home.record(key)["state"] == "idle")
    assert "from a file " in home.run("logs", key, "--json").out
    until(lambda: not list((home.path / "attachments").iterdir()))


def test_what_runs_in_a_session_spawns_below_it_and_by_the_same_rules(home: Home) -> None:
    top = at_work(home)
    receipt = from_inside(home, top, "hang", "--agent", "codex", "--json").json
    row = until(lambda: home.row(receipt["childSessionKey"]))
    assert row["parentKey"] == top
    failed(from_inside(home, top, "say x", "--agent", "other"), "agent_forbidden", 1)
    failed(
        home.run_inside(f"{top}.{'0' * 32}", "run", "--agent", "other", "x"), "agent_forbidden", 1
    )
    until(lambda: home.row(receipt["childSessionKey"])["processes"])
    pids = [process["pid"] for process in home.row(receipt["childSessionKey"])["processes"]]
    assert home.run("kill", top, "--now").code == 0
    assert wait_gone(pids) == []
    assert home.record(receipt["childSessionKey"])["closeReason"] == "parent"


def test_3_1_5_a_spawned_child_has_all_that_any_session_has(home: Home) -> None:
    """Status, the permission tunnel, the queue, cancel and close, on a child by its key."""
    top = at_work(home)
    child = from_inside(home, top, "ask", "--agent", "codex", "--mode", "session", "--json").json
    key = child["childSessionKey"]
    question = home.wait_question()
    assert question["sessionKey"] == key
    assert home.row(key)["turn"]["waitsFor"] == "permission"
    refused = home.run_inside(
        f"{top}.{'0' * 32}", "permissions", "answer", question["id"], "--allow"
    )
    assert refused.code == 5
    assert home.run("permissions", "answer", question["id"], "--allow").code == 0
    until(lambda: home.row(key)["turn"] is None)
    for _ in range(2):
        home.run("run", "--session", key, "--detach", "hang")
    until(lambda: home.row(key)["queueDepth"] == 1)
    cancelled = home.run("cancel", key, "--json")
    assert (cancelled.code, cancelled.json["turnEnded"]) == (0, True)
    assert home.row(key)["turn"] is None
    assert home.run("close", key).code == 0
    assert home.record(key)["state"] == "closed"
    home.run("kill", top, "--now")


def test_case_141_twenty_at_once_have_twenty_keys_and_one_session_new_each(home: Home) -> None:
    def one(n: int) -> dict[str, Any]:
        params = {"task": f"say {n}", "agentId": "codex", "runtime": "acp", "label": "same"}
        params["callerCwd"] = str(home.path)
        receipt: dict[str, Any] = home.ask("tool/spawn", **params)
        return receipt

    with ThreadPoolExecutor(20) as pool:
        receipts = list(pool.map(one, range(20)))
    keys = [receipt["childSessionKey"] for receipt in receipts]
    assert len(set(keys)) == 20
    for key in keys:
        # It is idle as well while it waits for a place.
        until(lambda key=key: home.record(key)["opens"] > 0)  # type: ignore[misc]
        until(lambda key=key: home.record(key)["state"] == "idle")  # type: ignore[misc]
        assert home.record(key)["opens"] == 1


async def test_a_program_spawns_goes_on_and_has_the_result_when_it_wants_it(home: Home) -> None:
    async with acpbridge.connect(home.path) as bridge:
        first = await bridge.spawn("say one", agent="codex", label="first", cwd=home.path)
        second = await bridge.spawn("say two", agent="house", task_name="second")
        assert (await second.result()).text.startswith("[Subagent Context]")
        result = await first.result()
        assert (result.text, result.ok, result.key) == ("one", True, first.key)
        assert first.cwd == str(home.path)
        with pytest.raises(acpbridge.BridgeError) as caught:
            await bridge.spawn("x", agent="nobody")
        assert caught.value.code == "no_such_agent"
        stays = await bridge.spawn("hang", agent="codex")
    until(lambda: (home.row(stays.key)["turn"] or {}).get("startedAt"))
    home.run("kill", stays.key, "--now")


def test_case_143_a_command_that_is_missing_is_accepted_and_fails_with_the_reason(
    tmp_path: Path,
) -> None:
    with daemon_home(tmp_path) as home:
        path = home.path / "config.yaml"
        rows = [{"id": "gone", "runtime": {"command": ["/no/such/program"]}}]
        path.write_text(json.dumps({"agents": {"list": rows}}), encoding="utf-8")
        done = home.run("spawn", "say x", "--agent", "gone", "--wait", "--json")
        assert done.code == 6
        assert (done.json["status"], done.json["outcome"]) == ("accepted", "failed")
        assert done.json["error"]["code"] in ("agent_not_found", "start_failed")
        failed(home.run("spawn", "say x", "--agent", "never-heard-of"), "no_such_agent", 4)
