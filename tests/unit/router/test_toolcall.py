"""A session tool is asked by one class and answered by one handler, wherever its caller is."""

from pathlib import Path

import pytest

from acpbridge.errors import BridgeError
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
