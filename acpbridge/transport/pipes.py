"""One process's ends of pipes to a child, as byte streams that need neither thread nor transport.

Above are the child's owners, who read lines and write messages; below is only the descriptor.
A stream knows nothing of processes: whose pipe it is, and when to close it, is decided above.
"""

import os

import anyio
import anyio.abc
from anyio.lowlevel import cancel_shielded_checkpoint, checkpoint_if_cancelled

# One read takes all that a pipe of the default size holds (64 KiB), and more from a larger one.
READ_SIZE = 262144


class _End:
    """A non-blocking descriptor that is closed once, waking whoever waits on it."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._busy = False

    def close(self) -> None:
        """Close at once; who waits on it gets `anyio.ClosedResourceError`."""
        if self._fd >= 0:
            anyio.notify_closing(self._fd)
            os.close(self._fd)
            self._fd = -1

    def enter(self) -> None:
        if self._fd < 0:
            raise anyio.ClosedResourceError
        if self._busy:
            raise anyio.BusyResourceError("using")
        self._busy = True

    def leave(self) -> None:
        self._busy = False

    @property
    def fd(self) -> int:
        if self._fd < 0:
            raise anyio.ClosedResourceError
        return self._fd


class PipeReader(anyio.abc.ByteReceiveStream):
    """The end of a pipe that a child writes to. Owns the descriptor, which must not block."""

    def __init__(self, fd: int) -> None:
        self._end = _End(fd)

    async def receive(self, max_bytes: int = READ_SIZE) -> bytes:
        """Return what is there, waiting for the first byte.

        Raises:
            anyio.EndOfStream: all writers are gone and everything has been read.
        """
        await checkpoint_if_cancelled()
        self._end.enter()
        try:
            data = await self._read(max_bytes)
        finally:
            self._end.leave()
        if not data:
            raise anyio.EndOfStream
        return data

    async def _read(self, max_bytes: int) -> bytes:
        try:
            data = os.read(self._end.fd, max_bytes)
        except BlockingIOError:
            pass
        else:
            # A writer that floods must not keep the loop for itself; and no cancellation may
            # lose what has been read.
            await cancel_shielded_checkpoint()
            return data
        while True:
            await anyio.wait_readable(self._end.fd)
            try:
                return os.read(self._end.fd, max_bytes)
            except BlockingIOError:
                continue  # woken for nothing: another end of this pipe was quicker

    def close(self) -> None:
        """Close without a wait, for clean-up."""
        self._end.close()

    async def aclose(self) -> None:
        """Close; a child that writes on gets EPIPE."""
        self._end.close()


class PipeWriter(anyio.abc.ByteSendStream):
    """The end of a pipe that a child reads from. Owns the descriptor, which must not block."""

    def __init__(self, fd: int) -> None:
        self._end = _End(fd)

    async def send(self, item: bytes) -> None:
        """Write all of it, waiting while the pipe is full; a cancelled send may leave a part.

        Raises:
            anyio.BrokenResourceError: nobody reads from this pipe any more.
        """
        await checkpoint_if_cancelled()
        self._end.enter()
        try:
            await self._write(item)
        finally:
            self._end.leave()

    async def _write(self, item: bytes) -> None:
        rest = memoryview(item)
        while rest:
            try:
                rest = rest[os.write(self._end.fd, rest) :]
            except BlockingIOError:
                await anyio.wait_writable(self._end.fd)
            except BrokenPipeError as error:
                raise anyio.BrokenResourceError from error

    def close(self) -> None:
        """Close without a wait, for clean-up."""
        self._end.close()

    async def aclose(self) -> None:
        """Close; a child that reads gets the end of its input."""
        self._end.close()
