"""What is known of the agents, as data: complete, found by a command, and known to nobody else."""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

import acpbridge
from acpbridge.config import catalogue
from acpbridge.config.environment import child_environment
from acpbridge.config.load import load
from acpbridge.model.agents import AgentFacts, RuntimeKind
from acpbridge.model.keys import is_agent_id

VENDORS = re.compile(r"claude|anthropic|codex|openai|gemini|google", re.IGNORECASE)

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
    found = {n: (f.asking_mode, *f.bypass_modes) for n, f in catalogue.CATALOGUE.items()}
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


def test_ids_and_aliases_are_ids() -> None:
    assert all(map(is_agent_id, (*catalogue.CATALOGUE, *catalogue.ALIASES)))
    assert set(catalogue.ALIASES.values()) <= set(catalogue.CATALOGUE)
    assert not set(catalogue.ALIASES) & set(catalogue.CATALOGUE)


def test_an_entry_is_found_by_id_and_alias_and_nothing_else() -> None:
    for name in (*catalogue.CATALOGUE, *catalogue.ALIASES):
        found = catalogue.entry(name)
        assert found is not None
        assert found.facts == catalogue.CATALOGUE[catalogue.ALIASES.get(name, name)]
        assert found.kind is RuntimeKind.ACP
    assert catalogue.entry("demo") is catalogue.DEMO
    assert catalogue.entry("nobody") is None
    assert catalogue.entry("") is None


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
    assert catalogue.facts_for_command(tuple(command.split())) == wanted


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
    ],
)
def test_for_a_command_that_looks_right_the_one_that_works_is_named(
    command: str, right: str | None
) -> None:
    words = tuple(command.split())
    wrong = catalogue.facts_for_command(words).wrong_commands
    assert catalogue.better_command(words, wrong) == right


def test_no_command_and_no_facts_have_no_better_one() -> None:
    assert catalogue.better_command((), {"x": "y"}) is None
    assert catalogue.better_command(("x", "acp"), {}) is None


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
