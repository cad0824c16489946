"""Agents that are a model in the configuration and no code: real processes, a scripted model."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures.fake_model import FakeModel
from tests.integration.daemon_home import Done, Home, daemon_home

TOOLS = ["read_file", "list_files", "write_file", "run_command"]
VENDORS = {
    "anthropic": ("anthropic:claude-scripted", "", "ANTHROPIC_API_KEY"),
    "openai": ("openai:scripted", "/v1", "OPENAI_API_KEY"),
    "google": ("google:gemini-scripted", "", "GOOGLE_API_KEY"),
}
SECRET = "sk-a-key-that-nobody-may-see"


@pytest.fixture(scope="module")
def model() -> Iterator[FakeModel]:
    with FakeModel(sides=False) as served:
        yield served


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory, model: FakeModel) -> Iterator[Home]:
    with daemon_home(tmp_path_factory.mktemp("models")) as made:
        rows = [row(name, model) for name in VENDORS]
        rows.append(row("anthropic", model) | {"id": "keyless", "env": {}})
        (made.path / "config.yaml").write_text(
            json.dumps({"agents": {"list": rows}}), encoding="utf-8"
        )
        work(made).mkdir()
        made.env |= {key: SECRET for _, _, key in VENDORS.values()}
        yield made


def row(vendor: str, model: FakeModel, **more: Any) -> dict[str, Any]:
    name, path, key = VENDORS[vendor]
    runtime = {
        "kind": "python",
        "model": name,
        "instructions": "You are the agent of a test.",
        "tools": TOOLS,
        "maxIterations": 5,
        "baseUrl": model.url + path,
        **more,
    }
    return {"id": vendor, "env": {"pass": [key]}, "runtime": runtime}


def work(home: Home) -> Path:
    """Return the directory in which the agents work: no agent may write where acpbridge lives."""
    return home.path.parent / "work"


def run(home: Home, agent: str, words: str, *options: str) -> Done:
    cwd = str(work(home))
    return home.run("run", words, "--agent", agent, "--cwd", cwd, "--format", "json", *options)


def said(done: Done) -> str:
    updates = (event.get("update", {}) for event in done.events)
    chunks = (u for u in updates if u.get("sessionUpdate") == "agent_message_chunk")
    return "".join(chunk["content"]["text"] for chunk in chunks)


@pytest.mark.parametrize("vendor", VENDORS)
def test_an_agent_of_each_vendor_calls_a_tool_that_a_person_allowed(
    home: Home, model: FakeModel, vendor: str
) -> None:
    words = f'call write_file {{"path": "{vendor}.txt", "content": "by {vendor}"}}'
    done = run(home, vendor, words, "--on-permission", "allow")
    assert done.code == 0, done
    assert (work(home) / f"{vendor}.txt").read_text(encoding="utf-8") == f"by {vendor}"
    assert "Wrote" in said(done)
    key = done.events[0]["key"]
    assert key.startswith(f"agent:{vendor}:subagent:")
    assert SECRET not in done.out + done.err
