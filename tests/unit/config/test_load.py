"""The configuration file: what loads, and what every bad input is told."""

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.config import catalogue
from acpbridge.config.load import load
from acpbridge.config.snapshot import Config, Limits
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.keys import agent_id

HOME = "/home/ann"

DOCUMENTED = """\
agents:
  list:
    - id: codex                       # a catalogue id needs nothing else
    - id: reviewer
      default: true
      workspace: ~/src/shop
      runtime: {kind: acp, command: ["claude-agent-acp"]}
      mode: default                   # else the catalogue's asking mode
      env: {pass: [ANTHROPIC_API_KEY], set: {CLAUDE_CODE_MAX_RETRIES: "1"}}
      mcpServers: [{name: docs, command: /usr/bin/docs-mcp, args: []}]
    - id: summariser
      runtime: {kind: python, entry: "shop.agents:summariser", python: ~/src/shop/.venv/bin/python}
limits: {maxProcesses: 8, maxChildrenPerSession: 5, maxDepth: 3, idleTtlSeconds: 900,
         startSeconds: 30, coldStartSeconds: 180, permissionSeconds: 300}
"""


def read(text: str) -> Config:
    return load(text, "c.yaml", HOME)


def one(text: str) -> AgentDefinition:
    """Load one agent, written as the inside of a flow mapping."""
    (agent,) = read(f"agents: {{list: [{{{text}}}]}}").agents.values()
    return agent


def problem(text: str) -> BridgeError:
    with pytest.raises(BridgeError) as caught:
        read(text)
    assert caught.value.code == "config_error"
    assert caught.value.message.startswith(f"c.yaml, line {caught.value.data['line']}: ")
    assert str(caught.value.data["key"]) in caught.value.message
    return caught.value


def test_the_documented_example_loads() -> None:
    config = read(DOCUMENTED)
    assert list(config.agents) == ["codex", "reviewer", "summariser"]
    assert config.default is not None
    assert config.default.id == "reviewer"
    codex, reviewer, summariser = config.agents.values()
    assert codex.facts == catalogue.CODEX
    assert codex.command == ()
    assert reviewer.command == ("claude-agent-acp",)
    assert reviewer.facts == catalogue.CLAUDE
    assert reviewer.workspace == f"{HOME}/src/shop"
    assert reviewer.env_pass == ("ANTHROPIC_API_KEY",)
    assert reviewer.env_set == {"CLAUDE_CODE_MAX_RETRIES": "1"}
    server = {"name": "docs", "command": "/usr/bin/docs-mcp", "args": [], "env": []}
    assert reviewer.mcp_servers == (server,)
    assert summariser.kind is RuntimeKind.PYTHON
    assert summariser.entry == "shop.agents:summariser"
    assert summariser.facts.asking_mode == "default"
    assert summariser.python == f"{HOME}/src/shop/.venv/bin/python"
    assert config.limits == Limits()
    assert config.warnings == ()
    assert config.path == "c.yaml"


def test_the_older_example_is_used_as_written_and_has_the_facts_of_its_agent() -> None:
    agent = one('id: helper, runtime: {kind: acp, command: ["codex", "acp"]}')
    assert agent.command == ("codex", "acp")
    assert agent.facts == catalogue.CODEX
    assert agent.wanted_mode == catalogue.CODEX.asking_mode


@pytest.mark.parametrize("text", ["", "{}", "agents: {}", "limits: {}", "agents: {list: []}"])
def test_a_file_that_says_nothing_is_all_defaults(text: str) -> None:
    config = read(text)
    assert config.agents == {}
    assert config.limits == Limits()
    assert config.default is None


