"""Which agents there are on a machine, which of them runs by default, and where logins are."""

from dataclasses import replace
from pathlib import Path

import pytest

from acpbridge.config import catalogue, recognise
from acpbridge.config.load import load
from acpbridge.config.snapshot import Config
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, AgentFacts
from acpbridge.model.keys import AgentId
from acpbridge.runtimes.inventory import asks, default_agent, inventory
from acpbridge.runtimes.logins import login_command, login_source


def machine(tmp_path: Path, *programs: str) -> dict[str, str]:
    """Return the environment of a machine with these programs."""
    for name in programs:
        (tmp_path / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (tmp_path / name).chmod(0o755)
    return {"PATH": str(tmp_path), "HOME": str(tmp_path / "home")}


def log_in(tmp_path: Path, name: str) -> None:
    (tmp_path / "home" / name).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "home" / name).touch()


ALL = ("claude-agent-acp", "codex-acp", "gemini", "npx")


def test_with_nothing_installed_the_demo_is_the_default(tmp_path: Path) -> None:
    assert default_agent(machine(tmp_path), "/").id == "demo"
    assert default_agent({}, "/").id == "demo"


def test_what_is_installed_and_not_logged_in_is_not_the_default(tmp_path: Path) -> None:
    assert default_agent(machine(tmp_path, *ALL), "/").id == "demo"


def test_what_would_have_to_be_downloaded_is_not_the_default(tmp_path: Path) -> None:
    env = machine(tmp_path, "npx") | {"OPENAI_API_KEY": "k"}
    assert default_agent(env, "/").id == "demo"


def test_the_first_of_the_catalogue_that_is_installed_and_logged_in_is_the_default(
    tmp_path: Path,
) -> None:
    env = machine(tmp_path, *ALL)
    log_in(tmp_path, ".gemini/oauth_creds.json")
    assert default_agent(env, "/").id == "gemini"
    assert default_agent(env | {"OPENAI_API_KEY": "k"}, "/").id == "codex"
    log_in(tmp_path, ".claude/.credentials.json")
    assert default_agent(env | {"OPENAI_API_KEY": "k"}, "/").id == "claude"
    (tmp_path / "claude-agent-acp").unlink()
    assert default_agent(env, "/").id == "gemini"


def test_a_login_is_found_where_the_agents_own_variable_says(tmp_path: Path) -> None:
    env = machine(tmp_path, *ALL) | {"CODEX_HOME": str(tmp_path / "elsewhere")}
    assert default_agent(env, "/").id == "demo"
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "auth.json").touch()
    assert default_agent(env, "/").id == "codex"


def known(name: str) -> AgentDefinition:
    found = recognise.entry(name)
    assert found is not None
    return found


def test_the_configured_come_first_then_the_known_then_the_demo(tmp_path: Path) -> None:
    config = load("agents: {list: [{id: gemini}, {id: mine, runtime: {command: [x]}}]}", "c", "/h")
    found = inventory(config, machine(tmp_path), "/")
    ids = [str(listed.definition.id) for listed in found]
    assert ids[:2] == ["gemini", "mine"]
    assert ids[-1] == "demo"
    assert len(ids) == len(set(ids)) == len(catalogue.CATALOGUE) + 2
    assert [str(a.definition.id) for a in found if a.configured] == ["gemini", "mine"]
    assert [str(a.definition.id) for a in found if a.default] == ["gemini"]


@pytest.mark.parametrize("name", [*catalogue.CATALOGUE, "demo"])
def test_every_agent_says_how_it_would_be_launched(name: str, tmp_path: Path) -> None:
    def launch(*programs: str) -> str:
        everyone = inventory(Config(), machine(tmp_path, *programs), "/")
        (row,) = [a.to_json() for a in everyone if a.definition.id == name]
        assert (row["command"] is None) == (row["missing"] is not None)
        assert row["missing"] is None or all(row["missing"].values())
        return str(row["launch"])

    facts = known(name).facts
    reachable = facts.binaries or facts.npx_package or facts.uvx_package
    nowhere = "python" if name == "demo" else "missing" if reachable else "unknown"
    assert launch() == nowhere
    if facts.npx_package:
        assert launch("npx") == "npx"
    if facts.uvx_package:
        assert launch("uvx") == "uvx"
    if facts.binaries:
        assert launch(facts.binaries[0]) == "installed"


