"""The control socket: mode 0600 from the first moment, and who is at its other end.

Above is the daemon. A peer is judged by what the kernel says of it, never by what it says itself.
"""

import os
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import SocketAttribute, SocketListener, SocketStream

from acpbridge.errors import BridgeError

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


async def listen(path: Path) -> SocketListener:
    """Bind the socket; a stale one is replaced. Only the holder of the daemon's lock may call this.

    Raises:
        OSError: when it cannot be bound.
    """
    path.unlink(missing_ok=True)  # noqa: ASYNC240 - once, before anything is served
    before = os.umask(0o177)
    try:
        return await anyio.create_unix_listener(path, mode=0o600)
    finally:
        os.umask(before)


async def connect(path: Path) -> SocketStream:
    """Connect to the socket.

    Raises:
        BridgeError: `not_our_socket`, when somebody else owns the other end.
        OSError: when nobody listens.
    """
    stream = await anyio.connect_unix(path)
    if peer_credentials(stream).uid != os.getuid():
        await stream.aclose()
        raise BridgeError("not_our_socket", f"{path} is served by another user.")
    return stream
