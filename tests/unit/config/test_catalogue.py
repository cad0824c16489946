"""What is known of the agents, as data: complete, found by a command, and known to nobody else."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

import acpbridge
from acpbridge.config import catalogue, recognise
from acpbridge.config.environment import child_environment
from acpbridge.config.load import load
from acpbridge.model.agents import AgentFacts, RuntimeKind
from acpbridge.model.keys import is_agent_id

# The names of the catalogue that are no words of everyday English, and their makers.
VENDORS = re.compile(
    r"claude|anthropic|codex|openai|gemini|google|opencode|openclaw|copilot|qwen|kimi|zeroclaw"
    r"|kilocode|iflow|fast-agent|cursor-agent|grok",
    re.IGNORECASE,
)

# A command line in a help text.
EXAMPLE = re.compile(r"^ *acpbridge .*$", re.MULTILINE)


@pytest.mark.parametrize("name", ["claude", "codex", "gemini"])
def test_an_entry_is_complete(name: str) -> None:
    facts = catalogue.CATALOGUE[name]
    assert facts.binaries
    assert facts.npx_package in facts.packages
    assert re.fullmatch(r"\d+\.\d+\.\d+", facts.npx_version)
    assert facts.asking_mode
    assert facts.asking_mode not in facts.bypass_modes
    assert facts.bypass_modes
    assert set(facts.secret_names) <= {*facts.env_names, "GOOGLE_API_KEY"}
    assert facts.login_files
    assert facts.login_hint.endswith(".")
    assert facts.npx_package in facts.install_hint
    assert facts.wrong_commands
    assert not any(name.endswith("_BASE_URL") for name in facts.env_names)


def test_the_asking_and_bypass_modes_are_those_that_were_measured() -> None:
    known = {n: f for n, f in catalogue.CATALOGUE.items() if f.asking_mode is not None}
    found = {n: (f.asking_mode, *f.bypass_modes) for n, f in known.items()}
    assert found == {
        "claude": ("default", "bypassPermissions"),
        "codex": ("read-only", "agent-full-access"),
        "gemini": ("default", "yolo"),
    }


def test_the_graces_are_at_least_what_each_was_seen_to_need() -> None:
    assert catalogue.CLAUDE.grace >= 5
    assert catalogue.CODEX.grace >= 3
    assert catalogue.GEMINI.grace >= 2
    assert AgentFacts().grace == 2


@pytest.mark.parametrize("name", catalogue.CATALOGUE)
def test_the_facts_of_an_entry_are_consistent(name: str) -> None:
    facts = catalogue.CATALOGUE[name]
    assert facts.description.endswith(".")
    assert bool(facts.npx_package) == bool(facts.npx_version)
    assert not (facts.npx_package and facts.uvx_package)
    assert {facts.npx_package, facts.uvx_package} - {""} <= set(facts.packages)
    assert set(facts.secret_names) <= {*facts.env_names, "GOOGLE_API_KEY"}
    assert not (facts.no_login and (facts.logins or facts.secret_names or facts.login_files))
    # A bypass mode is known only of a program whose modes were looked at.
    assert facts.asking_mode or not facts.bypass_modes
    assert all(facts.logins.values())
    for hint in (facts.login_hint, facts.silence_hint):
        assert not hint or hint.endswith(".")
    for wrong, right in facts.wrong_commands.items():
        assert recognise.better_command((wrong,), facts.wrong_commands) == right
        assert right.split()[0] in facts.binaries
        assert recognise.better_command(tuple(right.split()), facts.wrong_commands) is None


def test_nothing_is_known_of_a_name_whose_command_was_not_checked() -> None:
    unknown = {n for n, f in catalogue.CATALOGUE.items() if f == catalogue.UNCHECKED}
    assert len(unknown) == 10
    plain = replace(AgentFacts(), description=catalogue.UNCHECKED.description)
    assert plain == catalogue.UNCHECKED
    for name, facts in catalogue.CATALOGUE.items():
        reachable = facts.binaries or facts.npx_package or facts.uvx_package
        assert bool(reachable) == (name not in unknown), name


def test_no_name_means_two_agents() -> None:
    names = [*catalogue.CATALOGUE, *catalogue.ALIASES, catalogue.DEMO.id]
    assert len(names) == len(set(names))
    programs = [p for f in catalogue.CATALOGUE.values() for p in (*f.binaries, *f.packages)]
    # A package may be called like its own program.
    of_its_own = sum(p in f.binaries for f in catalogue.CATALOGUE.values() for p in f.packages)
    assert len(programs) == len(set(programs)) + of_its_own


def test_every_registry_id_names_its_agent() -> None:
    ids = {f.registry_id: n for n, f in catalogue.CATALOGUE.items() if f.registry_id}
    assert set(ids) == {"codex-acp", "claude-acp", "gemini"}
    for registry_id, name in ids.items():
        assert catalogue.ALIASES.get(registry_id, registry_id) == name


def test_ids_and_aliases_are_ids() -> None:
    assert all(map(is_agent_id, (*catalogue.CATALOGUE, *catalogue.ALIASES)))
    assert set(catalogue.ALIASES.values()) <= set(catalogue.CATALOGUE)
    assert not set(catalogue.ALIASES) & set(catalogue.CATALOGUE)


def test_an_entry_is_found_by_id_and_alias_and_nothing_else() -> None:
    for name in (*catalogue.CATALOGUE, *catalogue.ALIASES):
        found = recognise.entry(name)
        assert found is not None
        assert found.facts == catalogue.CATALOGUE[catalogue.ALIASES.get(name, name)]
        assert found.kind is RuntimeKind.ACP
    assert recognise.entry("demo") is catalogue.DEMO
    assert recognise.entry("nobody") is None
    assert recognise.entry("") is None


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("claude-agent-acp", "claude"),
        ("/usr/local/bin/claude-agent-acp --verbose", "claude"),
        ("claude-code-acp", "claude"),
        ("claude", "claude"),
        ("npx -y @agentclientprotocol/claude-agent-acp@0.49.0", "claude"),
        ("npx -y @zed-industries/claude-code-acp", "claude"),
        ("npx --yes --package=@zed-industries/claude-agent-acp@latest x", "claude"),
        ("node /n/node_modules/@agentclientprotocol/claude-agent-acp/dist/index.js", "claude"),
        ("codex-acp", "codex"),
        ("codex acp", "codex"),
        ("codex acp --fast", "codex"),
        ("npx codex-acp", "codex"),
        ("npx -y codex-acp@2.6.0", "codex"),
        ("env A=B /opt/codex-acp", "codex"),
        ("npx -y @zed-industries/codex-acp", "codex"),
        ("gemini", "gemini"),
        ("gemini --acp", "gemini"),
        ("gemini --experimental-acp", "gemini"),
        ("npx -y @google/gemini-cli@0.61.0 --acp", "gemini"),
        ("uvx fast-agent-mcp acp", "fast-agent"),
        ("uvx fast-agent-mcp==1.2 acp", "fast-agent"),
        ("npx -y pi-acp@0.0.34", "pi"),
        ("opencode acp", "opencode"),
        ("droid exec --output-format acp", "droid"),
        ("my-agent --backend pi-acp", None),
        ("my-agent", None),
        ("my-agent --backend gemini", None),
        ("my-gemini", None),
        ("npx -y @other/codex-acp-tools", None),
        ("/opt/codex-acp/other", None),
        ("npx", None),
        ("", None),
    ],
)
def test_a_command_has_the_facts_of_the_entry_that_it_names(command: str, name: str | None) -> None:
    wanted = AgentFacts() if name is None else catalogue.CATALOGUE[name]
    assert recognise.facts_for_command(tuple(command.split())) == wanted


@pytest.mark.parametrize(
    ("command", "right"),
    [
        ("codex acp", "codex-acp"),
        ("/usr/bin/codex acp --x", "codex-acp"),
        ("codex", "codex-acp"),
        ("codex-acp", None),
        ("gemini", "gemini --acp"),
        ("gemini --model x", "gemini --acp"),
        ("gemini --acp", None),
        ("gemini --model x --acp", None),
        ("claude", "claude-agent-acp"),
        ("claude-agent-acp", None),
        ("copilot --acp", "copilot --acp --stdio"),
        ("cursor-agent", "cursor-agent acp"),
        ("droid exec", "droid exec --output-format acp"),
    ],
)
def test_for_a_command_that_looks_right_the_one_that_works_is_named(
    command: str, right: str | None
) -> None:
    words = tuple(command.split())
    wrong = recognise.facts_for_command(words).wrong_commands
    assert recognise.better_command(words, wrong) == right


def test_no_command_and_no_facts_have_no_better_one() -> None:
    assert recognise.better_command((), {"x": "y"}) is None
    assert recognise.better_command(("x", "acp"), {}) is None


def test_an_unknown_agent_with_the_same_fields_behaves_the_same() -> None:
    known, other = load(
        'agents: {list: [{id: codex}, {id: mine, runtime: {command: ["/opt/codex-acp"]}}]}',
        "c.yaml",
        "/home/ann",
    ).agents.values()
    assert other.facts == known.facts
    assert other.wanted_mode == known.wanted_mode == "read-only"
    caller = {"OPENAI_API_KEY": "k", "CODEX_HOME": "/c", "GEMINI_API_KEY": "no", "PATH": "/bin"}
    envs = [child_environment(a, caller, home="/h", mark="m") for a in (known, other)]
    assert envs[0] == envs[1]
    assert replace(other, id=known.id, name=known.name, command=()) == known


def named(source: str) -> list[str]:
    """Return the names and strings of a module that name a vendor; prose decides nothing."""
    tree = ast.parse(source)
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    words = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and id(node) not in prose:
            words.append(EXAMPLE.sub("", str(node.value)))
        elif isinstance(node, ast.Name | ast.Attribute):
            words.append(node.id if isinstance(node, ast.Name) else node.attr)
    return [word for word in words if VENDORS.search(word)]


def test_no_other_module_names_an_agent() -> None:
    package = Path(acpbridge.__file__).parent
    # The demo is an agent itself; the redactor knows keys by whose they are.
    spared = [package / name for name in ("config/catalogue.py", "agents/demo.py", "redact.py")]
    modules = [path for path in sorted(package.rglob("*.py")) if path not in spared]
    assert len(modules) > 50
    found = {str(path): named(path.read_text(encoding="utf-8")) for path in modules}
    assert {path: words for path, words in found.items() if words} == {}


def test_the_search_for_names_finds_them() -> None:
    assert named("if binary == 'codex-acp': pass") == ["codex-acp"]
    assert named("x = CLAUDE") == ["CLAUDE"]
    assert named("x = f'{y}/gemini'") == ["/gemini"]
    assert named("'codex is prose'\nhelp = '  acpbridge run --agent codex'") == []
