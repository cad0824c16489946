"""Standard output and the terminal's lines for an event loop: neither blocks it.

A reader that does not read, or a person who does not type, must not keep a Ctrl-C or an event from
being heard. Nothing here may be made non-blocking: that is a property that others share.
"""

import errno
import os
import select
import sys
import termios

import anyio

# What poll(2) promises to take at once: PIPE_BUF of pipe(7).
PIECE = select.PIPE_BUF

LINE_LIMIT = 65536


class Writer:
    """Writes to a descriptor, a piece at a time, whenever it can take one."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._poll = select.poll()
        self._poll.register(fd, select.POLLOUT)

    async def write(self, data: bytes) -> None:
        """Write all of it.

        Raises:
            BrokenPipeError: when nobody reads any more.
        """
        rest = memoryview(data)
        while rest:
            rest = rest[await self.write_some(rest) :]

    async def write_some(self, data: memoryview | bytes) -> int:
        """Write a piece of it as soon as one can be taken; return how much that was.

        Raises:
            BrokenPipeError: when nobody reads any more.
        """
        while True:
            if not self._poll.poll(0):
                await anyio.wait_writable(self._fd)
                continue
            try:
                return os.write(self._fd, data[:PIECE])
            except BlockingIOError:
                await anyio.wait_writable(self._fd)
            except OSError as error:
                if error.errno == errno.EIO:  # a terminal that was closed
                    raise BrokenPipeError from None
                raise


def forget_typed() -> None:
    """Drop what was typed before a question was there to be seen."""
    try:
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
    except termios.error:
        return


async def read_line() -> str | None:
    """Return the next line that is typed; None at its end (Ctrl-D, or the terminal is gone)."""
    fd = sys.stdin.fileno()
    held = b""
    while not held.endswith(b"\n") and len(held) < LINE_LIMIT:
        await anyio.wait_readable(fd)
        try:
            piece = os.read(fd, LINE_LIMIT)
        except OSError:
            return None
        if not piece:
            return None
        held += piece
    return held.decode("utf-8", "replace")