def test_where_a_login_comes_from_is_said_and_never_what_it_is(tmp_path: Path) -> None:
    env = machine(tmp_path)
    assert login_source(catalogue.DEMO, env) == "not needed"
    codex = known("codex")
    for none in ({}, {"OPENAI_API_KEY": ""}, {"GEMINI_API_KEY": "k"}):
        assert login_source(codex, env | none) == "unknown"
    log_in(tmp_path, ".codex/auth.json")
    by_file = f"file:{tmp_path}/home/.codex/auth.json"
    assert login_source(codex, env) == by_file
    key = env | {"CODEX_API_KEY": "sk-secret"}
    assert login_source(codex, key) == "env:CODEX_API_KEY"
    # What the agent does not get is not where its login comes from.
    assert login_source(replace(codex, auth="subscription"), key) == by_file
    fixed = replace(codex, env_set={"OPENAI_API_KEY": "k", "CODEX_HOME": "/nowhere"})
    assert login_source(fixed, env) == "env:OPENAI_API_KEY"
    assert login_source(AgentDefinition(AgentId("x")), key) == "unknown"


def test_whether_a_mode_asks_is_known_or_said_to_be_unknown() -> None:
    codex = known("codex")
    assert asks(codex) is True
    assert asks(codex, "agent") is False
    assert asks(codex, "agent-full-access") is False
    assert asks(known("opencode")) is None
    assert asks(known("opencode"), "default") is None
    assert asks(known("opencode"), "yolo") is False


def test_the_login_of_an_agent_is_a_command_of_its_own_program(tmp_path: Path) -> None:
    env = machine(tmp_path, "codex-acp", "claude-agent-acp", "npx", "node")
    codex, claude = known("codex"), known("claude")
    assert login_command(codex, "", env, "/").argv == (f"{tmp_path}/codex-acp", "login")
    words = ("--cli", "auth", "login", "--claudeai")
    found = login_command(claude, "claudeai", env, "/").argv
    assert found == (f"{tmp_path}/claude-agent-acp", *words)
    for command, program in (
        (("codex-acp", "--fast"), ("codex-acp",)),
        (("codex", "acp"), ("codex-acp",)),
        (("npx", "-y", "x@1"), ("npx", "-y", "x@1")),
        (("node", "/n/index.js"), ("node", "/n/index.js")),
    ):
        argv = login_command(replace(codex, command=command), "", env, "/").argv
        assert argv == (f"{tmp_path}/{program[0]}", *program[1:], "login")


@pytest.mark.parametrize(
    ("name", "method", "code"),
    [
        ("claude", "", "usage"),
        ("claude", "nope", "usage"),
        ("codex", "nope", "usage"),
        ("gemini", "", "auth_required"),
        ("kiro", "", "auth_required"),
        ("codex", "", "agent_not_found"),
    ],
)
def test_a_login_that_cannot_be_run_says_what_to_do(
    name: str, method: str, code: str, tmp_path: Path
) -> None:
    with pytest.raises(BridgeError) as caught:
        login_command(known(name), method, machine(tmp_path), "/")
    assert caught.value.code == code
    assert caught.value.hint


def test_facts_alone_make_an_agent_list_and_log_in_like_a_known_one(tmp_path: Path) -> None:
    facts = AgentFacts(binaries=("new-agent",), secret_names=("KEY",), env_names=("KEY",))
    facts = replace(facts, logins={"default": ("auth",)})
    agent = AgentDefinition(AgentId("new"), facts=facts)
    env = machine(tmp_path, "new-agent") | {"KEY": "x"}
    assert login_source(agent, env) == "env:KEY"
    assert login_command(agent, "", env, "/").argv == (f"{tmp_path}/new-agent", "auth")
