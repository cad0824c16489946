"""What an agent is: its definition, frozen, as a session keeps it from its opening on."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from acpbridge.model.delegation import Delegation
from acpbridge.model.keys import AgentId
from acpbridge.model.modelagent import ModelAgent
from acpbridge.model.settings import Settings


class RuntimeKind(StrEnum):
    """Which runtime drives an agent."""

    ACP = "acp"
    PYTHON = "python"


@dataclass(frozen=True, slots=True)
class SessionFiles:
    """Where a program keeps its sessions, a file for each, lines of JSON with the id in the first.

    Attributes:
        pattern: below the user's home, with `{minute}` of the opening and `{id}`.
        id_length: how much of the session's id is in the name.
        minute: its form, as `strftime` has it.
        message: how a line begins that holds something said.
    """

    pattern: str
    id_length: int
    minute: str
    message: str


@dataclass(frozen=True, slots=True)
class ToolNames:
    """Where in a tool call a program says what its tool is called; each a path of keys.

    Attributes:
        tool: of the tool's own name, () for nowhere.
        server: of the MCP server that the tool is of, () for nowhere.
        only_if: what must be true for the two to be there; without it, what lies at these paths
            may be a model's own words. () for always.
    """

    tool: tuple[str, ...] = ()
    server: tuple[str, ...] = ()
    only_if: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentFacts:
    """What is known of a program that speaks ACP: data of the catalogue, never code.

    Attributes:
        description: what it is, for people.
        registry_id: its id in the ACP registry, "" where it has none that is known.
        binaries: names under which the program is installed, the preferred one first.
        args: arguments that make it speak ACP.
        npx_package: npm package for a cold start, "" if there is none.
        npx_version: the version to pin for it.
        uvx_package: PyPI package for a cold start through uvx, "" if there is none.
        packages: package names, older ones included, by which a command is recognised.
        asking_mode: the session mode in which a person is asked; None: unknown.
        bypass_modes: modes in which nobody is ever asked.
        unknown_session_words: words by which an internal error at a load or resume, or at the first
            prompt after one, says that there is no such session.
        replay_quiet: seconds of silence after the answer to a load that prove the replay is over;
            0: the answer proves it.
        session_files: its stored sessions, where a second load would destroy them.
        reload_wait: what must have changed on the clock since a session was last opened, before the
            program may load it again without harm: "minute", or "" for nothing. Not waited for
            where its `session_files` could be put in order.
        tool_names: where it says what a tool is called, besides ACP's own field for that.
        mode_answer_suffices: whether the bare answer to `session/set_mode` is all it ever says.
        grace: seconds that it needs to end after its stdin was closed.
        env_names: environment variables that belong to it (a trailing `*` matches a prefix).
        env_set: variables it must run with.
        secret_names: those of `env_names` that hold API keys, dropped by `auth: subscription`.
        auth_method: the id of the way to authenticate where it offers several, "" for none.
        login_files: files below the user's home, or below `$NAME/` of the environment, whose
            presence tells of a login.
        logins: ways of its own to log in, each with the arguments that start it.
        login_hint: how a person logs in.
        no_login: whether it needs none.
        session_needs_login: whether it opens a session only when it has a login.
        install_hint: how a person installs it.
        wrong_commands: first words of commands that look right and are not, with what to write.
        silence_hint: what to check when nothing comes from it for a while.
        settings_paths: files and directories, wherever they are, by which it is configured; no
            agent writes there, for it could allow itself everything.
    """

    description: str = ""
    registry_id: str = ""
    binaries: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    npx_package: str = ""
    npx_version: str = ""
    uvx_package: str = ""
    packages: tuple[str, ...] = ()
    asking_mode: str | None = None
    bypass_modes: tuple[str, ...] = ()
    unknown_session_words: tuple[str, ...] = ("session not found", "no such session")
    replay_quiet: float = 0.0
    session_files: SessionFiles | None = None
    reload_wait: str = ""
    tool_names: tuple[ToolNames, ...] = ()
    mode_answer_suffices: bool = False
    grace: float = 2.0
    env_names: tuple[str, ...] = ()
    env_set: Mapping[str, str] = field(default_factory=dict)
    secret_names: tuple[str, ...] = ()
    auth_method: str = ""
    login_files: tuple[str, ...] = ()
    logins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    login_hint: str = ""
    no_login: bool = False
    session_needs_login: bool = False
    install_hint: str = ""
    wrong_commands: Mapping[str, str] = field(default_factory=dict)
    silence_hint: str = ""
    settings_paths: tuple[str, ...] = ()


UNKNOWN_FACTS = AgentFacts()


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    """One agent as configured. A session keeps the definition that it was opened with.

    Attributes:
        id: canonical.
        name: for people.
        description: for people and for a main agent that chooses.
        capabilities: what it is good at, in a few words each, for a main agent that chooses.
        when_to_use: when it should be chosen, in a sentence, for the same.
        kind: of the runtime.
        command: argv of an ACP agent; empty: found from the facts.
        entry: `module:attribute` of a Python agent.
        by_model: what a Python agent is made of that has no code of its own; None: it has.
        python: the interpreter for it, "" for our own.
        workspace: its directory, "" for the caller's.
        mode: the session mode to set; None: the asking mode of the facts.
        settings: model and options of every session, where a run chooses none.
        allow_bypass: whether a bypass mode may be entered.
        forward_always: whether an `allow_always` that a person picks is sent to it as it is.
        env_pass: names passed on from the caller's environment.
        env_set: names set to fixed values.
        auth: `any`, or `subscription` to drop the vendor's API keys.
        containment: how its process trees are held: `auto`, `shim`, `cgroup2` or `pidns`.
        mcp_servers: handed to the agent as they are.
        client_fs_read: whether the agent may ask the bridge to read files for it.
        client_fs_write: whether it may ask the bridge to write files for it.
        client_terminal: whether it may ask the bridge to run commands for it.
        session_tools: whether it is given the session tools, over MCP.
        facts: what the catalogue knows of the program.
        delegation: what its sessions may start.
        default: whether it is the one that runs when none is named.
    """

    id: AgentId
    name: str = ""
    description: str = ""
    capabilities: tuple[str, ...] = ()
    when_to_use: str = ""
    kind: RuntimeKind = RuntimeKind.ACP
    command: tuple[str, ...] = ()
    entry: str = ""
    by_model: ModelAgent | None = None
    python: str = ""
    workspace: str = ""
    mode: str | None = None
    settings: Settings = field(default_factory=Settings)
    allow_bypass: bool = False
    forward_always: bool = False
    env_pass: tuple[str, ...] = ()
    env_set: Mapping[str, str] = field(default_factory=dict)
    auth: str = "any"
    containment: str = "auto"
    mcp_servers: tuple[Mapping[str, Any], ...] = ()
    client_fs_read: bool = False
    client_fs_write: bool = False
    client_terminal: bool = False
    session_tools: bool = False
    facts: AgentFacts = UNKNOWN_FACTS
    delegation: Delegation = field(default_factory=Delegation)
    default: bool = False

    @property
    def wanted_mode(self) -> str | None:
        """The mode that every session of this agent must be in; None: none is known."""
        return self.mode if self.mode is not None else self.facts.asking_mode
