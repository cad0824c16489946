"""Puts together what looks: one handler for each request of `look_requests`.

Above is the router, which calls it once; below are the parts.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from acpbridge.errors import BridgeError
from acpbridge.model.requesters import Requester
from acpbridge.router.awaiting import Awaiting
from acpbridge.router.changes import Changes
from acpbridge.router.directory import Directory
from acpbridge.router.families import Families
from acpbridge.router.history import History
from acpbridge.router.listing import Listing
from acpbridge.router.look_requests import (
    HistoryRequest,
    RunsRequest,
    SessionRequest,
    SessionsRequest,
    SubagentsRequest,
    TreeRequest,
    YieldRequest,
)
from acpbridge.router.looking import Looking
from acpbridge.router.questions import Questions
from acpbridge.router.reading import Reading
from acpbridge.router.runs import Runs
from acpbridge.router.services import Services
from acpbridge.router.subagents import Kill, Subagents
from acpbridge.router.surroundings import Inspector, Surroundings
from acpbridge.router.toolcall import ToolHandler, ToolRequest
from acpbridge.router.toolset import REQUESTS
from acpbridge.router.workload import Workload
from acpbridge.router.yielding import Yielding


@dataclass(frozen=True, slots=True)
class Parts:
    """What the tools that look stand on, all of it the router's.

    Attributes:
        directory: the sessions that there are.
        looking: the one projection of their state.
        runs: those under way.
        questions: tells that one was asked.
        services: ledger, log and clock.
        inspector: what really runs.
        around: configuration and state directory.
        kill: ends sessions with all below them.
        tools: serve all calls; who has which tool was looked at before one of them is called.
    """

    directory: Directory
    looking: Looking
    runs: Runs
    questions: Questions
    services: Services
    inspector: Inspector
    around: Surroundings
    kill: Kill
    tools: Mapping[type[ToolRequest], ToolHandler[Any]]


def look_handlers(parts: Parts) -> Mapping[type[ToolRequest], ToolHandler[Any]]:
    """Return the handlers of the tools that look."""
    directory, services = parts.directory, parts.services
    reading = Reading(services)
    workload = Workload(directory, parts.runs, services)
    history = History(directory, services, reading)
    listing = Listing(directory, parts.looking, services, reading, workload, parts.around.config)
    changes = Changes(directory, parts.looking, reading)
    families = Families(directory, parts.looking, services, workload)

    async def dispatch(
        method: str, params: Mapping[str, Any], requester: Requester
    ) -> dict[str, Any]:
        kind = REQUESTS.get(method)
        if kind is None or kind not in parts.tools:
            raise BridgeError("method_not_found", f"There is no {method} here.")
        return await parts.tools[kind](kind.read(params), requester)

    subagents = Subagents(
        directory=directory,
        services=services,
        inspector=parts.inspector,
        home=parts.around.daemon.home,
        workload=workload,
        history=history,
        awaiting=Awaiting(directory, services, parts.questions, workload),
        kill=parts.kill,
        dispatch=dispatch,
    )
    return {
        SessionsRequest: listing.sessions,
        HistoryRequest: history.history,
        SessionRequest: changes.status,
        YieldRequest: Yielding(directory, workload, dispatch).pause,
        SubagentsRequest: subagents.serve,
        TreeRequest: families.tree,
        RunsRequest: families.runs,
    }
