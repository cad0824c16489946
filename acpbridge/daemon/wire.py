"""The words on the control socket, shared by the server and both clients. Standard library only."""

from typing import Final

from acpbridge.errors import BridgeError

# Raised when a call changes its meaning; a client and a daemon must have the same.
WIRE_VERSION: Final = 1

# One limit for connect and hello: a frozen daemon accepts and never answers. Seconds.
HELLO_LIMIT: Final = 5.0

HELLO: Final = "hello"
EVENTS: Final = "events"
UNFOLLOW: Final = "unfollow"
ATTEND: Final = "attend"


def check_versions(mine: str, theirs: str, their_wire: object) -> None:
    """Check that both ends speak alike.

    Raises:
        BridgeError: `daemon_version`, naming both.
    """
    if their_wire != WIRE_VERSION:
        message = f"This is acpbridge {mine}; the daemon that runs is {theirs}."
        raise BridgeError("daemon_version", message)
