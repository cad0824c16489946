"""Params of calls: what is not of their type is named, and nothing is guessed."""

from typing import Any

import pytest

from acpbridge.daemon import params
from acpbridge.errors import BridgeError
from acpbridge.model.sessions import SessionState
from acpbridge.router.receipts import PruneRequest


def test_a_prune_is_read_as_it_was_meant() -> None:
    assert params.read_prune({}) == PruneRequest()
    given = {"keys": ["a"], "states": ["closed"], "olderThan": 1.5, "keep": 2, "dryRun": True}
    assert params.read_prune(given) == PruneRequest(("a",), (SessionState.CLOSED,), 1.5, 2, True)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("keys", "a"),
        ("keys", [1]),
        ("states", ["sleeping"]),
        ("olderThan", -1),
        ("olderThan", True),
        ("keep", 1.0),
        ("keep", -1),
        ("keep", True),
    ],
)
def test_a_wrong_one_deletes_nothing_and_is_named(name: str, value: Any) -> None:
    with pytest.raises(BridgeError, match=name) as caught:
        params.read_prune({name: value})
    assert caught.value.code == "invalid_params"


def test_a_moment_is_told_as_events_tell_it() -> None:
    assert params.moment({}, "since") == ""
    given = {"since": "2026-01-31T12:00:00.5+02:00"}
    assert params.moment(given, "since") == "2026-01-31T10:00:00.500Z"
    for wrong in ("now", "0001-01-01T00:00:00+14:00", "12"):
        with pytest.raises(BridgeError, match="since"):
            params.moment({"since": wrong}, "since")
