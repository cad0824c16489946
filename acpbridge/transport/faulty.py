"""A byte stream whose sends pass fault points; where nothing is armed it is the stream itself.

Above are those who own a stream towards an agent or a client. It knows neither.
"""

from typing import Final

from acpbridge.model.faults import Faults, no_faults
from acpbridge.transport.memory import ByteSend

_BEFORE: Final = {"agent": "agent.send", "socket": "socket.send"}
_AFTER: Final = {"agent": "agent.sent", "socket": "socket.sent"}


def faulty(send: ByteSend, faults: Faults, name: str) -> ByteSend:
    """Return the stream with the fault points `NAME.send` and `NAME.sent` around each send."""
    return send if faults is no_faults else _Faulty(send, faults, _BEFORE[name], _AFTER[name])


class _Faulty:
    def __init__(self, send: ByteSend, faults: Faults, before: str, after: str) -> None:
        self._send = send
        self._faults = faults
        self._before = before
        self._after = after

    async def send(self, data: bytes) -> None:
        """Send all of it: in two parts, with the point between, where a short write is armed."""
        part = self._faults(self._before)
        if part is not None:
            await self._send.send(data[:part])
            self._faults(self._after)
            data = data[part:]
        await self._send.send(data)
        self._faults(self._after)

    async def aclose(self) -> None:
        """Close the stream."""
        await self._send.aclose()
