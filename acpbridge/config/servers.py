"""MCP servers: as a configuration names them, as `--mcp-config` files do, and as they go out. Pure.

What comes out has the shape of `session/new`. An unknown key is an error here too: a server that is
started otherwise than its file says is worse than none.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, StrictStr, ValidationError

from acpbridge.config import yamltext
from acpbridge.config.shape import PROBLEMS, Word, shaped
from acpbridge.config.snapshot import STRICT
from acpbridge.errors import BridgeError

# Other programs' words for the kinds of servers.
_KINDS: Final[Mapping[str, str | None]] = {
    "stdio": None,
    "streamable-http": "http",
    "streamableHttp": "http",
}


class McpServer(BaseModel):
    """One server: a command, or a url with its type."""

    model_config = STRICT

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


def wire(source: yamltext.Text, here: yamltext.Path, server: McpServer) -> Mapping[str, Any]:
    """Return a server as it goes out, once its keys are known to fit together.

    Raises:
        BridgeError: `config_error`, with file, line and key.
    """
    if server.type is None:
        if server.url or server.headers:
            raise source.error(here, "a server with a url needs `type: http` or `type: sse`")
        if server.command is None or not server.command.startswith("/"):
            raise source.error((*here, "command"), "a server needs a command, an absolute path")
    elif server.url is None:
        raise source.error((*here, "url"), f"a server of type {server.type} needs a url")
    elif server.command or server.args or server.env:
        raise source.error(here, f"a server of type {server.type} takes no command, args or env")
    return server.wire()


def read_file(text: str, name: str, resolve: Callable[[str], str]) -> tuple[Mapping[str, Any], ...]:
    """Return the servers of a file with `mcpServers`, JSON or YAML, as other programs have it.

    Args:
        text: of the file.
        name: of the file, for errors.
        resolve: finds a program; it raises what is wrong with it.

    Raises:
        BridgeError: `config_error`, with file, line and key.
    """
    source = yamltext.read(text, name)
    listed = source.value.get("mcpServers") if isinstance(source.value, dict) else None
    if not isinstance(listed, dict) or len(source.value) > 1:
        raise source.error((), "give one key, mcpServers, with a mapping of names to servers")
    out = []
    for key, value in listed.items():
        here = ("mcpServers", key)
        if not isinstance(value, dict):
            raise source.error(here, PROBLEMS["model_type"])
        if "name" in value:
            raise source.error((*here, "name"), "the key names this server; remove the name")
        out.append(wire(source, here, _server(source, here, {**value, "name": key}, resolve)))
    return tuple(out)


def _server(
    source: yamltext.Text,
    here: yamltext.Path,
    value: dict[str, Any],
    resolve: Callable[[str], str],
) -> McpServer:
    kind = value.get("type")
    if isinstance(kind, str):
        value["type"] = _KINDS.get(kind, kind)
    if isinstance(value.get("command"), str) and value["command"]:
        try:
            value["command"] = resolve(value["command"])
        except BridgeError as error:
            raise source.error((*here, "command"), error.message) from None
    return shaped(source, McpServer, value, here)


# ---- As they come over the control socket ----


class _Exact(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Pair(_Exact):
    name: Word
    value: StrictStr


class _Stdio(_Exact):
    name: Word
    command: Annotated[StrictStr, Field(pattern=r"^/")]
    args: list[StrictStr]
    env: list[_Pair]


class _Remote(_Exact):
    type: Literal["http", "sse"]
    name: Word
    url: Word
    headers: list[_Pair]


def read_wire(value: Any) -> tuple[Mapping[str, Any], ...]:
    """Return servers that already have the shape of `session/new`, checked.

    Raises:
        BridgeError: `invalid_params`; no value is repeated in it, for it may be a secret.
    """
    if not isinstance(value, list):
        raise BridgeError("invalid_params", "mcpServers must be a list.")
    for index, item in enumerate(value):
        remote = isinstance(item, dict) and "type" in item
        try:
            (_Remote if remote else _Stdio).model_validate(item)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, ("mcpServers", index, *first["loc"])))
            raise BridgeError("invalid_params", f"{where}: {first['msg']}.") from None
    names = [item["name"] for item in value]
    if len(set(names)) < len(names):
        raise BridgeError("invalid_params", "mcpServers: a name is given twice.")
    return tuple(value)
