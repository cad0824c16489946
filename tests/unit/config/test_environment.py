"""What a child sees of the world: an allow-list, and never another agent's key."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.config import catalogue
from acpbridge.config.environment import child_environment, forbidden, plain_environment
from acpbridge.model.agents import AgentDefinition, AgentFacts
from acpbridge.model.keys import AgentId

PLAIN = AgentDefinition(AgentId("plain"))
CLAUDE = AgentDefinition(AgentId("claude"), facts=catalogue.CLAUDE)
CODEX = AgentDefinition(AgentId("codex"), facts=catalogue.CODEX)
GEMINI = AgentDefinition(AgentId("gemini"), facts=catalogue.GEMINI)
OURS = {"ACPBRIDGE_HOME": "/state", "ACPBRIDGE_MARK": "mark"}
KEYS = {
    "ANTHROPIC_API_KEY": "a-key",
    "ANTHROPIC_AUTH_TOKEN": "a-token",
    "OPENAI_API_KEY": "o-key",
    "CODEX_API_KEY": "c-key",
    "GEMINI_API_KEY": "g-key",
    "GOOGLE_API_KEY": "gg-key",
}


def env(definition: AgentDefinition, /, **caller: str) -> dict[str, str]:
    return child_environment(definition, caller, home="/state", mark="mark")


def test_an_empty_caller_gives_the_marker_and_the_home_alone() -> None:
    assert env(PLAIN) == OURS


def test_what_everybody_needs_is_passed() -> None:
    caller = {
        "PATH": "/bin",
        "HOME": "/h",
        "USER": "u",
        "LOGNAME": "u",
        "SHELL": "/sh",
        "LANG": "C",
        "LC_ALL": "C",
        "LC_CTYPE": "C",
        "TERM": "dumb",
        "TZ": "UTC",
        "TMPDIR": "/t",
        "XDG_CONFIG_HOME": "/x",
        "NODE_EXTRA_CA_CERTS": "/ca",
        "SSL_CERT_FILE": "/c",
        "SSL_CERT_DIR": "/c",
    }
    assert env(PLAIN, **caller) == caller | OURS


@pytest.mark.parametrize("name", ["http_proxy", "HTTPS_PROXY", "No_Proxy", "https_proxy"])
def test_proxies_are_passed_in_any_case(name: str) -> None:
    assert env(PLAIN, **{name: "p"}) == OURS | {name: "p"}


def test_the_daemons_secrets_and_strangers_markers_stay_out_case_84_and_85() -> None:
    caller = {
        "DB_PASSWORD": "S3NT1NEL",
        "GITHUB_TOKEN": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "CLAUDECODE": "1",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
        "CODEX_SANDBOX": "x",
        "IS_SANDBOX": "yes",
        "XDG_RUNTIME_DIR": "/run",
        "DBUS_SESSION_BUS_ADDRESS": "x",
        "SSH_AUTH_SOCK": "x",
        "EDITOR": "vi",
        "PATHS": "x",
        "HOMEBREW": "x",
    }
    for definition in (PLAIN, CLAUDE, CODEX, catalogue.DEMO):
        assert env(definition, **caller) == OURS
    assert env(GEMINI, **caller) == OURS | dict(catalogue.GEMINI.env_set)


def test_no_agent_sees_anothers_key() -> None:
    seen = {
        definition.id: {name for name in env(definition, **KEYS) if name in KEYS}
        for definition in (PLAIN, CLAUDE, CODEX, GEMINI)
    }
    assert seen == {
        "plain": set(),
        "claude": {"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"},
        "codex": {"OPENAI_API_KEY", "CODEX_API_KEY"},
        "gemini": {"GEMINI_API_KEY", "GOOGLE_API_KEY"},
    }


def test_a_key_of_ones_own_configuration_is_not_seen_by_another() -> None:
    mine = replace(PLAIN, env_pass=("MY_KEY",), env_set={"OTHER": "o"})
    assert env(mine, MY_KEY="k") == OURS | {"MY_KEY": "k", "OTHER": "o"}
    assert env(CODEX, MY_KEY="k") == OURS


def test_what_is_to_be_passed_and_is_not_there_is_not_made_up() -> None:
    assert env(replace(PLAIN, env_pass=("MY_KEY",))) == OURS


def test_set_wins_over_pass_and_pass_over_what_the_facts_set() -> None:
    facts = AgentFacts(env_set={"A": "facts", "B": "facts", "C": "facts"})
    agent = replace(PLAIN, facts=facts, env_pass=("B", "C"), env_set={"C": "set"})
    assert env(agent, A="caller", B="caller", C="caller") == OURS | {
        "A": "facts",
        "B": "caller",
        "C": "set",
    }


@pytest.mark.parametrize("definition", [CLAUDE, CODEX, GEMINI])
def test_subscription_drops_the_vendors_keys_however_they_come(
    definition: AgentDefinition,
) -> None:
    agent = replace(
        definition,
        auth="subscription",
        env_pass=definition.facts.secret_names,
        env_set=dict.fromkeys(definition.facts.secret_names, "x"),
    )
    assert not set(KEYS) & set(env(agent, **KEYS))


def test_an_endpoint_is_passed_only_when_the_configuration_names_it() -> None:
    names = ("ANTHROPIC_BASE_URL", "OPENAI_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "XDG_BASE_URL")
    caller = dict.fromkeys(names, "http://evil")
    for definition in (PLAIN, CLAUDE, CODEX, GEMINI):
        assert not set(env(definition, **caller)) & set(names)
        chosen = replace(definition, env_pass=names[:2], env_set={names[2]: "http://mine"})
        found = env(chosen, **caller)
        assert [found.get(name) for name in names] == ["http://evil"] * 2 + ["http://mine", None]


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "DYLD_INSERT_LIBRARIES", "NODE_OPTIONS", "BASH_ENV"),
        *("PYTHONPATH", "PYTHONSTARTUP", "PYTHON", "GIT_DIR", "GIT_SSH_COMMAND", "ENV"),
    ],
)
def test_some_names_are_dropped_always(name: str) -> None:
    assert forbidden(name)
    agent = replace(
        PLAIN, facts=AgentFacts(env_names=("*",)), env_pass=(name,), env_set={name: "x"}
    )
    assert env(agent, **{name: "x"}) == OURS


@pytest.mark.parametrize("name", ["ENVIRONMENT", "MY_ENV", "OLD_PWD", "NODE_ENV", "MYPYTHON"])
def test_names_that_only_look_like_those_are_not(name: str) -> None:
    assert not forbidden(name)


def test_the_marker_and_the_home_cannot_be_overridden() -> None:
    agent = replace(PLAIN, env_pass=tuple(OURS), env_set=dict.fromkeys(OURS, "fake"))
    assert env(agent, **dict.fromkeys(OURS, "outer")) == OURS


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_nothing_else_ever_gets_through(caller: dict[str, str]) -> None:
    found = env(replace(PLAIN, env_pass=("MINE",)), **caller)
    assert found.items() >= OURS.items()
    for name in found:
        assert name in {"MINE", *OURS} or not forbidden(name)
        assert name in OURS or found[name] == caller[name]


def test_of_a_daemon_s_own_environment_only_what_nobody_keeps_secret_is_passed_on() -> None:
    own = {
        "PATH": "/bin",
        "HOME": "/home/x",
        "LANG": "C.UTF-8",
        "XDG_RUNTIME_DIR": "/run/x",
        "ANTHROPIC_API_KEY": "k",
        "https_proxy": "http://user:password@proxy",
        "LD_PRELOAD": "/x.so",
        "ACPBRIDGE_MARK": "m",
    }
    assert plain_environment(own) == {"PATH": "/bin", "HOME": "/home/x", "LANG": "C.UTF-8"}
