"""What an agent's entry chooses for all its sessions."""

import pytest

from acpbridge.config.load import load
from acpbridge.errors import BridgeError
from acpbridge.model.settings import Settings


def one(text: str) -> Settings:
    (agent,) = load(text, "c.yaml", "/home/x").agents.values()
    return agent.settings


def test_model_and_options_are_read_with_the_agents_own_ids() -> None:
    listed = "agents: {list: [{id: codex, model: gpt, options: {fast_mode: on, Effort: high}}]}"
    wanted = Settings("gpt", None, {"fast_mode": True, "Effort": "high"})
    assert one(listed) == wanted
    entries = "agents: {entries: {codex: {model: gpt, options: {fast_mode: on, Effort: high}}}}"
    assert one(entries) == wanted
    assert one("agents: {list: [{id: codex}]}") == Settings()


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("model: ''", "model"),
        ("model: 5", "model"),
        ("options: [a]", "options"),
        ("options: {a: 5}", "options.a"),
        ("options: {a: ''}", "options.a"),
    ],
)
def test_a_wrong_choice_names_line_and_key(text: str, key: str) -> None:
    with pytest.raises(BridgeError) as caught:
        one(f"agents: {{list: [{{id: codex, {text}}}]}}")
    assert caught.value.code == "config_error"
    assert caught.value.data["key"] == f"agents.list.0.{key}"