@pytest.mark.parametrize("style", ["camel", "snake"])
def test_both_spellings_are_accepted(style: str) -> None:
    text = (
        "agents:\n"
        "  list:\n"
        "  - id: codex\n"
        "    allow_bypass: true\n"
        "    mcp_servers: [{name: x, command: /x}]\n"
        "limits:\n"
        "  max_processes: 2\n"
        "  max_children_per_session: 3\n"
        "  max_depth: 4\n"
        "  idle_ttl_seconds: 5\n"
        "  start_seconds: 6\n"
        "  cold_start_seconds: 7.5\n"
        "  permission_seconds: 8\n"
        "  max_message_bytes: 65536\n"
    )
    if style == "camel":
        for word in ("Bypass", "Servers", "Processes", "Children", "Per", "Session", "Depth"):
            text = text.replace(f"_{word.lower()}", word)
        for word in ("Ttl", "Seconds", "Start", "Message", "Bytes"):
            text = text.replace(f"_{word.lower()}", word)
        assert "_" not in text
    config = read(text)
    assert config.limits == Limits(
        max_processes=2,
        max_children_per_session=3,
        max_depth=4,
        idle_ttl_seconds=5,
        start_seconds=6,
        cold_start_seconds=7.5,
        permission_seconds=8,
        max_message_bytes=65536,
    )
    (agent,) = config.agents.values()
    assert agent.allow_bypass
    assert len(agent.mcp_servers) == 1


def test_entries_keep_their_order_and_need_no_id() -> None:
    text = "agents:\n  entries:\n    gemini: {}\n    Codex: {id: Codex, default: true}\n"
    config = read(text)
    assert list(config.agents) == ["gemini", "codex"]
    assert config.default is not None
    assert config.default.facts == catalogue.CODEX


def test_type_is_read_as_kind_in_the_list_and_in_entries() -> None:
    runtime = "runtime: {type: python, entry: 'a:b'}"
    assert one(f"id: x, {runtime}").kind is RuntimeKind.PYTHON
    config = read(f"agents: {{entries: {{x: {{{runtime}}}}}}}")
    assert [agent.kind for agent in config.agents.values()] == [RuntimeKind.PYTHON]


def test_an_agent_of_the_catalogue_can_be_given_another_id() -> None:
    agent = one("id: helper, runtime: {agent: codex}")
    assert (agent.id, agent.facts) == ("helper", catalogue.CODEX)


def test_the_demo_can_be_listed_and_stays_what_it_is() -> None:
    for text in ("id: demo", "id: helper, runtime: {agent: demo}"):
        agent = one(text)
        assert (agent.kind, agent.entry) == (RuntimeKind.PYTHON, catalogue.DEMO.entry)
        assert agent.description == catalogue.DEMO.description
        assert agent.facts == catalogue.DEMO.facts


def test_ids_are_normalised_and_primary_is_main() -> None:
    assert one("id: 'My Agent!', runtime: {command: [x]}").id == "my-agent"
    assert one("id: primary, runtime: {command: [x]}").id == "main"


def test_a_program_below_the_home_directory_is_expanded() -> None:
    assert one("id: x, runtime: {command: [~/bin/x, ~/y]}").command == (f"{HOME}/bin/x", "~/y")


def test_servers_take_the_shape_of_the_protocol() -> None:
    agent = one(
        "id: codex, mcp_servers: ["
        "{name: a, command: /a, args: ['-x'], env: {K_1: v}},"
        "{name: b, type: http, url: 'http://h/', headers: {X_Y: z}},"
        "{name: c, type: sse, url: 'http://h/'}]"
    )
    env = [{"name": "K_1", "value": "v"}]
    headers = [{"name": "X_Y", "value": "z"}]
    assert agent.mcp_servers == (
        {"name": "a", "command": "/a", "args": ["-x"], "env": env},
        {"type": "http", "name": "b", "url": "http://h/", "headers": headers},
        {"type": "sse", "name": "c", "url": "http://h/", "headers": []},
    )


