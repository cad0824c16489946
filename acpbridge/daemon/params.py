"""The params of calls on the control socket, read one by one; a wrong one is named."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from acpbridge.errors import BridgeError
from acpbridge.model.sessions import SessionState
from acpbridge.router.api import PruneRequest


def text(params: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Return a string; without a default it must be there."""
    value = params.get(name, default)
    if not isinstance(value, str):
        raise BridgeError("invalid_params", f"{name} must be a string.")
    return value


def number(params: Mapping[str, Any], name: str) -> float | None:
    """Return a number of seconds, None if it is not given."""
    value = params.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise BridgeError("invalid_params", f"{name} must be a number of seconds.")
    return float(value)


def word(kind: Any, value: Any, name: str) -> Any:
    """Return a member of an enumeration."""
    try:
        return kind(value)
    except ValueError:
        listed = ", ".join(kind)
        raise BridgeError("invalid_params", f"{name} must be one of {listed}.") from None


def env(params: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of a caller."""
    value = params.get("env", {})
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise BridgeError("invalid_params", "env must map names to strings.")
    return value


def words(params: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    """Return a list of strings, None if it is not given."""
    value = params.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise BridgeError("invalid_params", f"{name} must be a list of strings.")
    return tuple(value)


def count(params: Mapping[str, Any], name: str) -> int | None:
    """Return a whole number, None if it is not given."""
    value = params.get(name)
    if value is not None and (type(value) is not int or value < 0):
        raise BridgeError("invalid_params", f"{name} must be a number, 0 or more.")
    return value


def moment(params: Mapping[str, Any], name: str) -> str:
    """Return a moment in the shape that it has in events, "" where none is given."""
    given = text(params, name, "")
    if not given:
        return ""
    try:
        at = datetime.fromisoformat(given).astimezone(UTC)
    except (ValueError, OverflowError):
        message = f"{name} must be a moment, as in 2026-01-31T12:00:00Z."
        raise BridgeError("invalid_params", message) from None
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_prune(params: Mapping[str, Any]) -> PruneRequest:
    """Return the request that the params of `prune` hold.

    Raises:
        BridgeError: `invalid_params`, naming the field.
    """
    states = words(params, "states")
    return PruneRequest(
        keys=words(params, "keys"),
        states=None
        if states is None
        else tuple(word(SessionState, state, "states") for state in states),
        older_than=number(params, "olderThan"),
        keep=count(params, "keep") or 0,
        dry_run=params.get("dryRun") is True,
    )
