"""What an agent is told that we serve."""

from typing import Any

import pytest

from acpbridge.model.agents import AgentDefinition
from acpbridge.model.keys import AgentId
from acpbridge.runtimes.advertised import served

OFF = {"readTextFile": False, "writeTextFile": False}


@pytest.mark.parametrize(
    ("on", "told"),
    [
        ({}, {"fs": OFF}),
        ({"client_fs_read": True}, {"fs": {**OFF, "readTextFile": True}}),
        ({"client_fs_write": True}, {"fs": {**OFF, "writeTextFile": True}}),
        ({"client_terminal": True}, {"fs": OFF, "terminal": True}),
    ],
)
def test_row_39_exactly_what_is_switched_on_is_advertised(
    on: dict[str, Any], told: dict[str, Any]
) -> None:
    assert served(AgentDefinition(AgentId("fake"), **on)) == told
