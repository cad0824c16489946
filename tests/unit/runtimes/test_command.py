"""Which program is started for an agent, and what is said when there is none."""

import sys
from pathlib import Path

import pytest

from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, AgentFacts, RuntimeKind
from acpbridge.model.keys import AgentId
from acpbridge.runtimes.command import START, Command, command_for

FACTS = AgentFacts(
    binaries=("new-name", "old-name"),
    args=("--acp",),
    npx_package="@maker/agent",
    npx_version="1.2.3",
    install_hint="Install it: npm install -g @maker/agent",
    wrong_commands={"maker": "new-name --acp"},
)
AGENT = AgentDefinition(AgentId("agent"), facts=FACTS)


def definition(*command: str, facts: AgentFacts = FACTS) -> AgentDefinition:
    return AgentDefinition(AgentId("agent"), command=command, facts=facts)


def install(folder: Path, *names: str, mode: int = 0o755) -> dict[str, str]:
    """Put programs on a PATH of their own and return the environment with it."""
    for name in names:
        (folder / name).write_text("#!/bin/sh\n", encoding="utf-8")
        (folder / name).chmod(mode)
    return {"PATH": str(folder)}


def missing(agent: AgentDefinition, env: dict[str, str], cwd: str = "/") -> BridgeError:
    with pytest.raises(BridgeError) as caught:
        command_for(agent, env, cwd)
    assert caught.value.code == "agent_not_found"
    return caught.value


def test_an_installed_binary_is_preferred_to_a_download(tmp_path: Path) -> None:
    env = install(tmp_path, "old-name", "npx")
    assert command_for(AGENT, env, "/") == Command((f"{tmp_path}/old-name", "--acp"))
    install(tmp_path, "new-name")
    assert command_for(AGENT, env, "/") == Command((f"{tmp_path}/new-name", "--acp"))


def test_without_one_it_is_fetched_in_the_pinned_version_and_the_start_is_cold(
    tmp_path: Path,
) -> None:
    env = install(tmp_path, "npx")
    found = command_for(AGENT, env, "/")
    assert found == Command((f"{tmp_path}/npx", "-y", "@maker/agent@1.2.3", "--acp"), "npx")


def test_a_binary_that_cannot_be_run_does_not_count(tmp_path: Path) -> None:
    install(tmp_path, "new-name", mode=0o644)
    (tmp_path / "old-name").mkdir()
    assert command_for(AGENT, install(tmp_path, "npx"), "/").cold


@pytest.mark.parametrize("env", [{"PATH": "/nowhere"}, {"PATH": ""}])
def test_with_neither_it_says_what_was_looked_for_and_how_to_install_it(
    env: dict[str, str],
) -> None:
    error = missing(AGENT, env, "/proc")
    assert "new-name or old-name or npx" in error.message
    assert error.hint == FACTS.install_hint


def test_an_agent_of_which_nothing_is_known_is_not_found_either() -> None:
    error = missing(definition(facts=AgentFacts()), {"PATH": "/bin"})
    assert "no known program" in error.message
    assert error.hint


def test_a_configured_command_is_used_as_written(tmp_path: Path) -> None:
    env = install(tmp_path, "tool", "new-name", "npx")
    words = ("--model", "A B (C)", "it's", "", "é", "$(touch PWNED)")
    assert command_for(definition("tool", *words), env, "/") == Command(
        (f"{tmp_path}/tool", *words)
    )
    path = f"{tmp_path}/tool"
    assert command_for(definition(path, "x"), {}, "/") == Command((path, "x"))


def test_an_agent_of_pypi_is_fetched_by_uvx(tmp_path: Path) -> None:
    facts = AgentFacts(uvx_package="maker-agent", args=("acp",), install_hint="Install uv")
    env = install(tmp_path, "uvx", "npx")
    found = command_for(definition(facts=facts), env, "/")
    assert found == Command((f"{tmp_path}/uvx", "maker-agent", "acp"), "uvx")
    error = missing(definition(facts=facts), {"PATH": "/nowhere"})
    assert "uvx is not on the PATH" in error.message
    assert error.hint == "Install uv"


