"""The control socket: mode 0600 from the first moment, and who is at its other end.

Above is the daemon. A peer is judged by what the kernel says of it, never by what it says itself.
"""

import errno
import os
import select
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import SocketAttribute, SocketListener, SocketStream, UNIXSocketStream

from acpbridge.errors import BridgeError

# Between two tries while a backlog is full, as that of a frozen daemon is. Seconds.
BACKLOG_PAUSE: Final = 0.05

# Linux 6.5: a descriptor of the very process that connected. include/uapi/asm-generic/socket.h
SO_PEERPIDFD: Final = 77

_UCRED: Final = struct.Struct("3i")  # pid, uid, gid: struct ucred of unix(7)


@dataclass(frozen=True, slots=True)
class PeerCredentials:
    """Who connected, by the kernel's word at the moment of the connect."""

    pid: int
    uid: int


def peer_credentials(stream: SocketStream) -> PeerCredentials:
    """Return the credentials of the other end."""
    raw = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - anyio's, not Django's
    data = raw.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _ = _UCRED.unpack(data)
    return PeerCredentials(pid, uid)


def still_there(stream: SocketStream) -> bool:
    """Tell whether the process that connected is alive, so that its pid is still its own.

    Ask after having judged it by its pid: a number is given to another process only when the one
    before is gone. Where the kernel has no such descriptor the answer is True.
    """
    raw = stream.extra(SocketAttribute.raw_socket)  # noqa: S610 - anyio's, not Django's
    try:
        pidfd = raw.getsockopt(socket.SOL_SOCKET, SO_PEERPIDFD)
    except OSError as error:
        return error.errno == errno.ENOPROTOOPT
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return not poll.poll(0)  # readable once it has exited
    finally:
        os.close(pidfd)


async def listen(path: Path) -> SocketListener:
    """Bind the socket; a stale one is replaced. Only the holder of the daemon's lock may call this.

    Raises:
        BridgeError: `state_directory`, when it cannot be bound.
    """
    before = os.umask(0o177)
    try:
        path.unlink(missing_ok=True)  # noqa: ASYNC240 - once, before anything is served
        return await anyio.create_unix_listener(path, mode=0o600)
    except OSError as error:
        message = f"The socket {path} cannot be bound: {error.strerror or error}."
        hint = f"See what is in its place: ls -ld {path}"
        raise BridgeError("state_directory", message, hint=hint) from None
    finally:
        os.umask(before)


def remove(path: Path) -> None:
    """Remove a socket of ours; what else stands in its place by now is nobody's business here."""
    with suppress(OSError):
        path.unlink(missing_ok=True)


async def connect(path: Path) -> SocketStream:
    """Connect to the socket; waits while whoever listens has no room for another one.

    Raises:
        BridgeError: `not_our_socket`, when somebody else owns the other end.
        OSError: when nobody listens.
    """
    # Not anyio's own: where the backlog is full the kernel says EAGAIN, which asyncio takes for a
    # connect under way and then for a connection.
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(0)
        while True:
            try:
                sock.connect(os.fspath(path))
                break
            except BlockingIOError:
                await anyio.sleep(BACKLOG_PAUSE)
        stream = await UNIXSocketStream.from_socket(sock)
    except BaseException:
        sock.close()
        raise
    if peer_credentials(stream).uid != os.getuid():
        await stream.aclose()
        raise BridgeError("not_our_socket", f"{path} is served by another user.")
    return stream
