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


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    with daemon_home(tmp_path) as home:
        home.configure({"maxProcesses": 12}, main=("--memory", str(tmp_path / "memory")))
        home.start()
        yield home


def began(home: Home, words: str) -> str:
    done = home.run("run", "--agent", "main", "--mode", "session", "--detach", words)
    assert done.code == 0, done
    key = done.out.strip()
    until(lambda: (home.row(key)["turn"] or {}).get("startedAt"))
    return key


def spawned(home: Home, parent: str, task: str) -> str:
    given = {"task": task, "runtime": "acp", "agentId": "main", "cwd": str(home.path)}
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


def announced(home: Home, key: str) -> list[dict[str, Any]]:
    events = home.run("logs", key, "--json").events
    turns = (event for event in events if event["type"] == "turn_started")
    return [e for e in turns if e["provenance"].get("sourceTool") == "subagent_announce"]


def test_3_3_3_5_a_grandchilds_question_is_decided_by_the_operator_and_its_end_is_told_its_parent(
    home: Home, tmp_path: Path
) -> None:
    root = began(home, "hang")
    child = spawned(home, root, HELD)
    question_of(home, child)
    done = tmp_path / "done"
    words = f"ask execute deploy allow_once reject_once do {done} it-ran\nsay went-on"
    grandchild = spawned(home, child, words)
    question = question_of(home, grandchild)
    assert home.row(root)["questionsBelow"] != []
    code = home.run("permissions", "answer", question["id"], "--allow").code
    assert code == 0
    until(lambda: done.exists() and "it-ran" in done.read_text(encoding="utf-8"))
    until(lambda: not home.record(grandchild)["turn"])
    let_go(home, child)
    (told,) = until(lambda: announced(home, child))
    assert told["provenance"]["sourceSessionKey"] == grandchild
    assert "went-on" in told["prompt"][0]["text"]
    assert announced(home, root) == []
    assert home.run("kill", root, "--now").code == 0


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

    def delivered() -> bool:
        rows = ask(home, "tool/deliveries", everything=True)["deliveries"]
        return [row["state"] for row in rows] == ["delivered"] * (WIDE * (WIDE + 1))

    until(delivered)
    told = Counter(
        event["provenance"]["sourceSessionKey"]
        for key in (root, *children)
        for event in announced(home, key)
    )
    assert told == Counter([*children, *(key for keys in below.values() for key in keys)])
    (tmp_path / "evidence.json").write_text(json.dumps(told, indent=1), encoding="utf-8")
