"""What the bridge does for a vendor's agent follows from its catalogue facts alone."""

from pathlib import Path
from typing import Any

import pytest

from acpbridge.config import catalogue
from acpbridge.config.environment import child_environment
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.keys import AgentId
from acpbridge.runtimes.acp import AcpRuntime
from acpbridge.runtimes.base import New, SessionSpec
from fixtures.fake_acp import fake_agent
from tests.integration.agents import received, supervisor
from tests.unit.runtimes.scenarios import Recorder, spec_fields

MODES = ("--modes", "auto,default,plan,bypassPermissions", "--mode", "auto", "--modes-as", "both")


async def traffic(name: str, folder: Path, mode: str | None = None) -> list[dict[str, Any]]:
    """Open a session of an agent with claude's facts under some id; return what it was sent."""
    folder.mkdir()
    definition = AgentDefinition(
        AgentId(name),
        command=fake_agent("--log", str(folder / "log.jsonl"), *MODES),
        mode=mode,
        facts=catalogue.CATALOGUE["claude"],
    )
    spec = SessionSpec(**spec_fields(definition, str(folder)))
    async with supervisor(folder) as parent, AcpRuntime(parent).connect(spec, Recorder()) as agent:
        await agent.open(New())
        assert agent.mode == "default"
    messages = received(folder)
    for message in messages:
        message.get("params", {}).pop("cwd", None)
        message.get("params", {}).pop("sessionId", None)
    return messages


async def test_an_unknown_agent_with_the_facts_of_claude_is_treated_like_claude(
    tmp_path: Path,
) -> None:
    known = await traffic("claude", tmp_path / "known")
    unknown = await traffic("stranger", tmp_path / "unknown")
    assert unknown == known
    assert "session/set_mode" in [message["method"] for message in known]


async def test_a_bypass_mode_is_refused_for_whoever_has_the_facts(tmp_path: Path) -> None:
    for name in ("claude", "stranger"):
        with pytest.raises(BridgeError) as caught:
            await traffic(name, tmp_path / name, mode="bypassPermissions")
        assert caught.value.code == "bypass_refused"


def test_an_unknown_agent_gets_the_environment_of_its_facts() -> None:
    facts = catalogue.CATALOGUE["claude"]
    caller = {"PATH": "/bin", "ANTHROPIC_API_KEY": "k", "OPENAI_API_KEY": "o", "OTHER": "x"}
    known, unknown = (
        child_environment(AgentDefinition(AgentId(n), facts=facts), caller, home="/h", mark="m")
        for n in ("claude", "stranger")
    )
    assert known == unknown
    assert known["ANTHROPIC_API_KEY"] == "k"
    assert "OPENAI_API_KEY" not in known
