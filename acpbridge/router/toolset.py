"""All session tools by the name of their call: the one list that the control socket serves.

Above are the daemon and whoever else lists tools; below are the requests, a module for each part.
"""

from collections.abc import Mapping
from typing import Final

from acpbridge.router.announce_requests import CompletionsRequest, DeliveriesRequest
from acpbridge.router.inner_requests import InnerRequest, InnerWait
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
from acpbridge.router.team_requests import AskRequest, DelegationsRequest
from acpbridge.router.toolcall import AgentsRequest, ToolRequest
from acpbridge.router.tooling import ToolsRequest

REQUESTS: Final[Mapping[str, type[ToolRequest]]] = {
    request.METHOD: request
    for request in (
        AgentsRequest,
        SpawnRequest,
        SessionsRequest,
        HistoryRequest,
        SessionRequest,
        YieldRequest,
        SubagentsRequest,
        TreeRequest,
        RunsRequest,
        CompletionsRequest,
        DeliveriesRequest,
        SendRequest,
        ToolsRequest,
        AskRequest,
        DelegationsRequest,
        InnerRequest,
        InnerWait,
    )
}
"""All of them."""

WAITING: Final = frozenset(method for method, request in REQUESTS.items() if request.WAITS)
"""The calls that wait for something else to happen."""
