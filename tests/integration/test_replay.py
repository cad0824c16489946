"""The replay of a load is history, also where it comes after the answer."""

import json
from pathlib import Path

import anyio
import pytest

from acpbridge.model.agents import AgentFacts
from acpbridge.runtimes.base import Load
from tests.integration.agents import fake_session
from tests.unit.runtimes.scenarios import HANG, Recorder, text


@pytest.mark.parametrize("late", [(), ("--late-replay", "50")])
async def test_what_was_said_before_is_not_said_again(
    tmp_path: Path, late: tuple[str, ...]
) -> None:
    memory = tmp_path / "memory"
    said = [("new", ""), ("user", "say old"), ("agent", "old")]
    lines = [json.dumps({"session": "s1", "role": role, "text": word}) for role, word in said]
    memory.write_text("\n".join(lines) + "\n", encoding="utf-8")
    host = Recorder()
    facts = AgentFacts(replay_quiet=0.5 if late else 0.0)
    options = ("--memory", str(memory), *late)
    with anyio.fail_after(HANG):
        async with fake_session(tmp_path, host, *options, facts=facts) as session:
            await session.open(Load("s1"))
            await session.prompt(text("say new"))
    assert host.said == "new"
