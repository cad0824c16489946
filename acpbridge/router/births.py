"""A session's log tells which sessions were started below it.

Above is `accepting`, which makes them; below is the log. The parent's log is the parent's history,
so that it says what the session did, whoever looks and whenever.
"""

from functools import partial

from acpbridge.model.events import Fact
from acpbridge.router.directory import Directory
from acpbridge.router.services import Services
from acpbridge.router.session import Session

CHILD_SPAWNED = "child_spawned"


def tell_parent(directory: Directory, services: Services, child: Session) -> None:
    """Put a new session into the log of the one that it lies below, if it lies below any.

    A log that is not open, as of a session whose agent the bridge does not run, is opened for it
    beside whoever started the child: nobody waits for that.
    """
    above = child.record.lineage.parent
    parent = None if above is None else directory.get(above)
    if parent is None:
        return
    values = {"childSessionKey": str(child.key), "agentId": child.key.agent}
    turn = None if parent.turn is None else parent.turn.run_id
    tell = partial(services.log.append, parent.key, turn, Fact(CHILD_SPAWNED, values))
    if services.log.knows(parent.key):
        tell()
        return

    async def open_and_tell() -> None:
        await parent.open_log()
        tell()

    services.scribe.put(open_and_tell)
