"""The JSON schema of a tool's parameters, made from the request that they become. Pure.

The request has the types, defaults, enums and ranges, the tool's entry the words for a model, so
that neither can say what the other does not. Models read it: what only a validator needs is left
out.
"""

from collections.abc import Mapping
from typing import Any, Final

from acpbridge.router.toolcall import ToolRequest

# Words of JSON Schema that help a model. Everything else is noise to it.
_KEPT: Final = (
    *("type", "enum", "const", "items", "properties", "required", "description"),
    *("minimum", "maximum", "exclusiveMinimum", "minItems", "maxItems", "maxLength"),
    "additionalProperties",
)

# A default that says nothing: the parameter is simply not given.
_NOTHING: Final[tuple[Any, ...]] = (None, "", [], {})


def parameters(
    request: type[ToolRequest], words: Mapping[str, str], required: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the schema of an object with the parameters that a model may give.

    Args:
        request: that they become.
        words: what to say of each, by its name on the wire; one without is not a model's to give.
        required: names that must be given, besides those that the request requires itself.
    """
    whole = request.model_json_schema(by_alias=True)
    known = {**whole.get("properties", {})}
    shown = {
        name: {**_plain(known[name], whole.get("$defs", {})), "description": said}
        for name, said in words.items()
    }
    needed = [name for name in shown if name in {*whole.get("required", ()), *required}]
    out: dict[str, Any] = {"type": "object", "properties": shown, "additionalProperties": False}
    return {**out, "required": needed} if needed else out


def _plain(value: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """Return a part of a schema without references, titles, and the null of what is left out."""
    kinds = [kind for kind in value.get("anyOf", ()) if kind != {"type": "null"}]
    if len(kinds) == 1:
        value = {**value, **kinds[0]}
    if "$ref" in value:
        value = {**shared[str(value["$ref"]).rpartition("/")[2]], **value}
    out = {name: value[name] for name in _KEPT if name in value}
    if len(kinds) > 1:
        out["anyOf"] = [_plain(kind, shared) for kind in kinds]
    if isinstance(out.get("items"), dict):
        out["items"] = _plain(out["items"], shared)
    if isinstance(out.get("properties"), dict):
        out["properties"] = {n: _plain(p, shared) for n, p in out["properties"].items()}
    if "default" in value and value["default"] not in _NOTHING:
        out["default"] = value["default"]
    return out
