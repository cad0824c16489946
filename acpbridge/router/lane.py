"""The lane of Python sub-agents, and the wait for a place in it or for any.

Above is the life of a process; below are the `places`.
"""

from acpbridge.model.agents import RuntimeKind
from acpbridge.model.events import Fact
from acpbridge.model.sessions import SessionRecord
from acpbridge.router.host import Host
from acpbridge.router.places import Holder, Places


def in_lane(record: SessionRecord) -> bool:
    """Tell whether a session's process belongs to the lane: a Python agent that one started."""
    return record.runtime == RuntimeKind.PYTHON and record.lineage.parent is not None


async def take_place(places: Places, holder: Holder, record: SessionRecord, host: Host) -> None:
    """Wait for a place for a session's process; whoever follows is told of a wait."""
    lane = in_lane(record)
    if places.full:
        _say(host, f"running now: {places.taken}, all that limits.maxProcesses allows")
    elif lane and places.lane_full:
        running = len(places.lane)
        limit = "limits.maxConcurrentSubagents"
        _say(host, f"Python sub-agents running now: {running}, all that {limit} allows")
    await places.acquire(holder, lane=lane)


def _say(host: Host, now: str) -> None:
    message = f"waiting for a place; {now}"
    host.emit(Fact("notice", {"kind": "waiting", "message": message}))
