"""What an agent that is a model needs is loaded for such an agent, and for no other."""

import subprocess
import sys

import pytest

from acpbridge.errors import BridgeError
from acpbridge.model.modelagent import VARIABLE, ModelAgent
from acpbridge.serving.modelled import agent_by_model


def test_an_agent_with_code_loads_no_model_layer() -> None:
    names = "{'pydantic_ai', 'anthropic', 'openai', 'google', 'mcp'}"
    begin = "import sys, acpbridge.serving.root, acpbridge.agents.demo"
    code = f"{begin}; print({names} & {{*sys.modules}})"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, timeout=120
    )
    assert done.stdout.decode().strip() == "set()"


def test_without_the_packages_it_is_said_how_to_install_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "acpbridge.agents.model", None)
    with pytest.raises(BridgeError) as caught:
        agent_by_model({VARIABLE: ModelAgent("anthropic:x").write()})
    assert caught.value.code == "usage"
    assert "acpbridge[agents]" in caught.value.hint