@pytest.mark.parametrize(
    ("text", "line", "key"),
    [
        ("agents: {}\nnope: 1\n", 2, "nope"),
        ("agents:\n  nope: 1\n", 2, "agents.nope"),
        ("agents:\n  list_: []\n", 2, "agents.list_"),
        ("limits:\n  maxproceses: 1\n", 2, "limits.maxproceses"),
        ("agents:\n  list:\n  - id: codex\n    nope: 1\n", 4, "agents.list.0.nope"),
        ("agents:\n  entries:\n    codex:\n      nope: 1\n", 4, "agents.entries.codex.nope"),
        (
            "agents:\n  list:\n  - id: codex\n    runtime:\n      nope: 1\n",
            5,
            "agents.list.0.runtime.nope",
        ),
        ("agents:\n  list:\n  - id: codex\n    env:\n      nope: 1\n", 5, "agents.list.0.env.nope"),
        (
            "agents:\n  list:\n  - id: codex\n    env:\n      pass_: []\n",
            5,
            "agents.list.0.env.pass_",
        ),
        (
            "agents:\n  list:\n  - id: codex\n    mcpServers:\n    - name: x\n      nope: 1\n",
            6,
            "agents.list.0.mcpServers.0.nope",
        ),
        ("agents:\n  list:\n  - id: codex\n    sandbox: {}\n", 4, "agents.list.0.sandbox"),
    ],
)
def test_an_unknown_key_is_named_at_every_level(text: str, line: int, key: str) -> None:
    error = problem(text)
    assert (error.data["line"], error.data["key"]) == (line, key)
    assert "not known; remove it" in error.message


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("- a\n", "(top)"),
        ("hello", "(top)"),
        ("~", "(top)"),
        ("agents: []", "agents"),
        ("agents:", "agents"),
        ("limits: 5", "limits"),
        ("agents: {list: {}}", "agents.list"),
        ("agents: {list: [codex]}", "agents.list.0"),
        ("agents: {entries: [codex]}", "agents.entries"),
        ("agents: {entries: {codex: }}", "agents.entries.codex"),
        ("agents: {list: [{}]}", "agents.list.0.id"),
        ("agents: {list: [{id: ''}]}", "agents.list.0.id"),
        ("agents: {list: [{id: 5}]}", "agents.list.0.id"),
        ("agents: {list: [{id: '!!!'}]}", "agents.list.0.id"),
        ("agents: {list: [{id: codex, default: 1}]}", "agents.list.0.default"),
        ("agents: {list: [{id: codex, default: 'yes'}]}", "agents.list.0.default"),
        ("agents: {list: [{id: codex, runtime: x}]}", "agents.list.0.runtime"),
        ("agents: {list: [{id: x, runtime: {command: x y}}]}", "agents.list.0.runtime.command"),
        ("agents: {list: [{id: x, runtime: {command: []}}]}", "agents.list.0.runtime.command"),
        ("agents: {list: [{id: x, runtime: {command: [1]}}]}", "agents.list.0.runtime.command.0"),
        ("agents: {list: [{id: x, runtime: {command: ['']}}]}", "agents.list.0.runtime.command.0"),
        ("agents: {list: [{id: x, runtime: {command: [./x]}}]}", "agents.list.0.runtime.command.0"),
        ("agents: {list: [{id: x, runtime: {kind: js}}]}", "agents.list.0.runtime.kind"),
        ("agents: {list: [{id: x, runtime: {type: js}}]}", "agents.list.0.runtime.type"),
        (
            "agents: {list: [{id: x, runtime: {kind: acp, type: acp}}]}",
            "agents.list.0.runtime.type",
        ),
        (
            "agents: {entries: {x: {runtime: {type: acp, kind: acp}}}}",
            "agents.entries.x.runtime.type",
        ),
        ("agents: {list: [{id: x, runtime: {kind: python}}]}", "agents.list.0.runtime"),
        (
            "agents: {list: [{id: x, runtime: {kind: python, entry: nope}}]}",
            "agents.list.0.runtime.entry",
        ),
        (
            "agents: {list: [{id: x, runtime: {kind: python, entry: 'agent.py:one'}}]}",
            "agents.list.0.runtime.entry",
        ),
        (
            "agents: {list: [{id: x, runtime: {kind: python, entry: '../agent.py:one'}}]}",
            "agents.list.0.runtime.entry",
        ),
        (
            "agents: {list: [{id: x, runtime: {kind: python, entry: 'a b:one'}}]}",
            "agents.list.0.runtime.entry",
        ),
        (
            "agents: {list: [{id: x, runtime: {kind: python, entry: 'a:b', command: [x]}}]}",
            "agents.list.0.runtime",
        ),
        (
            "agents: {list: [{id: x, runtime: {kind: python, entry: 'a:b', python: v/python}}]}",
            "agents.list.0.runtime.python",
        ),
        ("agents: {list: [{id: x, runtime: {entry: 'a:b'}}]}", "agents.list.0.runtime"),
        (
            "agents: {list: [{id: x, runtime: {command: [x], agent: codex}}]}",
            "agents.list.0.runtime",
        ),
        ("agents: {list: [{id: x, runtime: {agent: nope}}]}", "agents.list.0.runtime.agent"),
        ("agents: {list: [{id: nobody}]}", "agents.list.0.id"),
        ("agents: {list: [{id: codex, workspace: src}]}", "agents.list.0.workspace"),
        ("agents: {list: [{id: codex, workspace: ~bob/src}]}", "agents.list.0.workspace"),
        ("agents: {list: [{id: codex, auth: none}]}", "agents.list.0.auth"),
        ("agents: {list: [{id: codex, mode: ''}]}", "agents.list.0.mode"),
        ("agents: {list: [{id: codex, env: {pass: X}}]}", "agents.list.0.env.pass"),
        ("agents: {list: [{id: codex, env: {pass: ['A=B']}}]}", "agents.list.0.env.pass"),
        ("agents: {list: [{id: codex, env: {set: {X: 1}}}]}", "agents.list.0.env.set.X"),
        ("agents: {list: [{id: codex, env: {set: {'': x}}}]}", "agents.list.0.env.set"),
        ("agents: {list: [{id: codex, env: {set: {LD_PRELOAD: x}}}]}", "agents.list.0.env.set"),
        ("agents: {list: [{id: codex, env: {pass: [GIT_DIR]}}]}", "agents.list.0.env.pass"),
        ("agents: {list: [{id: codex, env: {set: {ACPBRIDGE_MARK: x}}}]}", "agents.list.0.env.set"),
        ("agents: {list: [{id: codex, env: {pass: [ACPBRIDGE_HOME]}}]}", "agents.list.0.env.pass"),
        (
            "agents: {list: [{id: codex, auth: subscription, env: {pass: [OPENAI_API_KEY]}}]}",
            "agents.list.0.env.pass",
        ),
        ("agents: {list: [], entries: {}}", "agents.entries"),
        ("agents: {entries: {codex: {id: gemini}}}", "agents.entries.codex.id"),
    ],
)
def test_a_wrong_value_is_named_by_its_key(text: str, key: str) -> None:
    error = problem(text)
    assert error.data["key"] == key
    assert "_Agent" not in error.message
    assert "instance of" not in error.message


