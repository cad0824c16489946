"""Puts together what looks: one handler for each request of `look_requests`.

Above is the router, which calls it once; below are the parts.
"""

from collections.abc import Mapping
from typing import Any

from acpbridge.router.changes import Changes
from acpbridge.router.directory import Directory
from acpbridge.router.history import History
from acpbridge.router.listing import Listing
from acpbridge.router.look_requests import HistoryRequest, SessionRequest, SessionsRequest
from acpbridge.router.looking import Looking
from acpbridge.router.reading import Reading
from acpbridge.router.runs import Runs
from acpbridge.router.services import Services
from acpbridge.router.toolcall import ToolHandler, ToolRequest
from acpbridge.router.workload import Workload


def look_handlers(
    directory: Directory, looking: Looking, runs: Runs, services: Services
) -> Mapping[type[ToolRequest], ToolHandler[Any]]:
    """Return the handlers of the tools that look.

    Args:
        directory: the sessions that there are.
        looking: the one projection of their state.
        runs: those under way.
        services: ledger, log and clock.
    """
    reading = Reading(services)
    workload = Workload(directory, runs, services)
    history = History(directory, services, reading)
    listing = Listing(directory, looking, services, reading, workload)
    changes = Changes(directory, looking, reading)
    return {
        SessionsRequest: listing.sessions,
        HistoryRequest: history.history,
        SessionRequest: changes.status,
    }
