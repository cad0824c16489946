"""The words on the control socket, shared by the server and both clients. Standard library only."""

from typing import Final

from acpbridge.errors import BridgeError

# Raised when a call changes its meaning; a client and a daemon must have the same. `hello` and
# `stop` never change theirs: they are how a newer client gets rid of an older daemon.
# 2: a run carries `fresh`, settings and MCP servers, which an older daemon would pass over.
WIRE_VERSION: Final = 2

# One limit for connect and hello: a frozen daemon accepts and never answers. Seconds.
HELLO_LIMIT: Final = 5.0

# Keys of one kill: each is looked for among all sessions, and the others wait meanwhile.
MOST_KEYS: Final = 1000

HELLO: Final = "hello"
EVENTS: Final = "events"
UNFOLLOW: Final = "unfollow"
ATTEND: Final = "attend"


def check_versions(mine: str, theirs: str, their_wire: object) -> None:
    """Check that both ends speak alike, and that the daemon is not the older one.

    An older daemon is refused also where the wire is the same: an upgrade has replaced the files
    that it has yet to import.

    Raises:
        BridgeError: `daemon_version`, naming both.
    """
    if their_wire != WIRE_VERSION or _numbers(mine) > _numbers(theirs):
        message = (
            f"This is acpbridge {mine} (wire {WIRE_VERSION}); "
            f"the daemon that runs is {theirs} (wire {their_wire})."
        )
        raise BridgeError("daemon_version", message)


def _numbers(version: str) -> list[int]:
    """Return the numbers of a version up to the first part that is none."""
    out: list[int] = []
    for part in version.split("."):
        if not part.isdecimal():
            break
        out.append(int(part))
    return out
