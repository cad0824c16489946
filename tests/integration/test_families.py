"""Families of sessions with real processes: who is asked, who is told, and how often."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.daemon_home import Home, daemon_home, until
from tests.integration.test_completions import ask, inside

WIDE = 4

# A turn that goes on until somebody says so.
HELD = "ask execute hold allow_once reject_once\nsay let-go"


# An agent of the house: it says what it was asked in capitals.
AGENT = """
async def agent(turn):
    return turn.text.rpartition("[Subagent Task]")[2].strip().upper()
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with daemon_home(tmp_path) as home:
        home.configure({"maxProcesses": 12}, main=("--memory", str(tmp_path / "memory")))
        (tmp_path / "house.py").write_text(AGENT, encoding="utf-8")
        entry = {"kind": "python", "entry": f"{tmp_path / 'house.py'}:agent"}
        path = home.path / "config.yaml"
        config = json.loads(path.read_text(encoding="utf-8"))
        config["agents"]["list"][0]["subagents"] = {"allowAgents": ["house"]}
        config["agents"]["list"].append({"id": "house", "runtime": entry})
        path.write_text(json.dumps(config), encoding="utf-8")
        home.start()
        yield home


def began(home: Home, words: str) -> str:
    done = home.run("run", "--agent", "main", "--mode", "session", "--detach", words)
    assert done.code == 0, done
    key = done.out.strip()
    until(lambda: home.row(key)["opens"])
    return key


def spawned(home: Home, parent: str, task: str, agent: str = "main", runtime: str = "acp") -> str:
    given = {"task": task, "runtime": runtime, "agentId": agent, "cwd": str(home.path)}
    receipt = inside(home, parent, "tool/spawn", **given)
    assert receipt["status"] == "accepted", receipt
    return str(receipt["childSessionKey"])


def question_of(home: Home, key: str) -> Any:
    """Wait for what a session asks."""

    def look() -> Any:
        found = home.ask("questions")["permissions"]
        return next((one for one in found if one["sessionKey"] == key), None)

    return until(look)


def let_go(home: Home, key: str) -> None:
    question = question_of(home, key)
    assert home.run("permissions", "answer", question["id"], "--allow").code == 0


def events(home: Home, key: str) -> list[dict[str, Any]]:
    return home.run("logs", key, "--json").events


def delivered(home: Home, number: int) -> bool:
    """Tell whether so many completions are told, and none is left."""
    rows = ask(home, "tool/deliveries", everything=True)["deliveries"]
    return [row["state"] for row in rows] == ["delivered"] * number


def announced(home: Home, key: str) -> list[dict[str, Any]]:
    turns = (event for event in events(home, key) if event["type"] == "turn_started")
    return [e for e in turns if e["provenance"].get("sourceTool") == "subagent_announce"]


def test_3_3_3_5_a_grandchilds_question_is_decided_by_the_operator_and_its_end_is_told_its_parent(
    home: Home, tmp_path: Path
) -> None:
    root = began(home, "say ready")
    child = spawned(home, root, HELD)
    question_of(home, child)
    done = tmp_path / "done"
    words = f"ask execute deploy allow_once reject_once do {done} it-ran\nsay went-on"
    grandchild = spawned(home, child, words)
    question = question_of(home, grandchild)
    below = home.row(root)["questionsBelow"]
    assert question["id"] in json.dumps(below)
    code = home.run("permissions", "answer", question["id"], "--allow").code
    assert code == 0
    until(lambda: done.exists() and "it-ran" in done.read_text(encoding="utf-8"))
    until(lambda: not home.record(grandchild)["turn"])
    let_go(home, child)
    (told,) = until(lambda: announced(home, child))
    assert told["provenance"]["sourceSessionKey"] == grandchild
    assert "went-on" in told["prompt"][0]["text"]
    # Its child's end is told the root, which has nothing else to do, and its grandchild's is not.
    (of_child,) = until(lambda: announced(home, root))
    assert of_child["provenance"]["sourceSessionKey"] == child
    until(lambda: delivered(home, 2))
    assert len(announced(home, root)) == len(announced(home, child)) == 1
    ended = [e["at"] for e in events(home, grandchild) if e["type"] == "turn_ended"]
    assert ended[-1] <= told["at"] <= of_child["at"]


def test_3_3_3_3_a_python_child_is_spawned_and_its_end_is_announced_once(home: Home) -> None:
    """3-4.4: under its own key, and told its place apart from its task."""
    root = began(home, "say ready")
    child = spawned(home, root, "whisper", "house", "subagent")
    assert child.startswith("agent:house:subagent:")
    (told,) = until(lambda: announced(home, root))
    assert told["provenance"]["sourceSessionKey"] == child
    assert told["provenance"]["runtime"] == "subagent"
    assert "WHISPER" in told["prompt"][0]["text"]
    until(lambda: delivered(home, 1))
    assert len(announced(home, root)) == 1


def test_case_133_r12_twenty_children_on_three_levels_end_with_twenty_announces(
    home: Home, tmp_path: Path
) -> None:
    root = began(home, "say ready")
    children = [spawned(home, root, HELD) for _ in range(WIDE)]
    for child in children:
        question_of(home, child)
    below = {child: [spawned(home, child, f"say {n}") for n in range(WIDE)] for child in children}
    for child in children:
        for key in below[child]:
            until(lambda key=key: home.record(key)["opens"] and not home.record(key)["turn"])  # type: ignore[misc]
        let_go(home, child)
    until(lambda: delivered(home, WIDE * (WIDE + 1)))
    steps = [
        {"at": event["at"], "to": key, **event["provenance"]}
        for key in (root, *children)
        for event in announced(home, key)
    ]
    (tmp_path / "evidence.json").write_text(json.dumps(steps, indent=1), encoding="utf-8")
    assert len({step["runId"] for step in steps}) == len(steps) == WIDE * (WIDE + 1)
    told = Counter(step["sourceSessionKey"] for step in steps)
    assert told == Counter([*children, *(key for keys in below.values() for key in keys)])
    assert all(step["sourceSessionKey"] in below.get(step["to"], children) for step in steps)
