"""What the real agents do with an answer: seen by what ran, and by what they wrote down."""

import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.real.agents import AGENTS
from tests.real.bridge import PATIENCE, Bridge, bridge

pytestmark = [pytest.mark.real, pytest.mark.timeout(150)]

each_agent = pytest.mark.parametrize("agent", AGENTS)

NEW = ("--mode", "session", "--agent")

# Where an agent keeps what it was allowed for good: settings, rules, policies, trusted places.
LASTING = ("*settings*.json", "*.toml", "*.rules", "*polic*", "*trust*")
# And a file with counters of all kinds besides.
STATE = ".claude.json"
ALLOWING = re.compile("allow|permission|trust|approv|bypass|deny", re.IGNORECASE)


def lasting(*folders: Path) -> dict[str, str]:
    """Return everything in which a lasting permission could stand, by its place."""
    found = {}
    for folder in folders:
        for path in [path for pattern in LASTING for path in folder.rglob(pattern)]:
            if path.is_file():
                found[str(path)] = hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob(STATE):
            found |= dict(allowing(json.loads(path.read_text(encoding="utf-8")), str(path)))
    return found


def allowing(value: Any, place: str) -> Iterator[tuple[str, str]]:
    """Yield what stands under a key that speaks of permissions, however deep."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in items:
        if ALLOWING.search(str(key)):
            yield f"{place}/{key}", json.dumps(item, sort_keys=True)
        elif isinstance(item, dict | list):
            yield from allowing(item, f"{place}/{key}")


@dataclass(frozen=True)
class Asked:
    """A question, what its answer came to, and how the run ended."""

    question: dict[str, Any]
    decision: dict[str, Any]
    code: int

    @property
    def key(self) -> str:
        return str(self.question["sessionKey"])

    @property
    def sent(self) -> str:
        """The kind of the option that the agent was answered with."""
        kinds = {o["optionId"]: o["kind"] for o in self.question["options"]}
        return str(kinds[self.decision["optionId"]])


def ask(
    it: Bridge, agent: str, command: str, words: tuple[str, ...], how: str, *more: str
) -> Asked:
    """Have the agent want to run a command, and answer: `--deny`, or with an option of a kind."""
    with it.start(agent, f"run {command}", *words) as run:
        question = it.question()
        reply = [how]
        if not how.startswith("--"):
            reply = [
                "--option",
                next(o["optionId"] for o in question["options"] if o["kind"] == how),
            ]
        code, decision = it.call("permissions", "answer", question["id"], *reply, *more)
        assert code == 0, decision
        run.communicate(timeout=PATIENCE)
    return Asked(question, decision, run.returncode)


@each_agent
def test_row_26_always_reaches_no_agents_own_always(agent: str, tmp_path: Path) -> None:
    """The agent hears `once`, and writes no rule of its own: another session of it asks again.

    With the picked option sent as it is, codex writes `rules/default.rules`.
    """
    with bridge(tmp_path, agent) as it:
        log = it.work / "log"
        command = f"echo ran >> {log}"
        it.run(agent, "say hello", "--agent", agent)
        before = lasting(tmp_path / agent, it.work)
        first = ask(it, agent, command, (*NEW, agent), "allow_always")
        assert (first.decision["effect"], first.sent, first.code) == ("allow", "allow_once", 0)
        second = ask(it, agent, command, (*NEW, agent), "--deny")
        assert second.key != first.key
        assert log.read_text(encoding="utf-8") == "ran\n"
        assert lasting(tmp_path / agent, it.work) == before


@each_agent
def test_row_26_what_was_granted_runs_again_unasked_and_nothing_beside_it(
    agent: str, tmp_path: Path
) -> None:
    """Gemini says what it runs in the title alone, which is no evidence: then it is this once."""
    grants = agent != "gemini"
    with bridge(tmp_path, agent) as it:
        one, two = it.work / "one", it.work / "two"
        first = ask(it, agent, f"git init {one}", (*NEW, agent), "allow_always")
        assert first.decision["lasts"] == ("session" if grants else "once")
        shutil.rmtree(one)
        on = ("--session", first.key)
        if grants:
            again = it.run(agent, f"run git init {one}", *on)
            assert again.returncode == 0, again.stderr
            assert one.is_dir()
            _, listed = it.call("permissions", "grants")
            assert [grant["uses"] for grant in listed["grants"]] == [1]
        reason = "two is one too many"
        beside = ask(it, agent, f"git init {two}", on, "--deny", "--reason", reason)
        assert beside.decision["effect"] == "deny"
        assert not two.exists()
        assert reason not in str([request.body for request in it.model.requests])
        last = it.run(agent, "say what now", *on)
        assert (last.returncode, last.stdout.strip()) == (0, "what now"), last.stderr
        assert reason in str(it.model.requests[-1].body)
