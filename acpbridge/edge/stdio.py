"""Standard input and output, claimed for a protocol so that nothing else can write into it.

Descriptor 1 becomes stderr and descriptor 0 the null device, for this process and its children:
`print`, warnings and a library in C end up where text belongs. The streams read and write
descriptors of their own, whatever they are: pipes, sockets, files or a terminal.
"""

import os
import stat
import sys
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.to_thread

from acpbridge.errors import BridgeError
from acpbridge.transport.memory import ByteReceive, ByteSend
from acpbridge.transport.pipes import PipeReader, PipeWriter

READ_SIZE: Final = 65536


@dataclass(frozen=True, slots=True)
class Stdio:
    """What was standard input and output, as streams."""

    receive: ByteReceive
    send: ByteSend


class _File:
    """A descriptor that cannot be waited for, a regular file or a terminal: used from a thread."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    async def receive(self, max_bytes: int = READ_SIZE) -> bytes:
        """Return what comes next."""
        data = await anyio.to_thread.run_sync(os.read, self._fd, max_bytes, abandon_on_cancel=True)
        if not data:
            raise anyio.EndOfStream
        return data

    async def send(self, data: bytes) -> None:
        """Write all of it."""
        rest = memoryview(data)
        while rest:
            rest = rest[await anyio.to_thread.run_sync(os.write, self._fd, rest) :]

    async def aclose(self) -> None:
        """Leave the descriptor to the end of the process: a thread may still be reading it."""


def claim_stdio() -> Stdio:
    """Take standard input and output for a protocol; call it before any foreign code is imported.

    Raises:
        BridgeError: `usage`, when one of the two is closed.
    """
    try:
        inward, waits_in = _own(0, os.O_RDONLY)
        outward, waits_out = _own(1, os.O_WRONLY)
    except OSError:
        raise BridgeError("usage", "Standard input and output must be open.") from None
    if sys.stdout is not None:
        sys.stdout.flush()
    _replace(0, os.O_RDONLY)
    try:
        os.dup2(2, 1)
    except OSError:
        _replace(1, os.O_WRONLY)
    sys.stdout = sys.stderr
    return Stdio(
        PipeReader(inward) if waits_in else _File(inward),
        PipeWriter(outward) if waits_out else _File(outward),
    )


def _own(fd: int, flags: int) -> tuple[int, bool]:
    """Return a descriptor of our own for the same thing, and whether it can be waited for."""
    mode = os.fstat(fd).st_mode
    if stat.S_ISFIFO(mode):
        try:
            # Opened anew, for not to block is a property that everybody shares whose descriptor
            # is a copy: `2>&1` would make writes to stderr fail.
            path = f"/proc/self/fd/{fd}"
            return os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC), True
        except OSError:
            pass
    own = os.dup(fd)
    waits = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
    if waits:
        os.set_blocking(own, False)
    return own, waits


def _replace(fd: int, flags: int) -> None:
    null = os.open(os.devnull, flags)
    os.dup2(null, fd)
    os.close(null)