@pytest.mark.parametrize(
    ("server", "key"),
    [
        ("{name: x}", "command"),
        ("{command: /x}", "name"),
        ("{name: x, command: x}", "command"),
        ("{name: x, command: ./x}", "command"),
        ("{name: x, url: 'http://h'}", ""),
        ("{name: x, command: /x, headers: {a: b}}", ""),
        ("{name: x, type: http}", "url"),
        ("{name: x, type: ftp, url: x}", "type"),
        ("{name: x, type: http, url: x, command: /x}", ""),
        ("{name: x, type: sse, url: x, args: [y]}", ""),
        ("{name: x, command: /x, args: y}", "args"),
        ("{name: x, command: /x, env: [y]}", "env"),
        ("{name: x, command: /x, env: {y: 1}}", "env.y"),
    ],
)
def test_a_server_that_is_half_one_kind_and_half_another_is_an_error(server: str, key: str) -> None:
    error = problem(f"agents:\n  list:\n  - id: codex\n    mcpServers:\n    - {server}\n")
    assert error.data["key"] == f"agents.list.0.mcpServers.0.{key}".rstrip(".")
    assert error.data["line"] == 5


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("maxProcesses", ["0", "-1", "1.5", "true", "'8'", "~"]),
        ("maxChildrenPerSession", ["0", "21"]),
        ("maxDepth", ["0", "6"]),
        ("idleTtlSeconds", ["0", "-5", ".nan", ".inf", "1e300", "true", "'900'", "[1]"]),
        ("startSeconds", ["0", ".inf"]),
        ("coldStartSeconds", ["0", ".inf"]),
        ("permissionSeconds", ["0", ".inf", "99999999999999999999"]),
        ("maxMessageBytes", ["0", "65535", "1099511627776", ".inf", "unlimited"]),
    ],
)
def test_a_limit_out_of_its_range_is_an_error(key: str, values: list[str]) -> None:
    for value in values:
        error = problem(f"limits:\n  {key}: {value}\n")
        assert (error.data["line"], error.data["key"]) == (2, f"limits.{key}")


