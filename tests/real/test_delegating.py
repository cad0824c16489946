"""Real agents that are delegated to, and one that delegates: who hears what, once.

Each test writes down what it has seen, with times and ids, beside its state directory.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from fixtures.fake_acp import fake_agent
from tests.real.agents import AGENTS
from tests.real.bridge import PATIENCE, Bridge, bridge, until

pytestmark = [pytest.mark.real, pytest.mark.timeout(150)]

# Asks as a program that a session's agent has started: who it is, the daemon finds.
ASK = """
import json, sys
from acpbridge.daemon.paths import find
from acpbridge.daemon.quick import connect
home, method, params = sys.argv[1:]
with connect(find(home, {})) as client:
    print(json.dumps(client.call(method, limit=60, **json.loads(params))))
"""

REPORT = "What follows is a report of acpbridge"

SHOWN = ("turn_started", "permission_decided", "announce", "turn_ended", "turn_failed")


def configure(it: Bridge, *more: Mapping[str, Any], **changes: Mapping[str, Any]) -> None:
    """Add agents to the configuration, and keys to those that are there; before the daemon."""
    path = it.home / "config.yaml"
    config = json.loads(path.read_text(encoding="utf-8"))
    rows = [{**row, **changes.get(row["id"], {})} for row in config["agents"]["list"]]
    config["agents"]["list"] = [*rows, *more]
    path.write_text(json.dumps(config), encoding="utf-8")


def session(it: Bridge, env_of: str, agent: str, words: str) -> str:
    """Have a first turn of a session that stays; return its key at once."""
    options = ("--agent", agent, "--mode", "session", "--detach")
    with it.start(env_of, words, *options) as run:
        out, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, err
    return str(out.strip())


def inside(it: Bridge, key: str, method: str, **params: Any) -> Any:
    """Ask the daemon from within a session; "" for a person."""
    done = subprocess.run(
        [sys.executable, "-c", ASK, str(it.home), method, json.dumps(params)],
        env={"ACPBRIDGE_MARK": f"{key}.{'0' * 32}"} if key else {},
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done
    return json.loads(done.stdout)


def events(it: Bridge, key: str) -> list[dict[str, Any]]:
    words = it.argv("logs", key, "--json")
    done = subprocess.run(words, capture_output=True, timeout=PATIENCE, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def announces(it: Bridge, key: str) -> list[dict[str, Any]]:
    """Return the turns by which a session was told of the end of what it had started."""
    return [
        event
        for event in events(it, key)
        if event["type"] == "turn_started"
        and event["provenance"].get("sourceTool") == "subagent_announce"
    ]


def told(it: Bridge, key: str) -> dict[str, Any]:
    """Wait until a session was told of one end, and has answered; return how it was told."""

    def look() -> list[dict[str, Any]]:
        found = announces(it, key)
        over = {event["turn"] for event in events(it, key) if event["type"] == "turn_ended"}
        return [event for event in found if event["turn"] in over]

    (event,) = until(look, "the announce")
    return dict(event)


def once(it: Bridge, key: str) -> None:
    """Check that there is one completion, which was told, and that it was told once."""

    def look() -> bool:
        rows = inside(it, "", "tool/deliveries", everything=True)["deliveries"]
        return [row["state"] for row in rows] == ["delivered"]

    until(look, "the end of the delivery")
    assert len(announces(it, key)) == 1


def check_evidence(
    it: Bridge, path: Path, parent: str, child: str, event: Mapping[str, Any]
) -> None:
    """Write down what happened, and check that the child had ended before that was told."""
    steps = evidence(it, path, parent, child)
    of_child = [step for step in steps if step["key"] == child]
    assert [step["type"] for step in of_child] == ["turn_started", "turn_ended"]
    assert of_child[-1]["at"] <= event["at"]


def evidence(it: Bridge, path: Path, *keys: str) -> list[dict[str, Any]]:
    """Write down what happened in some sessions, in the order of time."""
    steps = [
        {name: event.get(name) for name in ("at", "key", "seq", "type", "turn", "provenance")}
        for key in keys
        for event in events(it, key)
        if event["type"] in SHOWN
    ]
    steps.sort(key=lambda step: str(step["at"]))
    path.write_text(json.dumps(steps, indent=1), encoding="utf-8")
    return steps


@pytest.mark.parametrize("agent", AGENTS)
def test_3_3_3_4_a_real_agent_is_spawned_and_its_end_is_announced_once(
    agent: str, tmp_path: Path
) -> None:
    with bridge(tmp_path, agent) as it:
        configure(it, {"id": "main", "runtime": {"command": list(fake_agent())}})
        parent = session(it, agent, "main", "say ready")
        given = {"task": "say pong-42", "runtime": "acp", "agentId": agent, "cwd": str(it.work)}
        receipt = inside(it, parent, "tool/spawn", **given)
        child = receipt["childSessionKey"]
        assert (receipt["status"], child.split(":")[:3]) == ("accepted", ["agent", agent, "acp"])
        event = told(it, parent)
        said = event["provenance"]
        assert (said["runId"], said["sourceSessionKey"]) == (receipt["runId"], child)
        assert said["runtime"] == "acp"
        assert "pong-42" in event["prompt"][0]["text"]
        once(it, parent)
        check_evidence(it, tmp_path / "evidence.json", parent, child, event)


def test_3_4_5_claude_starts_codex_by_the_session_tools_and_is_told_its_result(
    tmp_path: Path,
) -> None:
    """3-ACC4: model, MCP, a person's yes, the daemon, the other agent, and back."""
    with bridge(tmp_path, "claude", "codex") as it:
        configure(it, claude={"tools": {"sessions": True}})
        it.agents["claude"].env.update(
            {name: it.agents["codex"].env[name] for name in ("CODEX_HOME", "OPENAI_API_KEY")}
        )
        task = {"task": "say pong-42", "runtime": "acp", "agentId": "codex", "cwd": str(it.work)}
        parent = session(it, "claude", "claude", f"call sessions_spawn {json.dumps(task)}")
        question = it.question()
        assert question["sessionKey"] == parent
        code, decision = it.call("permissions", "answer", question["id"], "--allow")
        assert (code, decision["effect"]) == (0, "allow")
        event = told(it, parent)
        said = event["provenance"]
        child = said["sourceSessionKey"]
        assert child.startswith("agent:codex:acp:")
        assert (said["sourceTool"], said["runtime"]) == ("subagent_announce", "acp")
        assert "pong-42" in event["prompt"][0]["text"]
        heard = [str(request.body) for request in it.model.requests if "messages" in request.body]
        assert any(REPORT in body and "pong-42" in body.partition(REPORT)[2] for body in heard)
        once(it, parent)
        check_evidence(it, tmp_path / "evidence.json", parent, child, event)
        _, tree = it.call("tree", parent, "--all")
        (family,) = tree["families"]
        assert [row["key"] for row in family["children"]] == [child]
