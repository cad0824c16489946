"""The configuration file: its schema, checked, and turned into a `Config`.

A key that nothing acts on yet is an unknown key, and an unknown key is an error that names file,
line and key: a rule that is silently ignored is worse than one that is missing.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictStr, ValidationError
from pydantic.alias_generators import to_camel

from acpbridge.config import catalogue, environment, yamltext
from acpbridge.config.snapshot import Config, Limits
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.keys import AgentId, agent_id

Word = Annotated[StrictStr, Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=to_camel, populate_by_name=True
    )


class _Runtime(_Strict):
    kind: Literal["acp", "python"] = "acp"
    command: Annotated[list[Word], Field(min_length=1)] | None = None
    agent: Word | None = None
    entry: Annotated[StrictStr, Field(pattern=r"^[\w.]+:\w+$")] | None = None
    python: Word | None = None


class _Env(_Strict):
    pass_: list[Word] = Field(default_factory=list, alias="pass")
    set: dict[str, StrictStr] = Field(default_factory=dict)


class _McpServer(_Strict):
    name: Word
    type: Literal["http", "sse"] | None = None
    command: Word | None = None
    args: list[StrictStr] = Field(default_factory=list)
    env: dict[str, StrictStr] = Field(default_factory=dict)
    url: Word | None = None
    headers: dict[str, StrictStr] = Field(default_factory=dict)

    def wire(self) -> dict[str, Any]:
        """Return the shape of `session/new`."""
        if self.type is None:
            env = [{"name": k, "value": v} for k, v in self.env.items()]
            return {"name": self.name, "command": self.command, "args": self.args, "env": env}
        headers = [{"name": k, "value": v} for k, v in self.headers.items()]
        return {"type": self.type, "name": self.name, "url": self.url, "headers": headers}


class _Agent(_Strict):
    id: Word | None = None
    name: StrictStr = ""
    description: StrictStr = ""
    default: StrictBool = False
    workspace: Word | None = None
    runtime: _Runtime | None = None
    mode: Word | None = None
    allow_bypass: StrictBool = False
    env: _Env = Field(default_factory=_Env)
    auth: Literal["any", "subscription"] = "any"
    mcp_servers: list[_McpServer] = Field(default_factory=list)


class _Agents(_Strict):
    list_: list[_Agent] | None = Field(default=None, alias="list")
    entries: dict[str, _Agent] | None = None


class _Limits(_Strict):
    max_processes: int = Field(default=8, ge=1)
    max_children_per_session: int = Field(default=5, ge=1, le=20)
    max_depth: int = Field(default=3, ge=1, le=5)
    idle_ttl_seconds: float = Field(default=900, gt=0)
    start_seconds: float = Field(default=30, gt=0)
    cold_start_seconds: float = Field(default=180, gt=0)
    permission_seconds: float = Field(default=300, gt=0)
    max_message_bytes: int = Field(default=64 * 1024 * 1024, ge=65536)


class _File(_Strict):
    agents: _Agents = Field(default_factory=_Agents)
    limits: _Limits = Field(default_factory=_Limits)


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
    _read_type_as_kind(source)
    try:
        file = _File.model_validate(source.value)
    except ValidationError as error:
        raise _first_problem(source, error) from None
    agents = _agents(source, file.agents, home)
    return Config(
        agents=agents,
        limits=Limits(**file.limits.model_dump()),
        revision=hashlib.sha256(text.encode()).hexdigest()[:12],
        warnings=_warnings(agents),
        path=name,
    )


def _read_type_as_kind(source: yamltext.Text) -> None:
    """`runtime.type` is the older word for `runtime.kind`."""
    agents = source.value.get("agents") if isinstance(source.value, dict) else None
    listed = agents.get("list") if isinstance(agents, dict) else None
    for index, entry in enumerate(listed if isinstance(listed, list) else []):
        runtime = entry.get("runtime") if isinstance(entry, dict) else None
        if isinstance(runtime, dict) and "type" in runtime:
            if "kind" in runtime:
                path = ("agents", "list", index, "runtime", "type")
                raise source.error(path, "`type` is another word for `kind`; give one of them.")
            runtime["kind"] = runtime.pop("type")


def _first_problem(source: yamltext.Text, error: ValidationError) -> BridgeError:
    first = error.errors(include_url=False, include_input=False)[0]
    path = tuple(part for part in first["loc"] if part != "[key]")
    if first["type"] == "extra_forbidden":
        return source.error(path, "this key is not known.")
    return source.error(path, f"{first['msg']}.")


def _agents(source: yamltext.Text, section: _Agents, home: str) -> dict[AgentId, AgentDefinition]:
    if section.list_ is not None and section.entries is not None:
        raise source.error(("agents", "entries"), "give agents.list or agents.entries, not both.")
    rows: list[tuple[yamltext.Path, str | None, _Agent]] = [
        *((("agents", "list", i), a.id, a) for i, a in enumerate(section.list_ or [])),
        *((("agents", "entries", n), n, a) for n, a in (section.entries or {}).items()),
    ]
    out: dict[AgentId, AgentDefinition] = {}
    for path, name, agent in rows:
        if name is None:
            raise source.error((*path, "id"), "an agent needs an id.")
        try:
            key = agent_id(name)
        except BridgeError as error:
            raise source.error((*path, "id"), error.message) from None
        if key in out:
            raise source.error((*path, "id"), f"the id {key} is given twice.")
        out[key] = _definition(source, path, key, agent, home)
    return out


def _definition(
    source: yamltext.Text, path: yamltext.Path, key: AgentId, agent: _Agent, home: str
) -> AgentDefinition:
    runtime = agent.runtime or _Runtime()
    base = _base(source, path, key, runtime)
    for part, names in (("pass", agent.env.pass_), ("set", list(agent.env.set))):
        for name in filter(environment.forbidden, names):
            raise source.error((*path, "env", part), f"{name} is never passed to an agent.")
    workspace = _expand(agent.workspace or "", home)
    if workspace and not workspace.startswith("/"):
        raise source.error((*path, "workspace"), "give an absolute path, or one from ~/.")
    return replace(
        base,
        id=key,
        name=agent.name or str(key),
        description=agent.description,
        kind=RuntimeKind(runtime.kind),
        entry=runtime.entry or "",
        python=_expand(runtime.python or "", home),
        workspace=workspace,
        mode=agent.mode,
        allow_bypass=agent.allow_bypass,
        env_pass=tuple(agent.env.pass_),
        env_set=dict(agent.env.set),
        auth=agent.auth,
        mcp_servers=tuple(_wire(source, path, i, s) for i, s in enumerate(agent.mcp_servers)),
        default=agent.default,
    )


def _base(
    source: yamltext.Text, path: yamltext.Path, key: AgentId, runtime: _Runtime
) -> AgentDefinition:
    here = (*path, "runtime")
    if runtime.kind == "python":
        if runtime.entry is None or runtime.command or runtime.agent:
            raise source.error(here, "a python agent needs `entry: module:name` and no command.")
        return AgentDefinition(id=key)
    if runtime.entry or runtime.python:
        raise source.error(here, "`entry` and `python` belong to kind python.")
    if runtime.command and runtime.agent:
        raise source.error(here, "give `command` or `agent`, not both.")
    if runtime.command:
        command = tuple(runtime.command)
        return AgentDefinition(id=key, command=command, facts=catalogue.facts_for_command(command))
    found = catalogue.entry(runtime.agent or str(key))
    if found is None:
        where = (*here, "agent") if runtime.agent else (*path, "id")
        known = ", ".join(catalogue.CATALOGUE)
        raise source.error(where, f"not in the catalogue ({known}): give runtime.command.")
    return found


def _wire(
    source: yamltext.Text, path: yamltext.Path, index: int, server: _McpServer
) -> Mapping[str, Any]:
    here = (*path, "mcpServers", index)
    if server.type is None and (server.command is None or not server.command.startswith("/")):
        raise source.error((*here, "command"), "an MCP server needs an absolute command.")
    if server.type is not None and server.url is None:
        raise source.error((*here, "url"), f"a server of type {server.type} needs a url.")
    return server.wire()


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
