"""The shapes of ACP version 1 that the bridge acts on; everything else is relayed unread.

Strict where it acts: a permission request, the modes of a session, the answers to `initialize`,
`session/new` and `session/prompt`. Above are the runtimes and the faces; below is `errors`.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, ValidationError

from acpbridge.errors import BridgeError
from acpbridge.protocol.rawjson import member

PROTOCOL_VERSION: Final = 1

CLIENT_INFO_NAME: Final = "acpbridge"

# The name of a tool call; real ones have some forty characters, and each is remembered.
LONGEST_ID: Final = 1024

Shape = TypeVar("Shape", bound=BaseModel)


class _Shape(BaseModel):
    model_config = ConfigDict(extra="allow", frozen=True)


class InitializeResult(_Shape):
    """The answer to `initialize`."""

    protocolVersion: StrictInt  # noqa: N815 - the word on the wire
    agentCapabilities: dict[str, Any] | None = None  # noqa: N815 - the word on the wire
    authMethods: list[Any] | None = None  # noqa: N815 - the word on the wire


class NewSessionResult(_Shape):
    """The answer to `session/new`."""

    sessionId: Annotated[StrictStr, Field(min_length=1)]  # noqa: N815 - the word on the wire


class WireOption(_Shape):
    """An option of a permission request."""

    optionId: StrictStr  # noqa: N815 - the word on the wire
    name: StrictStr
    kind: StrictStr


class WireToolCall(_Shape):
    """The tool call of a permission request; all but its id is optional."""

    toolCallId: Annotated[StrictStr, Field(min_length=1, max_length=LONGEST_ID)]  # noqa: N815 - the word on the wire
    title: StrictStr | None = None
    kind: StrictStr | None = None
    content: list[dict[str, Any]] | None = None
    locations: list[dict[str, Any]] | None = None
    rawInput: Any = None  # noqa: N815 - the word on the wire


class PermissionParams(_Shape):
    """The params of `session/request_permission`."""

    sessionId: StrictStr  # noqa: N815 - the word on the wire
    toolCall: WireToolCall  # noqa: N815 - the word on the wire
    options: list[WireOption]


# As the schema has it; 0 is no line, and is read as the first.
_LineNumber = Annotated[StrictInt, Field(ge=0)]


class ReadFileParams(_Shape):
    """The params of `fs/read_text_file`."""

    sessionId: StrictStr  # noqa: N815 - the word on the wire
    path: StrictStr
    line: _LineNumber | None = None
    limit: _LineNumber | None = None


class WriteFileParams(_Shape):
    """The params of `fs/write_text_file`."""

    sessionId: StrictStr  # noqa: N815 - the word on the wire
    path: StrictStr
    content: StrictStr


def read(shape: type[Shape], value: Any, what: str) -> Shape:
    """Return the value in the given shape.

    Raises:
        BridgeError: `invalid_params`, naming the field.
    """
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = "/".join(map(str, first["loc"])) or "(top)"
        message = f"{what}: {where}: {first['msg']}."
        raise BridgeError("invalid_params", message) from None


def update_kind(params: Any) -> str | None:
    """Return the `sessionUpdate` word of an update's params, None if they are not an update."""
    update = params.get("update") if isinstance(params, dict) else None
    kind = update.get("sessionUpdate") if isinstance(update, dict) else None
    return kind if isinstance(kind, str) else None


def raw_update(line: bytes) -> bytes:
    """Return the bytes of `params.update` of a `session/update` line, exactly as they came."""
    found = member(line.decode("utf-8", "surrogateescape"), "params", "update")
    return b"null" if found is None else found.encode("utf-8", "surrogateescape")


def current_mode(result: Mapping[str, Any]) -> str | None:
    """Return the mode that a session answer states: by its config option, else by `modes`."""
    options = result.get("configOptions")
    by_option = _mode_option(options) if isinstance(options, list) else None
    if by_option is not None:
        return by_option
    modes = result.get("modes")
    mode = modes.get("currentModeId") if isinstance(modes, dict) else None
    return mode if isinstance(mode, str) else None


def offered_modes(result: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the ids of the modes that a session answer offers, by either way of saying it."""
    modes = result.get("modes")
    listed = modes.get("availableModes") if isinstance(modes, dict) else None
    ids = [m.get("id") for m in listed if isinstance(m, dict)] if isinstance(listed, list) else []
    option = mode_option_id(result)
    if option is not None:
        for item in result["configOptions"]:
            if isinstance(item, dict) and item.get("id") == option:
                ids += _values(item.get("options"))
    return tuple(dict.fromkeys(i for i in ids if isinstance(i, str)))


def _values(options: Any) -> list[Any]:
    out: list[Any] = []
    for entry in options if isinstance(options, list) else []:
        if isinstance(entry, dict):
            out += [entry["value"]] if "value" in entry else _values(entry.get("options"))
    return out


def mode_option_id(result: Mapping[str, Any]) -> str | None:
    """Return the id of the config option that holds the mode, None if there is none."""
    options = result.get("configOptions")
    for item in options if isinstance(options, list) else []:
        if isinstance(item, dict) and item.get("category") == "mode":
            found = item.get("id")
            return found if isinstance(found, str) else None
    return None


def mode_of_update(params: Any) -> str | None:
    """Return the mode that an update announces, None if it is about something else."""
    kind = update_kind(params)
    if kind == "current_mode_update":
        update = params["update"]
        mode = update.get("currentModeId", update.get("modeId"))
        return mode if isinstance(mode, str) else None
    if kind == "config_option_update":
        options = params["update"].get("configOptions")
        return _mode_option(options) if isinstance(options, list) else None
    return None


def options_of_update(params: Any) -> list[Any] | None:
    """Return the config options that an update announces, None if it is about something else."""
    told = params["update"].get("configOptions") if _tells_options(params) else None
    return told if isinstance(told, list) else None


def _tells_options(params: Any) -> bool:
    return update_kind(params) == "config_option_update"


def _mode_option(options: list[Any]) -> str | None:
    for item in options:
        if isinstance(item, dict) and item.get("category") == "mode":
            value = item.get("currentValue")
            return value if isinstance(value, str) else None
    return None


def can(capabilities: Mapping[str, Any], *path: str) -> bool:
    """Tell whether `agentCapabilities` holds a marker: true or an object, not absent or null."""
    value: Any = capabilities.get("agentCapabilities")
    for key in path:
        value = value.get(key) if isinstance(value, dict) else None
    return value is True or isinstance(value, dict)


def selected(option_id: str | None) -> dict[str, Any]:
    """Return the result of a permission request; None sends the outcome `cancelled`."""
    if option_id is None:
        return {"outcome": {"outcome": "cancelled"}}
    return {"outcome": {"outcome": "selected", "optionId": option_id}}