def test_what_cannot_be_started_at_all_says_how_to_give_a_command() -> None:
    error = missing(definition(facts=AgentFacts()), {"PATH": "/bin"})
    assert "{id: agent, runtime: {command: [PROGRAM" in error.hint


def test_case_98_a_failed_start_names_its_launcher_and_the_limit() -> None:
    cold = Command(("/usr/bin/npx", "-y", "@maker/agent@1.2.3"), "npx")
    plain = BridgeError("start_timeout", "It did not answer in 180 s.", data={"stderr": "slow"})
    told = cold.explain(plain)
    assert told.code == "start_timeout"
    assert told.data == {"stderr": "slow"}
    assert "It did not answer in 180 s. It was started through npx" in told.message
    assert "`npx -y @maker/agent@1.2.3`" in told.hint
    assert "limits.coldStartSeconds" in told.hint
    # A better hint stays, and so does what has nothing to do with a download.
    exact = BridgeError("start_failed", "It died.", hint="The command that speaks ACP is: x")
    assert cold.explain(exact).hint == exact.hint
    version = BridgeError("protocol_version", "It speaks 2.")
    assert cold.explain(version) is version
    assert Command(("/bin/x",)).explain(plain) is plain


def test_a_configured_download_is_a_cold_start_too(tmp_path: Path) -> None:
    env = install(tmp_path, "npx", "npx-tool", "uvx")
    assert command_for(definition("npx", "-y", "x"), env, "/").cold
    assert command_for(definition("uvx", "x"), env, "/").launcher == "uvx"
    assert command_for(definition(f"{tmp_path}/npx", "-y", "x"), {}, "/").cold
    assert not command_for(definition("npx-tool"), env, "/").cold


def test_a_configured_command_that_is_missing_is_named_case_67(tmp_path: Path) -> None:
    for command in ("/nope/agent", "no-such-agent"):
        error = missing(definition(command), install(tmp_path))
        assert command in error.message
        assert error.hint == FACTS.install_hint
        assert error.data["program"] == command


def test_a_command_that_looks_right_and_is_missing_names_the_one_that_works() -> None:
    error = missing(definition("maker", "acp"), {"PATH": "/nowhere"})
    assert "maker" in error.message
    assert error.hint == f"The command that speaks ACP is: new-name --acp. {FACTS.install_hint}"


def test_the_path_is_the_agents_and_not_the_daemons(tmp_path: Path) -> None:
    assert missing(definition("sh"), {"PATH": str(tmp_path)}).data["program"] == "sh"


def test_a_python_agent_is_served_by_the_package_from_outside_its_directory(
    tmp_path: Path,
) -> None:
    agent = AgentDefinition(AgentId("py"), kind=RuntimeKind.PYTHON, entry="shop.agents:one")
    tail = (START, "shop.agents:one")
    assert command_for(agent, {}, "/") == Command((sys.executable, *tail))
    env = install(tmp_path, "python3.99")
    agent = AgentDefinition(
        AgentId("py"), kind=RuntimeKind.PYTHON, entry="shop.agents:one", python="python3.99"
    )
    assert command_for(agent, env, "/") == Command((f"{tmp_path}/python3.99", *tail))
    assert "python3.99" in missing(agent, {"PATH": "/nowhere"}).message


@pytest.mark.parametrize("cwd", ["missing", "file"])
def test_a_directory_that_is_missing_is_not_reported_as_a_program_case_106(
    tmp_path: Path, cwd: str
) -> None:
    (tmp_path / "file").touch()
    env = install(tmp_path, "tool")
    # It is found all the same: the start then fails on the directory, and says so.
    place = str(tmp_path / cwd)
    assert command_for(definition("tool"), env, place).argv == (f"{tmp_path}/tool",)
    assert command_for(definition("/bin/sh"), {}, place).argv == ("/bin/sh",)
    assert "no-such-tool" in missing(definition("no-such-tool"), env, place).message
