"""The example of an agent, run both ways: in a program, and as a process behind the daemon."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import pytest

import acpbridge
from acpbridge import Answer, OpenQuestion
from acpbridge.edge.load import load_entry
from tests.integration.daemon_home import LIMIT, Home, daemon_home

ENTRY = f"{Path(__file__).parents[2] / 'examples' / 'shout.py'}:shout"


def kind(event: Mapping[str, Any]) -> str:
    """Return what kind of thing happened."""
    update = event.get("update", {})
    words = (event["type"], update.get("sessionUpdate"), update.get("status"), event.get("effect"))
    return " ".join(filter(None, words))


async def in_a_program(home: Path, cwd: Path, allow: bool) -> list[str]:
    async def decide(question: OpenQuestion) -> Answer:
        (diff,) = question.subject["content"]
        assert (diff["oldText"], diff["newText"]) == ("before\n", "HELLO\n")
        return Answer.allow() if allow else Answer.deny()

    agents = {"shout": load_entry(ENTRY)}
    async with (
        acpbridge.open_bridge(home, agents, on_question=decide) as bridge,
        bridge.start("hello", agent="shout", cwd=cwd) as run,
    ):
        return [kind(event.value) async for event in run]


def by_the_daemon(home: Home, cwd: Path, *, allow: bool) -> list[str]:
    rows = [{"id": "shout", "runtime": {"kind": "python", "entry": ENTRY}}]
    config = json.dumps({"agents": {"list": rows}})
    (home.path / "config.yaml").write_text(config, encoding="utf-8")
    with home.running("run", "hello", "--cwd", str(cwd), "--format", "json") as run:
        question = home.wait_question()
        answer = "--allow" if allow else "--deny"
        assert home.run("permissions", "answer", question["id"], answer).code == 0
        out, err = run.communicate(timeout=LIMIT)
    assert run.returncode == 0, err
    return [kind(json.loads(line)) for line in out.splitlines()]


@pytest.mark.parametrize("allow", [True, False])
def test_the_example_does_the_same_in_a_program_and_behind_the_daemon(
    allow: bool, tmp_path: Path
) -> None:
    seen = []
    for how in ("program", "daemon"):
        cwd = tmp_path / how
        cwd.mkdir()
        (cwd / "shout.txt").write_text("before\n", encoding="utf-8")
        if how == "program":
            seen.append(anyio.run(in_a_program, tmp_path / "state", cwd, allow))
        else:
            with daemon_home(tmp_path) as home:
                seen.append(by_the_daemon(home, cwd, allow=allow))
        text = (cwd / "shout.txt").read_text(encoding="utf-8")
        assert text == ("HELLO\n" if allow else "before\n")
    assert seen[0] == seen[1]
    assert seen[0][3:] == [
        "update plan",
        "update tool_call in_progress",
        "update tool_call_update",
        "permission_asked",
        f"permission_decided {'allow' if allow else 'deny'}",
        f"update tool_call_update {'completed' if allow else 'failed'}",
        *(["update plan"] if allow else []),
        "update agent_message_chunk",
        "turn_ended",
    ]


@pytest.mark.parametrize(
    ("typed", "says"), [("y", "I wrote it to shout.txt."), ("", "You said no")]
)
def test_the_example_of_a_program_asks_at_the_terminal(
    typed: str, says: str, tmp_path: Path
) -> None:
    program = Path(ENTRY.rpartition(":")[0]).with_name("program.py")
    done = subprocess.run(
        [sys.executable, program],
        input=f"{typed}\n",
        cwd=tmp_path,
        env={**os.environ, "ACPBRIDGE_HOME": str(tmp_path / "state")},
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert says in done.stdout
    assert (tmp_path / "shout.txt").exists() is (typed == "y")
