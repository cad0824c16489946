"""The params of the daemon's methods, read and written: each field is checked, or named if wrong.

Both ends of the control socket use it; what the values mean is the router's business.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from acpbridge.daemon.choices import read_choices, write_choices
from acpbridge.errors import BridgeError
from acpbridge.model.permission import OnPermission
from acpbridge.model.sessions import SessionState
from acpbridge.router.api import RunRequest
from acpbridge.router.receipts import PruneRequest

if TYPE_CHECKING:  # no `run` is to wait for pydantic
    from acpbridge.router.claiming import Claim


def read_run(params: Mapping[str, Any]) -> RunRequest:
    """Return the request that the params of `run` hold.

    Raises:
        BridgeError: `invalid_params`, naming the field.
    """
    content = params.get("content")
    if not isinstance(content, list) or not content or not all(map(_is_block, content)):
        raise BridgeError("invalid_params", "content must be a list of content blocks.")
    return RunRequest(
        content=tuple(content),
        agent=text(params, "agent", ""),
        session=text(params, "session", ""),
        continue_last=params.get("continue") is True,
        cwd=text(params, "cwd", ""),
        caller_cwd=text(params, "callerCwd", ""),
        env=environment(params),
        one_shot=params.get("mode", "run") != "session",
        on_permission=word(OnPermission, params.get("onPermission", "ask"), "onPermission"),
        timeout=number(params, "timeout"),
        detached=params.get("detach") is True,
        correlation_id=text(params, "correlationId", ""),
        idempotency_key=text(params, "idempotencyKey", ""),
        **read_choices(params),
    )


def read_claim(params: Mapping[str, Any]) -> "Claim":
    """Return what the params of `hello` say of who says it.

    Raises:
        BridgeError: `invalid_params`, naming the field.
    """
    from acpbridge.router.claiming import Claim  # the daemon's side alone

    return Claim(text(params, "token", ""), text(params, "as", ""), text(params, "cwd", ""))


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
        keep=count_of(params, "keep") or 0,
        dry_run=params.get("dryRun") is True,
    )


def write_prune(request: PruneRequest) -> dict[str, Any]:
    """Return the params of `prune` for a request; the inverse of `read_prune`."""
    return {
        "keys": None if request.keys is None else list(request.keys),
        "states": None if request.states is None else list(request.states),
        "olderThan": request.older_than,
        "keep": request.keep,
        "dryRun": request.dry_run,
    }


def write_run(request: RunRequest) -> dict[str, Any]:
    """Return the params of `run` for a request; the inverse of `read_run`."""
    return {
        "content": [dict(block) for block in request.content],
        "agent": request.agent,
        "session": request.session,
        "continue": request.continue_last,
        "cwd": request.cwd,
        "callerCwd": request.caller_cwd,
        "env": dict(request.env),
        "mode": "run" if request.one_shot else "session",
        "onPermission": request.on_permission,
        "timeout": request.timeout,
        "detach": request.detached,
        "correlationId": request.correlation_id,
        "idempotencyKey": request.idempotency_key,
        **write_choices(request),
    }


def _is_block(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("type"), str)


def text(params: Mapping[str, Any], name: str, default: str | None = None) -> str:
    """Return a param that is text; `invalid_params` if it is none, or missing without a default."""
    value = params.get(name, default)
    if not isinstance(value, str):
        raise BridgeError("invalid_params", f"{name} must be a string.")
    return value


def environment(params: Mapping[str, Any]) -> dict[str, str]:
    """Return the caller's environment; `invalid_params` unless it maps names to text."""
    env = params.get("env", {})
    if not isinstance(env, dict) or not all(isinstance(v, str) for v in env.values()):
        raise BridgeError("invalid_params", "env must map names to strings.")
    return env


def moment(params: Mapping[str, Any], name: str) -> str:
    """Return a moment in the shape that it has in events, "" where none is given."""
    given = text(params, name, "")
    if not given:
        return ""
    try:
        when = datetime.fromisoformat(given).astimezone(UTC)
    except (ValueError, OverflowError):
        message = f"{name} must be a moment, as in 2026-01-31T12:00:00Z."
        raise BridgeError("invalid_params", message) from None
    return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def words(params: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    """Return a list of texts, None if it is left out."""
    value = params.get(name)
    if value is None:
        return None
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise BridgeError("invalid_params", f"{name} must be a list of strings.")
    return tuple(value)


def count_of(params: Mapping[str, Any], name: str) -> int | None:
    """Return a number of things, None if it is left out."""
    value = params.get(name)
    if value is not None and (type(value) is not int or value < 0):
        raise BridgeError("invalid_params", f"{name} must be a number, 0 or more.")
    return value


def number(params: Mapping[str, Any], name: str) -> float | None:
    """Return a number of seconds, None if it is left out."""
    value = params.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e9:
        raise BridgeError("invalid_params", f"{name} must be a number of seconds.")
    return float(value)


def word(kind: Any, value: Any, name: str) -> Any:
    """Return the member of an enumeration that a param names; `invalid_params` lists them."""
    try:
        return kind(value)
    except ValueError:
        words = ", ".join(kind)
        raise BridgeError("invalid_params", f"{name} must be one of {words}.") from None
