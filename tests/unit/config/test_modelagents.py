"""An agent that is a model in the file: each key acts, and what cannot act is refused."""

import json
from typing import Any

import pytest

from acpbridge.config.catalogue import MODEL_VENDORS
from acpbridge.config.environment import child_environment
from acpbridge.config.load import load
from acpbridge.config.modelagents import LONGEST
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.modelagent import ENTRY, HOUSE_TOOLS, SESSION_TOOLS, VARIABLE, ModelAgent
from acpbridge.router.tooling import CALLS

WHOLE = {
    "kind": "python",
    "model": "anthropic:claude-x",
    "instructions": "Be short.\nBe kind: “so”.",
    "tools": ["read_file", "sessions_spawn", "read_file"],
    "maxIterations": 7,
    "baseUrl": "http://127.0.0.1:8080",
}


def read(runtime: dict[str, Any], **agent: Any) -> AgentDefinition:
    rows = [{"id": "x", "runtime": runtime, **agent}]
    (found,) = load(json.dumps({"agents": {"list": rows}}), "c.yaml", "/home/ann").agents.values()
    return found


def test_each_key_is_part_of_the_definition() -> None:
    found = read(WHOLE)
    assert found.by_model == ModelAgent(
        "anthropic:claude-x",
        "Be short.\nBe kind: “so”.",
        ("read_file", "sessions_spawn"),
        7,
        "http://127.0.0.1:8080",
    )
    assert (found.kind, found.entry) == (RuntimeKind.PYTHON, ENTRY)
    assert found.facts.asking_mode == "default"


def test_the_session_tools_can_be_given_all_at_once() -> None:
    found = read(WHOLE, tools={"sessions": True}).by_model
    assert found is not None
    assert found.tools == ("read_file", *sorted(SESSION_TOOLS, key=_sessions_spawn_first))


def _sessions_spawn_first(name: str) -> bool:
    return name != "sessions_spawn"


def test_a_model_alone_has_no_tools() -> None:
    found = read({"kind": "python", "model": "google:gemini"})
    assert found.by_model == ModelAgent("google:gemini")


def test_its_process_is_told_what_it_is_and_no_other_process_is() -> None:
    env = child_environment(read(WHOLE), {VARIABLE: "forged"}, home="/h", mark="m")
    assert ModelAgent.read(env[VARIABLE]) == read(WHOLE).by_model
    other = read({"kind": "python", "entry": "a:b"})
    assert VARIABLE not in child_environment(other, {VARIABLE: "forged"}, home="/h", mark="m")


@pytest.mark.parametrize("vendor", MODEL_VENDORS)
def test_its_key_comes_only_from_what_is_passed(vendor: str) -> None:
    caller = dict.fromkeys(MODEL_VENDORS[vendor], "secret")
    bare = {"kind": "python", "model": f"{vendor}:m"}
    assert "secret" not in child_environment(read(bare), caller, home="", mark="").values()
    passing = read(bare, env={"pass": list(caller)})
    assert set(caller) < set(child_environment(passing, caller, home="", mark=""))
    assert passing.facts.secret_names == MODEL_VENDORS[vendor]


@pytest.mark.parametrize(
    ("change", "key"),
    [
        ({"model": "claude-x"}, "model"),
        ({"model": "nobody:claude-x"}, "model"),
        ({"model": "anthropic:"}, "model"),
        ({"model": "anthropic:a b"}, "model"),
        ({"tools": ["read_file", "rm"]}, "tools.1"),
        ({"maxIterations": 0}, "maxIterations"),
        ({"maxIterations": 1001}, "maxIterations"),
        ({"maxIterations": True}, "maxIterations"),
        ({"baseUrl": "file:///etc/passwd"}, "baseUrl"),
        ({"baseUrl": "127.0.0.1:80"}, "baseUrl"),
        ({"instructions": "x" * LONGEST}, "instructions"),
        ({"temperature": 1}, "temperature"),
    ],
)
def test_what_cannot_act_is_refused_by_its_key(change: dict[str, Any], key: str) -> None:
    with pytest.raises(BridgeError) as caught:
        read(WHOLE | change)
    assert caught.value.code == "config_error"
    assert f"agents.list.0.runtime.{key}" in caught.value.message


@pytest.mark.parametrize(
    "runtime",
    [
        {"kind": "python", "model": "google:m", "entry": "a:b"},
        {"kind": "python", "model": "google:m", "command": ["x"]},
        {"kind": "python", "entry": "a:b", "tools": ["read_file"]},
        {"kind": "acp", "command": ["x"], "instructions": "y"},
        {"command": ["x"], "model": "google:m"},
    ],
)
def test_an_agent_is_code_or_a_model_or_a_program(runtime: dict[str, Any]) -> None:
    with pytest.raises(BridgeError, match="runtime"):
        read(runtime)


def test_the_tools_that_may_be_named_are_those_that_there_are() -> None:
    assert set(SESSION_TOOLS) <= set(CALLS)
    assert not set(SESSION_TOOLS) & set(HOUSE_TOOLS)


def test_0_15_one_that_calls_roles_is_told_where_the_users_configuration_is() -> None:
    """Beside that its roles lie; what calls none is told nothing."""
    found = read({**WHOLE, "tools": ["read_file", "SubAgent"]}).by_model
    assert found is not None
    assert found.config == "c.yaml"
    assert ModelAgent.read(found.write()) == found
    plain = read(WHOLE).by_model
    assert plain is not None
    assert plain.config == ""