@pytest.mark.parametrize(
    "text",
    [
        "agents:\n  list:\n  - {id: Codex}\n  - {id: codex}\n",
        "agents:\n  entries:\n    Codex: {}\n\n    codex: {}\n",
        "agents:\n  list:\n  - {id: codex, runtime: {command: [x]}}\n  - {id: ' Codex '}\n",
    ],
)
def test_two_ids_that_normalise_alike_are_both_named_1_1(text: str) -> None:
    error = problem(text)
    assert "Codex" in error.message
    assert "'codex'" in error.message
    assert error.data["line"] in (4, 5)


def test_no_error_repeats_a_value_case_86() -> None:
    for value in ("[S3NT1NEL-9f]", "{S3NT1NEL-9f: x}", "!!int S3NT1NEL-9f", "*S3NT1NEL-9f"):
        error = problem(f"agents: {{list: [{{id: codex, env: {{set: {{API_KEY: {value}}}}}}}]}}")
        assert "S3NT1NEL" not in error.message


def test_shell_meaning_in_values_arrives_as_it_is_case_90_and_91() -> None:
    words = ["fake", "--model", "A B (C)", "it's", "", "é", "$(touch PWNED)", "x; touch PWNED"]
    listed = ", ".join(f'"{word}"' for word in words if word)
    agent = one(f"id: x, runtime: {{command: [{listed}]}}")
    assert agent.command == tuple(word for word in words if word)


def test_several_defaults_and_shared_workspaces_are_worth_a_warning() -> None:
    config = read(
        "agents:\n  list:\n"
        "  - {id: codex, default: true, workspace: /w}\n"
        "  - {id: gemini, default: true, workspace: /w}\n"
        "  - {id: claude, workspace: /v}\n"
    )
    assert len(config.warnings) == 2
    assert all("codex" in line and "gemini" in line for line in config.warnings)
    assert config.default is not None
    assert config.default.id == "codex"


def test_the_revision_follows_the_text() -> None:
    assert read("").revision == read("").revision != read("# x").revision


def test_the_defaults_are_those_that_are_documented() -> None:
    documented = read(DOCUMENTED[DOCUMENTED.index("limits:") :])
    assert documented.limits == Limits()
    assert Limits().max_message_bytes == 64 * 1024 * 1024


KEYS = st.sampled_from(
    [
        *("agents", "list", "entries", "id", "name", "description", "default", "workspace", "mode"),
        *("runtime", "kind", "type", "command", "agent", "entry", "python", "env", "pass", "set"),
        *("auth", "mcpServers", "mcp_servers", "allowBypass", "limits", "maxDepth", "url", "args"),
    ]
)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8)
WORDS = st.sampled_from(["codex", "python", "acp", "a:b", "/x", "~/x", "x", "subscription", "demo"])
TREES = st.recursive(
    LEAVES | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=20,
)


def outcome(text: str) -> object:
    """Return the configuration, or of the error what is the same for all of them."""
    try:
        return read(text)
    except BridgeError as error:
        return error.code, error.data["file"]


def sound(found: object) -> bool:
    return isinstance(found, Config) or found == ("config_error", "c.yaml")


@given(TREES)
def test_any_data_gives_a_config_or_a_config_error(value: object) -> None:
    text = yaml.safe_dump({"agents": value} if isinstance(value, list | dict) else value)
    for written in (text, text.replace("agents:", "agents:\n  list:", 1), f"limits: {text}"):
        assert sound(outcome(written))


@given(st.text())
def test_any_text_gives_a_config_or_a_config_error(text: str) -> None:
    assert sound(outcome(text))


