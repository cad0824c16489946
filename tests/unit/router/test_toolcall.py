"""A session tool is asked by one class and answered by one handler, wherever its caller is."""

from pathlib import Path

import pytest

from acpbridge.errors import BridgeError
from acpbridge.router.spawn_requests import SpawnRequest
from acpbridge.router.toolcall import AgentsRequest
from acpbridge.router.toolset import REQUESTS
from tests.unit.router.world import OPERATOR, world


def test_a_request_is_read_as_it_was_written() -> None:
    for request in REQUESTS.values():
        assert request.METHOD.startswith("tool/")
    assert AgentsRequest.read(AgentsRequest().write()) == AgentsRequest()


def test_a_param_that_no_tool_has_is_named() -> None:
    with pytest.raises(BridgeError, match="surprise") as caught:
        AgentsRequest.read({"surprise": 1})
    assert caught.value.code == "invalid_params"


async def test_every_tool_has_a_handler(tmp_path: Path) -> None:
    async with world(tmp_path) as w:
        listed = await w.router.tool(AgentsRequest(), OPERATOR)
        assert [row["id"] for row in listed["agents"]] == ["fake"]
        assert set(w.router.tools()) == set(REQUESTS.values())


def test_a_param_by_another_name_is_told_the_right_one() -> None:
    """Contract 1.3: camelCase only, and one that means something else is named."""
    for wrong, right in (("task_name", "taskName"), ("agent", "agentId"), ("Label", "label")):
        with pytest.raises(BridgeError, match=f"{wrong} is not .*did you mean {right}\\?"):
            SpawnRequest.read({"task": "x", wrong: "y"})
    with pytest.raises(BridgeError) as caught:
        SpawnRequest.read({"task": "x", "zzz": 1})
    assert "taskName" in caught.value.message
    assert "env" not in caught.value.message.replace("envelope", "").split(" are ")[1].split(", ")
