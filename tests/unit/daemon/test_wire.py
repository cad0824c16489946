"""Which daemon a client goes on with."""

import pytest

from acpbridge.daemon.wire import WIRE_VERSION, check_versions
from acpbridge.errors import BridgeError


@pytest.mark.parametrize(
    ("mine", "theirs"), [("0.1.0", "0.1.0"), ("0.1.0", "0.10.0"), ("1.2", "1.2.0"), ("1.0b", "1.0")]
)
def test_the_same_and_a_newer_daemon_will_do_if_it_speaks_alike(mine: str, theirs: str) -> None:
    check_versions(mine, theirs, WIRE_VERSION)
    with pytest.raises(BridgeError):
        check_versions(mine, theirs, WIRE_VERSION + 1)


@pytest.mark.parametrize(
    ("mine", "theirs", "wire"),
    [
        ("0.2.0", "0.1.9", WIRE_VERSION),
        ("0.10.0", "0.9.0", WIRE_VERSION),
        ("1.0", "", WIRE_VERSION),
        ("1.0", "1.0b", WIRE_VERSION),
        ("1.0", "1.0", WIRE_VERSION + 1),
        ("1.0", "2.0", None),
    ],
)
def test_an_older_one_and_one_that_speaks_otherwise_must_be_restarted(
    mine: str, theirs: str, wire: object
) -> None:
    with pytest.raises(BridgeError) as caught:
        check_versions(mine, theirs, wire)
    assert caught.value.code == "daemon_version"
    assert mine in caught.value.message
    assert "acpbridge daemon restart" in caught.value.hint