@pytest.mark.parametrize(
    ("text", "terminal", "command"),
    [
        ("{}", "bell", ()),
        ("notify: osc", "osc", ()),
        ("notify: off", "off", ()),
        ("notify: 'off'", "off", ()),
        ("notify: {terminal: off}", "off", ()),
        ("notify: {command: [~/bin/call, --now]}", "bell", ("/home/me/bin/call", "--now")),
        ("notify: {terminal: osc, command: [notify-send]}", "osc", ("notify-send",)),
    ],
)
def test_how_a_person_is_called(text: str, terminal: str, command: tuple[str, ...]) -> None:
    notify = load(text, "config.yaml", "/home/me").notify
    assert (notify.terminal, notify.command) == (terminal, command)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("notify: loud", "notify.terminal"),
        ("notify: 3", "notify"),
        ("notify: true", "notify"),
        ("notify: {command: []}", "notify.command"),
        ("notify: {command: notify-send}", "notify.command"),
        ("notify: {command: [./here]}", "notify.command.0"),
        ("notify: {sound: on}", "notify.sound"),
    ],
)
def test_a_mistake_in_how_a_person_is_called_is_named(text: str, key: str) -> None:
    with pytest.raises(BridgeError) as caught:
        load(text, "config.yaml", "/home/me")
    assert (caught.value.code, caught.value.data["key"]) == ("config_error", key)


def test_how_long_an_idle_daemon_lives_is_configured_and_is_for_ever_by_default() -> None:
    assert read("").daemon.idle_exit_seconds is None
    assert read("daemon: {}").daemon.idle_exit_seconds is None
    for key in ("idleExitSeconds", "idle_exit_seconds"):
        assert read(f"daemon: {{{key}: 0.5}}").daemon.idle_exit_seconds == 0.5
    for value in ("0", "-1", "true", "'5'", ".inf", "[1]"):
        error = problem(f"daemon:\n  idleExitSeconds: {value}\n")
        assert (error.data["line"], error.data["key"]) == (2, "daemon.idleExitSeconds")
    assert problem("daemon:\n  idleSeconds: 1\n").data["key"] == "daemon.idleSeconds"


@pytest.mark.parametrize(
    ("entry", "means"),
    [("~/agents/one.py:one", "/home/u/agents/one.py:one"), ("/a b/one.py:one", "/a b/one.py:one")],
)
def test_an_agent_may_be_a_file_that_is_named_by_its_whole_path(entry: str, means: str) -> None:
    text = f"agents: {{list: [{{id: x, runtime: {{kind: python, entry: '{entry}'}}}}]}}"
    assert load(text, "config.yaml", "/home/u").agents[agent_id("x")].entry == means


def test_how_long_and_how_much_is_kept_has_a_default_and_bounds() -> None:
    assert (Limits().retention_days, Limits().max_store_mb) == (90, None)
    config = read("limits: {retentionDays: 7, maxStoreMb: 500}")
    assert (config.limits.retention_days, config.limits.max_store_mb) == (7, 500)
    for key in ("retentionDays", "maxStoreMb"):
        for value in ("0", "-1", "1.5", "true", "1e9"):
            error = problem(f"limits:\n  {key}: {value}\n")
            assert (error.data["line"], error.data["key"]) == (2, f"limits.{key}")


def test_row_39_nothing_is_served_to_an_agent_unless_its_definition_says_so() -> None:
    agent = one("id: codex")
    switches = (agent.client_fs_read, agent.client_fs_write, agent.client_terminal)
    assert switches == (False, False, False)
    agent = one("id: codex, client_capabilities: {fs: {read_text_file: true}}")
    assert (agent.client_fs_read, agent.client_fs_write) == (True, False)
    agent = one("id: codex, clientCapabilities: {fs: {writeTextFile: true}, terminal: true}")
    assert (agent.client_fs_read, agent.client_fs_write) == (False, True)
    assert agent.client_terminal
    for bad in ("fs: true", "terminal: 1", "fs: {readTextFile: yes please}", "fs: {read: true}"):
        problem(f"agents: {{list: [{{id: codex, clientCapabilities: {{{bad}}}}}]}}")


def test_what_an_agent_is_good_for_is_kept_for_those_who_choose() -> None:
    agent = one("id: a, runtime: {command: [x]}, capabilities: [rust, sql], whenToUse: For tests.")
    assert (agent.capabilities, agent.when_to_use) == (("rust", "sql"), "For tests.")
    plain = one("id: a, runtime: {command: [x]}")
    assert (plain.capabilities, plain.when_to_use) == ((), "")
    with pytest.raises(BridgeError, match="capabilities"):
        one("id: a, runtime: {command: [x]}, capabilities: rust")
