"""What a turn has started and left running in a session that lives on. Above: status, cancel.

An agent may keep a shell command when its turn ends, or is cancelled: it works on, unseen.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Final

import anyio

from acpbridge.controller.census import ProcessInfo
from acpbridge.model.sessions import SessionState
from acpbridge.router.session import Session

# Who is dead and not yet reaped works no more.
_DEAD: Final = frozenset({"zombie", "dead"})

# An agent that ends its command when it is cancelled may answer first. Seconds, and between looks.
MOMENT: Final = 0.5
LOOK: Final = 0.05


def is_between_turns(session: Session) -> bool:
    """Tell whether it has a process and no turn under way."""
    return session.record.state is SessionState.READY


def started_by_turns(session: Session, tree: Sequence[ProcessInfo]) -> list[ProcessInfo]:
    """Return who of a tree was started since the first prompt, and lives."""
    since = session.prompted_ticks
    if since is None:
        return []
    return [p for p in tree if p.start_ticks > since and p.state not in _DEAD]


async def left_running(
    session: Session, look: Callable[[str], Awaitable[list[ProcessInfo]]]
) -> tuple[int, ...]:
    """Return the pids of what still runs of a turn that has just ended, after a moment.

    Args:
        session: whose turn it was.
        look: returns the whole tree of a session, now.
    """
    left: list[ProcessInfo] = []
    for _ in range(round(MOMENT / LOOK)):
        if not is_between_turns(session):
            return ()  # its process goes, and all with it; or the next turn runs
        left = started_by_turns(session, await look(str(session.key)))
        if not left:
            return ()
        await anyio.sleep(LOOK)
    return tuple(process.pid for process in left) if is_between_turns(session) else ()
