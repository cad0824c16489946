"""What a run may choose of its session, as it stands in the params of `run`."""

from collections.abc import Mapping
from typing import Any

from acpbridge.errors import BridgeError
from acpbridge.model.settings import Settings, is_options
from acpbridge.router.api import RunRequest


def read_choices(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of a `RunRequest` that hold what was chosen.

    Raises:
        BridgeError: `invalid_params`, naming the field.
    """
    # The daemon's side alone: a client writes choices, and would wait for pydantic.
    from acpbridge.config.servers import read_wire

    model, options = params.get("model"), params.get("set", {})
    if model is not None and not isinstance(model, str):
        raise BridgeError("invalid_params", "model must be a string.")
    if not is_options(options):
        raise BridgeError("invalid_params", "set must map ids to strings or booleans.")
    return {
        "settings": Settings(model, None, options),
        "mcp_servers": read_wire(params.get("mcpServers", [])),
        "fresh": params.get("fresh") is True,
    }


def write_choices(request: RunRequest) -> dict[str, Any]:
    """Return the params for what was chosen; the inverse of `read_choices`."""
    return {
        "model": request.settings.model,
        "set": dict(request.settings.options),
        "mcpServers": [dict(server) for server in request.mcp_servers],
        "fresh": request.fresh,
    }
