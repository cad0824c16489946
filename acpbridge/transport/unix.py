"""The control socket: mode 0600 from the first moment, and who is at its other end.

Above is the daemon. A peer is judged by what the kernel says of it, never by what it says itself.
"""

import os
import socket
import stat
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import anyio
from anyio.abc import SocketAttribute, SocketListener, SocketStream

from acpbridge.errors import BridgeError

_UCRED: Final = struct.Struct("3i")  # pid, uid, gid: struct ucred of unix(7)

# sizeof(sun_path) of unix(7), less the NUL.
MAX_PATH: Final = 107


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


def check_private(directory: Path) -> None:
    """Check that a directory is ours alone.

    Raises:
        BridgeError: `not_our_socket`, when it is a link, another user's, or open to others.
    """
    found = directory.lstat()
    if not stat.S_ISDIR(found.st_mode):
        raise BridgeError("not_our_socket", f"{directory} is not a directory.")
    if found.st_uid != os.getuid():
        raise BridgeError("not_our_socket", f"{directory} belongs to another user.")
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise BridgeError(
            "not_our_socket",
            f"{directory} is open to other users.",
            hint=f"Close it: chmod 700 {directory}",
        )


async def listen(path: Path) -> SocketListener:
    """Bind the socket; a stale one is replaced. Only the holder of the daemon's lock may call this.

    Raises:
        BridgeError: `not_our_socket`, when its directory is not ours alone.
        OSError: when it cannot be bound.
    """
    check_private(path.parent)
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
