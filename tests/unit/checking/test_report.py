"""What all checks say together."""

import pytest

from acpbridge.checking.report import Check, Status, exit_status, failed
from acpbridge.errors import BridgeError


@pytest.mark.parametrize(
    ("codes", "status"),
    [
        ((), 0),
        (("auth_required",), 7),
        (("auth_required", "agent_not_found"), 6),
        (("auth_required", "agent_not_found", "config_error"), 2),
        (("daemon_frozen",), 8),
        (("daemon_frozen", "auth_required"), 7),
    ],
)
def test_what_must_be_mended_first_gives_the_status(codes: tuple[str, ...], status: int) -> None:
    good = Check("bridge", "home", Status.OK, "fine")
    bad = [failed("agent", code, BridgeError(code, "no")) for code in codes]
    assert exit_status([good, *bad, Check("agent", "x", Status.SKIPPED, "later")]) == status


def test_a_row_has_what_was_found_what_to_do_and_fields_of_its_own() -> None:
    row = failed("agent", "x", BridgeError("auth_required", "no", hint="log in"), {"mode": None})
    shown = row.to_json()
    assert (shown["status"], shown["message"], shown["next"]) == ("failed", "no", "log in")
    assert shown["error"]["code"] == "auth_required"
    assert shown["mode"] is None
    fine = Check("bridge", "home", Status.OK, "fine").to_json()
    assert (fine["next"], fine["error"]) == (None, None)
