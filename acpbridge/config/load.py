"""The configuration file: its schema, checked, and turned into a `Config`.

A key that nothing acts on yet is an unknown key, and an unknown key is an error that names file,
line and key: a rule that is silently ignored is worse than one that is missing.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, BeforeValidator, Field, StrictBool, StrictInt, StrictStr
from pydantic_core import PydanticCustomError

from acpbridge.config import catalogue, environment, modelagents, recognise, servers, yamltext
from acpbridge.config.delegation import Acp, Subagents
from acpbridge.config.shape import Word, shaped
from acpbridge.config.snapshot import STRICT, Config, DaemonSettings, Limits, Notify
from acpbridge.config.tools import Tools
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.keys import AgentId, agent_id
from acpbridge.model.settings import Settings, Value

Kind = Literal["acp", "python"]


# A module or a file, and a name in it.
_NAME: Final = r"[^\W\d]\w*"
_ENTRY: Final = rf"^({_NAME}(\.{_NAME})*|[^:\x00]*\.py):{_NAME}$"


def _value(value: object) -> object:
    # A union of types would put its own words into the path of the key.
    if not isinstance(value, str | bool):
        raise PydanticCustomError("string_type", "not text")
    if value == "":
        raise PydanticCustomError("string_too_short", "empty")
    return value


class _Strict(BaseModel):
    model_config = STRICT


class _Runtime(_Strict):
    kind: Kind | None = None
    type: Kind | None = None  # an older word for it
    command: Annotated[list[Word], Field(min_length=1)] | None = None
    agent: Word | None = None
    entry: Annotated[StrictStr, Field(pattern=_ENTRY)] | None = None
    python: Word | None = None
    model: Word | None = None
    instructions: StrictStr | None = None
    tools: list[Word] | None = None
    max_iterations: Annotated[StrictInt, Field(ge=1, le=modelagents.MOST_ITERATIONS)] | None = None
    base_url: Word | None = None


class _Env(_Strict):
    pass_: list[Word] = Field(default_factory=list, alias="pass")
    set: dict[str, StrictStr] = Field(default_factory=dict)


class _ClientFiles(_Strict):
    read_text_file: StrictBool = False
    write_text_file: StrictBool = False


class _ClientCapabilities(_Strict):
    fs: _ClientFiles = Field(default_factory=_ClientFiles)
    terminal: StrictBool = False


class _Tools(_Strict):
    sessions: StrictBool = False


class _Agent(_Strict):
    id: Word | None = None
    name: StrictStr = ""
    description: StrictStr = ""
    capabilities: list[Word] = Field(default_factory=list)
    when_to_use: StrictStr = ""
    default: StrictBool = False
    workspace: Word | None = None
    runtime: _Runtime | None = None
    mode: Word | None = None
    model: Word | None = None
    options: dict[str, Annotated[Value, BeforeValidator(_value)]] = Field(default_factory=dict)
    allow_bypass: StrictBool = False
    forward_always: StrictBool = False
    env: _Env = Field(default_factory=_Env)
    auth: Literal["any", "subscription"] = "any"
    auth_method: Word | None = None
    containment: Literal["auto", "shim", "cgroup2", "pidns"] = "auto"
    mcp_servers: list[servers.McpServer] = Field(default_factory=list)
    client_capabilities: _ClientCapabilities = Field(default_factory=_ClientCapabilities)
    subagents: Subagents = Field(default_factory=Subagents)
    tools: _Tools = Field(default_factory=_Tools)


class _Defaults(_Strict):
    subagents: Subagents = Field(default_factory=Subagents)


class _Agents(_Strict):
    list_: list[_Agent] | None = Field(default=None, alias="list")
    entries: dict[str, _Agent] | None = None
    defaults: _Defaults = Field(default_factory=_Defaults)


class _Notify(_Strict):
    # YAML reads a plain `off` as false.
    terminal: Annotated[
        Literal["bell", "osc", "off"], BeforeValidator(lambda v: "off" if v is False else v)
    ] = "bell"
    command: Annotated[list[Word], Field(min_length=1)] | None = None


def _notify(value: Any) -> Any:
    """Read a word as how a terminal calls."""
    return {"terminal": value} if isinstance(value, str) or value is False else value


class _File(_Strict):
    agents: _Agents = Field(default_factory=_Agents)
    limits: Limits = Field(default_factory=Limits)
    daemon: DaemonSettings = Field(default_factory=DaemonSettings)
    acp: Acp = Field(default_factory=Acp)
    notify: Annotated[_Notify, BeforeValidator(_notify)] = Field(default_factory=_Notify)
    tools: Tools = Field(default_factory=Tools)


def schema() -> dict[str, Any]:
    """Return what a file may hold as a JSON Schema, in camelCase."""
    return _File.model_json_schema()


def load(text: str, name: str, home: str) -> Config:
    """Return the configuration that a file holds.

    Args:
        text: of the file.
        name: of the file, for errors.
        home: the user's home directory, for `~`.

    Raises:
        BridgeError: `config_error`, with file, line and key.
    """
    source = yamltext.read(text, name)
    file = shaped(source, _File, source.value)
    agents = _agents(source, file.agents, home)
    return Config(
        agents=agents,
        limits=file.limits,
        notify=_calling(source, file.notify, home),
        revision=hashlib.sha256(text.encode()).hexdigest()[:12],
        warnings=_warnings(agents),
        path=name,
        daemon=file.daemon,
        acp=file.acp,
        delegation=file.agents.defaults.subagents.over(Subagents()),
        tools=file.tools,
    )


def _agents(source: yamltext.Text, section: _Agents, home: str) -> dict[AgentId, AgentDefinition]:
    if section.list_ is not None and section.entries is not None:
        raise source.error(("agents", "entries"), "give agents.list or agents.entries, not both")
    rows: list[tuple[yamltext.Path, str | None, _Agent]] = [
        *((("agents", "list", i), a.id, a) for i, a in enumerate(section.list_ or [])),
        *((("agents", "entries", n), n, a) for n, a in (section.entries or {}).items()),
    ]
    out: dict[AgentId, AgentDefinition] = {}
    written: dict[AgentId, str] = {}
    for path, name, agent in rows:
        if name is None:
            raise source.error((*path, "id"), "an agent needs an id")
        where = path if section.entries is not None else (*path, "id")
        if agent.id not in (None, name):
            raise source.error((*path, "id"), f"the key names this agent {name}; remove the id")
        try:
            key = agent_id(name)
        except BridgeError as error:
            raise source.error(where, error.message) from None
        if key in out:
            names = f"{written[key]!r} and {name!r}"
            raise source.error(where, f"{names} are the same id, {key}; rename one of them")
        made = _definition(source, path, key, agent, home)
        delegation = agent.subagents.over(section.defaults.subagents)
        out[key], written[key] = replace(made, delegation=delegation), name
    return out


def _definition(
    source: yamltext.Text, path: yamltext.Path, key: AgentId, agent: _Agent, home: str
) -> AgentDefinition:
    base = _base(source, path, key, agent.runtime or _Runtime(), home)
    workspace = _expand(agent.workspace or "", home)
    if workspace and not workspace.startswith("/"):
        raise source.error((*path, "workspace"), "give an absolute path, or one from ~/")
    if base.by_model is not None and agent.tools.sessions:
        base = replace(base, by_model=base.by_model.with_session_tools())
    _check_env(source, path, agent, base)
    return replace(
        base,
        id=key,
        name=agent.name or str(key),
        description=agent.description or base.description,
        capabilities=tuple(agent.capabilities),
        when_to_use=agent.when_to_use,
        workspace=workspace,
        mode=agent.mode,
        allow_bypass=agent.allow_bypass,
        forward_always=agent.forward_always,
        env_pass=tuple(agent.env.pass_),
        env_set=dict(agent.env.set),
        auth=agent.auth,
        containment=agent.containment,
        facts=replace(base.facts, auth_method=agent.auth_method or base.facts.auth_method),
        settings=Settings(agent.model, None, agent.options),
        mcp_servers=tuple(
            servers.wire(source, (*path, "mcpServers", i), s)
            for i, s in enumerate(agent.mcp_servers)
        ),
        client_fs_read=agent.client_capabilities.fs.read_text_file,
        client_fs_write=agent.client_capabilities.fs.write_text_file,
        client_terminal=agent.client_capabilities.terminal,
        session_tools=agent.tools.sessions,
        default=agent.default,
    )


def _base(
    source: yamltext.Text, path: yamltext.Path, key: AgentId, runtime: _Runtime, home: str
) -> AgentDefinition:
    """Return what the runtime says of an agent: a program, or an entry of the catalogue."""
    here = (*path, "runtime")
    if runtime.kind and runtime.type:
        raise source.error((*here, "type"), "`type` is another word for `kind`; keep one of them")
    if (runtime.kind or runtime.type) == "python":
        return _python(source, here, key, runtime, home)
    if runtime.entry or runtime.python or modelagents.given(runtime):
        names = "`entry`, `python` and `model`"
        raise source.error(here, f"{names} belong to `kind: python`; add that")
    if runtime.command and runtime.agent:
        raise source.error(here, "give `command` or `agent`, not both")
    if runtime.command:
        program = _program(source, (*here, "command", 0), runtime.command[0], home)
        command = (program, *runtime.command[1:])
        return AgentDefinition(key, command=command, facts=recognise.facts_for_command(command))
    found = recognise.entry(runtime.agent or str(key))
    where = (*here, "agent") if runtime.agent else (*path, "id")
    if found is None:
        known = ", ".join(n for n, f in catalogue.CATALOGUE.items() if f != catalogue.UNCHECKED)
        raise source.error(where, f"not in the catalogue ({known}); give runtime.command")
    if found.facts == catalogue.UNCHECKED:
        raise source.error(where, "its command is not known; give runtime.command")
    return found


def _python(
    source: yamltext.Text, here: yamltext.Path, key: AgentId, runtime: _Runtime, home: str
) -> AgentDefinition:
    """Return the definition of an agent that we serve: by its code, or by a model."""
    of_model = modelagents.given(runtime)
    if runtime.command or runtime.agent or (runtime.entry is None) == (runtime.model is None):
        problem = "a python agent needs `entry: module:name` or `model`, and no command"
        raise source.error(here, problem)
    if runtime.model is None and of_model:
        raise source.error((*here, of_model[0]), "it belongs to an agent that has a `model`")
    python = _program(source, (*here, "python"), runtime.python or "", home)
    if runtime.entry is None:
        return modelagents.definition(source, here, key, runtime, python)
    entry = _entry(source, (*here, "entry"), runtime.entry, home)
    facts = catalogue.PYTHON
    return AgentDefinition(key, kind=RuntimeKind.PYTHON, entry=entry, python=python, facts=facts)


def _program(source: yamltext.Text, path: yamltext.Path, program: str, home: str) -> str:
    """Expand a program; one relative to the agent's directory would be the workspace's choice."""
    expanded = _expand(program, home)
    if "/" in expanded and not expanded.startswith("/"):
        raise source.error(path, "give a bare name, an absolute path, or one from ~/")
    return expanded


def _calling(source: yamltext.Text, notify: _Notify, home: str) -> Notify:
    if notify.command is None:
        return Notify(notify.terminal)
    program = _program(source, ("notify", "command", 0), notify.command[0], home)
    return Notify(notify.terminal, (program, *notify.command[1:]))


def _entry(source: yamltext.Text, path: yamltext.Path, entry: str, home: str) -> str:
    """Expand an entry; a file relative to the agent's directory would be the workspace's choice."""
    module, _, name = entry.rpartition(":")
    if not module.endswith(".py"):
        return entry
    file = _expand(module, home)
    if not file.startswith("/"):
        raise source.error(path, "give the file as an absolute path, or one from ~/")
    return f"{file}:{name}"


def _check_env(
    source: yamltext.Text, path: yamltext.Path, agent: _Agent, base: AgentDefinition
) -> None:
    for part, names in (("pass", agent.env.pass_), ("set", list(agent.env.set))):
        here = (*path, "env", part)
        for name in names:
            if not name or "=" in name:
                raise source.error(here, f"{name!r} cannot name a variable; mend the name")
            if environment.forbidden(name):
                raise source.error(here, f"{name} is never passed to an agent; remove it")
            if name in environment.OURS:
                raise source.error(here, f"{name} is set by acpbridge; remove it")
            if agent.auth == "subscription" and name in base.facts.secret_names:
                problem = f"{name} is dropped by `auth: subscription`; remove one of them"
                raise source.error(here, problem)


def _expand(path: str, home: str) -> str:
    return home + path[1:] if path == "~" or path.startswith("~/") else path


def _warnings(agents: Mapping[AgentId, AgentDefinition]) -> tuple[str, ...]:
    out = []
    marked = [str(a.id) for a in agents.values() if a.default]
    if len(marked) > 1:
        out.append(f"several agents are marked default: {', '.join(marked)}; the first is used")
    homes: dict[str, str] = {}
    for agent in agents.values():
        other = homes.setdefault(agent.workspace, str(agent.id)) if agent.workspace else agent.id
        if other != agent.id:
            out.append(f"agents {other} and {agent.id} share the workspace {agent.workspace}")
    return tuple(out)
