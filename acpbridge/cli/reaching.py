"""How a command comes to the daemon by the blocking client: to one that runs, or to a new one.

Quick, but where a daemon has to be started. Above are the commands; below is `daemon.quick`.
"""

from typing import Final

from acpbridge.daemon.paths import Paths
from acpbridge.daemon.quick import Quick, connect
from acpbridge.errors import BridgeError

# A daemon that is set to end as soon as nobody is there may do so between two looks.
STARTS: Final = 5


def no_daemon() -> BridgeError:
    """Return the error for whoever wants something of a live session when no daemon runs."""
    hint = "List what is on record: acpbridge sessions --all."
    return BridgeError("daemon_unreachable", "No daemon runs, so no session is live.", hint=hint)


def connect_or_start(found: Paths) -> Quick:
    """Connect to the daemon, and start it if none runs.

    Raises:
        BridgeError: what kept it from starting, or from being reached.
    """
    for attempt in range(STARTS + 1):
        client = connect(found)
        if client is not None and not client.stopping:
            return client
        if client is not None:
            client.close()
        if attempt < STARTS:
            from acpbridge.cli.starting import start

            start(found)  # after the end of one that is on its way out
    raise BridgeError("daemon_unreachable", "The daemon ended just after its start.")
