"""What the real agents do with an answer: seen by what ran, and by what they wrote down."""

import hashlib
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.real.agents import AGENTS
from tests.real.bridge import PATIENCE, Bridge, bridge, until

pytestmark = [pytest.mark.real, pytest.mark.timeout(150)]

each_agent = pytest.mark.parametrize("agent", AGENTS)

# Where an agent keeps what it was allowed for good: settings, rules, policies, trusted places.
LASTING = ("*settings*.json", ".claude.json", "*.toml", "*.rules", "*polic*", "*trust*")


def lasting(*folders: Path) -> dict[str, str]:
    """Return a hash of every file in which a lasting permission could stand."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in folders
        for pattern in LASTING
        for path in folder.rglob(pattern)
        if path.is_file()
    }


def ask(it: Bridge, agent: str, command: str, *words: str) -> "tuple[Run, dict[str, Any]]":
    """Have the agent want to run a command; return the run and its question."""
    run = it.start(agent, f"run {command}", *words)
    return run, until(it.question, "a question")


def answer(it: Bridge, question: dict[str, Any], *words: str) -> dict[str, Any]:
    """Answer a question; return the decision."""
    code, decision = it.call("permissions", "answer", question["id"], *words)
    assert code == 0, decision
    return dict(decision)


def end(run: "Run") -> str:
    """Wait for a run's end; return what it said."""
    out, err = run.communicate(timeout=PATIENCE)
    assert run.returncode == 0, err
    return out


Run = subprocess.Popen[str]


@each_agent
def test_row_26_always_reaches_no_agents_own_always(agent: str, tmp_path: Path) -> None:
    """The agent hears `once`, and writes no rule of its own: another session of it asks again.

    With the picked option sent as it is, codex writes `rules/default.rules`.
    """
    with bridge(tmp_path, agent) as it:
        log = it.work / "log"
        command = f"echo ran >> {log}"
        new = ("--agent", agent, "--mode", "session")
        it.run(agent, "say hello", "--agent", agent)
        before = lasting(tmp_path / agent, it.work)
        run, question = ask(it, agent, command, *new)
        offered = [o["optionId"] for o in question["options"] if o["kind"] == "allow_always"]
        decision = answer(it, question, "--option", offered[0])
        end(run)
        kinds = {o["optionId"]: o["kind"] for o in question["options"]}
        assert (decision["effect"], kinds[decision["optionId"]]) == ("allow", "allow_once")
        run, question = ask(it, agent, command, *new)
        answer(it, question, "--deny")
        run.communicate(timeout=PATIENCE)
        assert log.read_text(encoding="utf-8") == "ran\n"
        assert lasting(tmp_path / agent, it.work) == before
