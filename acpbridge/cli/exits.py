"""The exit status of `run`, from how its turn ended. Pure."""

from collections.abc import Mapping
from typing import Any

from acpbridge.errors import (
    EXIT_DENIED,
    EXIT_FAILURE,
    EXIT_INTERRUPTED,
    EXIT_OK,
    BridgeError,
)


def exit_code(last: Mapping[str, Any], *, denied: bool, interrupted: bool) -> int:
    """Return the exit status for the last event of a run.

    Args:
        last: the `turn_ended` or `turn_failed` event.
        denied: whether a permission was denied in the turn.
        interrupted: whether the person at this very command cancelled it.
    """
    if interrupted:
        return EXIT_INTERRUPTED
    if last.get("type") == "turn_failed":
        code = error_of(last).kind.exit
        return EXIT_DENIED if denied and code == EXIT_FAILURE else code
    if last.get("stopReason") == "end_turn":
        return EXIT_OK
    if denied:
        return EXIT_DENIED
    return EXIT_INTERRUPTED if last.get("stopReason") == "cancelled" else EXIT_FAILURE


def error_of(event: Mapping[str, Any]) -> BridgeError:
    """Return the error that a `turn_failed` event carries."""
    error = event.get("error")
    return BridgeError.from_json(error if isinstance(error, Mapping) else {})
