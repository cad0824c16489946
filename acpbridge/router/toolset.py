"""All session tools by the name of their call: the one list that the control socket serves.

Above are the daemon and whoever else lists tools; below are the requests, a module for each part.
"""

from collections.abc import Mapping
from typing import Final

from acpbridge.router.announce_requests import CompletionsRequest, DeliveriesRequest
from acpbridge.router.look_requests import (
    HistoryRequest,
    RunsRequest,
    SessionRequest,
    SessionsRequest,
    SubagentsRequest,
    TreeRequest,
    YieldRequest,
)
from acpbridge.router.send_requests import SendRequest
from acpbridge.router.spawn_requests import SpawnRequest
from acpbridge.router.toolcall import AgentsRequest, ToolRequest
from acpbridge.router.tooling import ToolsRequest

REQUESTS: Final[Mapping[str, type[ToolRequest]]] = {
    request.METHOD: request
    for request in (
        AgentsRequest,
        SpawnRequest,
        CompletionsRequest,
        DeliveriesRequest,
        SessionsRequest,
        HistoryRequest,
        SessionRequest,
        YieldRequest,
        SubagentsRequest,
        TreeRequest,
        RunsRequest,
        SendRequest,
        ToolsRequest,
    )
}
"""All of them."""
