"""Two connected ends in memory: the twin of a pipe pair, for tests and embedding."""

from dataclasses import dataclass
from typing import Protocol

import anyio
from anyio.streams.stapled import StapledObjectStream


class ByteReceive(Protocol):
    """What a connection reads from."""

    async def receive(self, max_bytes: int = ...) -> bytes:
        """Return at least one byte; raises anyio.EndOfStream at the end."""
        ...


class ByteSend(Protocol):
    """What a connection writes to."""

    async def send(self, data: bytes, /) -> None:
        """Send all of it; raises anyio.BrokenResourceError when the other end is gone."""
        ...

    async def aclose(self) -> None:
        """Close this direction."""
        ...


@dataclass(slots=True)
class MemoryEnd:
    """One end of a pair; cuts what it reads to the size asked for, like a pipe."""

    _stream: StapledObjectStream[bytes]
    _rest: bytes = b""

    async def receive(self, max_bytes: int = 65536) -> bytes:
        """Return at least one byte; raises anyio.EndOfStream at the end."""
        data = self._rest or await self._stream.receive()
        self._rest = data[max_bytes:]
        return data[:max_bytes]

    async def send(self, data: bytes) -> None:
        """Hand the bytes to the other end; raises anyio.BrokenResourceError when it is gone."""
        try:
            if data:  # to receive nothing would read as the end
                await self._stream.send(data)
        except anyio.ClosedResourceError:
            raise anyio.BrokenResourceError from None

    async def aclose(self) -> None:
        """Close this end for writing: the other one reads to the end."""
        await self._stream.send_stream.aclose()

    async def aclose_both(self) -> None:
        """Close this end altogether: writes of the other one fail from now on."""
        await self._stream.aclose()


def memory_pair(buffered: int = 64) -> tuple[MemoryEnd, MemoryEnd]:
    """Return two connected ends; `buffered` sends fit in between before one waits."""
    here, there = (anyio.create_memory_object_stream[bytes](buffered) for _ in range(2))
    one = StapledObjectStream(here[0], there[1])
    two = StapledObjectStream(there[0], here[1])
    return MemoryEnd(one), MemoryEnd(two)
