"""A person is warned of a mode that asks nobody, by what the daemon says of the session."""

from typing import Any

import pytest

from acpbridge.cli.mode import at_work, warning_of

ROWS: list[tuple[dict[str, Any], str]] = [
    ({"mode": "default", "asks": True, "bypass": False, "runtime": "acp"}, ""),
    (
        {"mode": "yolo", "asks": False, "bypass": True, "runtime": "acp"},
        "mode yolo: nobody is asked before the agent acts",
    ),
    (
        {"mode": "auto\x1b", "asks": False, "bypass": False, "runtime": "acp"},
        "mode auto⟨U+001B⟩ is not the one in which this agent asks: it may act without asking",
    ),
    (
        {"mode": None, "asks": None, "bypass": False, "runtime": "acp"},
        "whether this agent asks is unknown: it may act without asking",
    ),
    (
        {"mode": "odd", "asks": None, "bypass": False, "runtime": "acp"},
        "whether mode odd asks is unknown: it may act without asking",
    ),
    # Agents in Python have no modes: what they ask is in their code.
    ({"mode": None, "asks": None, "bypass": False, "runtime": "python"}, ""),
]


@pytest.mark.parametrize(("row", "words"), ROWS)
def test_the_row_tells_what_to_warn_of(row: dict[str, Any], words: str) -> None:
    assert warning_of(row) == words


def test_only_work_on_the_prompt_shows_that_the_mode_was_set() -> None:
    def update(kind: str) -> dict[str, Any]:
        return {"type": "update", "update": {"sessionUpdate": kind}}

    assert at_work(update("agent_message_chunk"))
    assert at_work({"type": "permission_asked"})
    for event in (
        update("available_commands_update"),
        {"type": "turn_started"},
        {"type": "update"},
    ):
        assert not at_work(event)
