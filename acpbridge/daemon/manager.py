"""Tells a service manager how the daemon is, in the words of sd_notify(3).

The daemon that nobody manages has the same object, which then tells nobody. Nothing that it starts
inherits the manager's address: an agent could say that a daemon is well which is not.
"""

import socket
from collections.abc import MutableMapping
from contextlib import suppress
from typing import Final

import anyio

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
WELL: Final = "WATCHDOG=1"

# How often in the manager's patience we say that we are well.
BEATS: Final = 3


class Manager:
    """Whoever started the daemon as a service, if anybody did.

    Args:
        address: of its socket, which may be abstract (`@name`); "" for nobody.
        patience: how long it waits for a sign of life, in seconds; None: it does not.
    """

    def __init__(self, address: str = "", patience: float | None = None) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._patience = patience

    @classmethod
    def taken_from(cls, environ: MutableMapping[str, str], pid: int) -> "Manager":
        """Take a manager out of the environment, where no child will find it then.

        Args:
            environ: of the process.
            pid: of the process; a watchdog that waits for another one is not ours.
        """
        address = environ.pop("NOTIFY_SOCKET", "")
        patience = environ.pop("WATCHDOG_USEC", "")
        for_us = environ.pop("WATCHDOG_PID", str(pid)) == str(pid)
        waits = for_us and patience.isdecimal() and int(patience) > 0
        return cls(address, int(patience) / 1e6 if waits else None)

    def tell(self, word: str) -> None:
        """Tell the manager one thing; it is not our trouble when it does not listen."""
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.settimeout(0)
            out.sendto(word.encode(), self._address)

    async def keep_telling(self) -> None:
        """Say that the event loop turns, until cancelled, if anybody waits for that."""
        if not self._address or self._patience is None:
            return
        while True:
            self.tell(WELL)
            await anyio.sleep(self._patience / BEATS)
