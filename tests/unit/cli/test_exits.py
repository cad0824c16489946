"""The exit status of a run says how its turn ended."""

from typing import Any

import pytest

from acpbridge.cli.exits import exit_code
from acpbridge.errors import TABLE


def ended(reason: Any) -> dict[str, Any]:
    return {"type": "turn_ended", "stopReason": reason}


def failed(code: str) -> dict[str, Any]:
    return {"type": "turn_failed", "error": {"code": code, "message": "m", "data": {}}}


@pytest.mark.parametrize(
    ("reason", "plain", "denied"),
    [
        ("end_turn", 0, 0),
        ("refusal", 1, 5),
        ("max_tokens", 1, 5),
        ("max_turn_requests", 1, 5),
        ("something_new", 1, 5),
        (None, 1, 5),
        ("cancelled", 130, 5),
    ],
)
def test_a_stop_reason_has_a_status(reason: Any, plain: int, denied: int) -> None:
    assert exit_code(ended(reason), denied=False, interrupted=False) == plain
    assert exit_code(ended(reason), denied=True, interrupted=False) == denied
    assert exit_code(ended(reason), denied=True, interrupted=True) == 130


@pytest.mark.parametrize("code", sorted(TABLE))
def test_a_failure_has_the_status_of_its_error(code: str) -> None:
    expected = TABLE[code].exit
    assert exit_code(failed(code), denied=False, interrupted=False) == expected
    denied = exit_code(failed(code), denied=True, interrupted=False)
    assert denied == (5 if expected == 1 else expected)
    assert exit_code(failed(code), denied=False, interrupted=True) == 130


def test_a_failure_that_says_nothing_is_a_failure() -> None:
    assert exit_code({"type": "turn_failed"}, denied=False, interrupted=False) == 1
