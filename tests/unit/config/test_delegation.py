"""The parts of the configuration that say what agents may start."""

import pytest

from acpbridge.config.load import load
from acpbridge.errors import BridgeError
from acpbridge.model.delegation import Delegation

TEXT = """
agents:
  defaults:
    subagents: {allowAgents: ["*"], thinking: high}
  list:
    - {id: plain, runtime: {command: [x]}}
    - id: own
      runtime: {command: [x]}
      subagents: {allow_agents: [Primary, own], model: small, requireAgentId: true}
acp: {enabled: false, defaultAgent: Codex, allowedAgents: [codex, "*"]}
limits: {maxConcurrentSubagents: 2, maxQueuedSpawns: 0, runTimeoutSeconds: 60}
"""


def test_an_agents_own_words_stand_over_the_defaults() -> None:
    config = load(TEXT, "c.yaml", "/home/x")
    plain, own = config.agents.values()
    assert plain.delegation == Delegation(("*",), thinking="high")
    assert own.delegation == Delegation(("main", "own"), "small", "high", require_agent_id=True)
    assert config.delegation == Delegation(("*",), thinking="high")
    assert (config.acp.enabled, config.acp.default_agent) == (False, "codex")
    assert config.acp.allowed_agents == ("codex", "*")
    assert config.limits.max_queued_spawns == 0


def test_without_a_word_only_the_agent_itself_may_be_started() -> None:
    config = load("agents: {list: [{id: codex}]}", "c.yaml", "/home/x")
    assert config.agents[next(iter(config.agents))].delegation == Delegation()
    assert config.acp.enabled
    assert config.acp.allowed_agents is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("acp: {enabled: maybe}", "acp.enabled"),
        ("acp: {allowedAgents: ['!!']}", "acp.allowedAgents"),
        ("acp: {dispatch: {enabled: true}}", "acp.dispatch"),
        ("agents: {defaults: {subagents: {delegationMode: prefer}}}", "delegationMode"),
        ("agents: {defaults: {model: x}}", "agents.defaults.model"),
        ("agents: {list: [{id: codex, subagents: {thinking: hard}}]}", "thinking"),
        ("limits: {runTimeoutSeconds: 86401}", "limits.runTimeoutSeconds"),
        ("limits: {maxConcurrentSubagents: 0}", "limits.maxConcurrentSubagents"),
        ("limits: {maxQueuedSpawns: -1}", "limits.maxQueuedSpawns"),
    ],
)
def test_what_nothing_acts_on_is_an_error_that_names_the_key(text: str, words: str) -> None:
    with pytest.raises(BridgeError, match=words) as caught:
        load(text, "c.yaml", "/home/x")
    assert caught.value.code == "config_error"
