"""What is remembered of a cancelled turn, and that it is not without end."""

from typing import Any

import pytest

from acpbridge.protocol.acp import LONGEST_ID
from acpbridge.runtimes.aftermath import REMEMBERED, Aftermath


def update(call: str) -> dict[str, Any]:
    return {"update": {"sessionUpdate": "tool_call_update", "toolCallId": call}}


@pytest.mark.parametrize("late", [True, False])
async def test_an_agent_that_names_tool_calls_without_end_fills_no_memory(late: bool) -> None:
    """Without `_remember` the ids that come when no turn runs are all kept."""
    after = Aftermath()
    if late:
        after.end_turn(cancelled=True)
    for number in range(3 * REMEMBERED):
        assert after.is_late(update(f"call-{number}")) is late
    after.end_turn(cancelled=True)
    assert len(after._past) == REMEMBERED
    assert len(after._calls) <= REMEMBERED
    after.begin_turn()
    assert after.is_late(update(f"call-{3 * REMEMBERED - 1}"))
    assert not after.is_late(update("call-0"))


async def test_an_id_that_is_no_name_is_not_kept() -> None:
    after = Aftermath()
    after.end_turn(cancelled=True)
    assert after.is_late(update("x" * (LONGEST_ID + 1)))
    assert not after._past
