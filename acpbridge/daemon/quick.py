"""A blocking client on the plain socket, for the commands that must be quick.

Standard library only, and it never starts a daemon. Above are the quick commands of the command
line; the words are those of `wire`, and the errors come back as the daemon raised them.
"""

import _socket
import json
import os
import sys
import time
from types import TracebackType
from typing import Any, Final, Self

from acpbridge import __version__
from acpbridge.daemon import lock
from acpbridge.daemon.paths import Paths, check_private
from acpbridge.daemon.wire import HELLO, HELLO_LIMIT, WIRE_VERSION, check_versions
from acpbridge.errors import BridgeError
from acpbridge.protocol.errors import read_error

# Between two tries while a daemon starts, stops, or has no room in its backlog. Seconds.
LOOK_PAUSE: Final = 0.05

# A call that looks or decides; those that end processes are given more by their caller. Seconds.
CALL_LIMIT: Final = 10.0

_UCRED: Final = 12  # bytes of struct ucred of unix(7): three numbers, the second one is the uid


class Quick:
    """One connection to a daemon that has said hello; made by `connect`."""

    def __init__(self, sock: _socket.socket) -> None:
        self._sock = sock
        self._id = 0
        self._held = bytearray()
        self.pid = 0
        self.stopping = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Hang up."""
        self._sock.close()

    def call(self, method: str, *, limit: float = CALL_LIMIT, **params: Any) -> Any:
        """Call a method of the daemon and return its result.

        Raises:
            BridgeError: what the daemon answered; `daemon_frozen` when it did not answer within
                the limit, `connection_closed` when it is gone.
        """
        self._id += 1
        deadline = time.monotonic() + limit
        request = {"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}
        try:
            self._sock.settimeout(limit)
            self._sock.sendall(json.dumps(request).encode() + b"\n")
            while (answer := json.loads(self._line(deadline))).get("id") != self._id:
                pass
        except (TimeoutError, BlockingIOError):
            raise frozen(f"The daemon did not answer {method!r} in {limit:g} s.") from None
        except (OSError, ValueError):
            raise BridgeError("connection_closed", "The daemon is gone.") from None
        if "error" in answer:
            raise read_error(answer["error"])
        return answer.get("result")

    def _line(self, deadline: float) -> bytes:
        seen = 0
        while (end := self._held.find(b"\n", seen)) < 0:
            seen = len(self._held)
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._sock.settimeout(left)
            chunk = self._sock.recv(1 << 18)
            if not chunk:
                raise ConnectionResetError
            self._held += chunk
        line = bytes(self._held[:end])
        del self._held[: end + 1]
        return line


def frozen(what: str) -> BridgeError:
    """Return the error for a daemon that is there and does not answer."""
    return BridgeError("daemon_frozen", what)


def connect(paths: Paths, *, any_version: bool = False) -> Quick | None:
    """Connect to the daemon of a state directory; None when none runs there.

    Args:
        paths: of the state directory.
        any_version: also to a daemon that speaks otherwise, to stop it.

    Raises:
        BridgeError: `daemon_frozen`, `daemon_unreachable`, `daemon_version`, `not_our_socket`.
    """
    deadline = time.monotonic() + HELLO_LIMIT
    while True:
        sock = _try(paths, deadline)
        client = None if sock is None else _greeted(sock, deadline, any_version=any_version)
        if client is not None or not lock.held(paths.lock):
            return client
        if time.monotonic() >= deadline:
            pid = lock.holder(paths.lock)
            message = f"The daemon (pid {pid or 'unknown'}) cannot be reached on {paths.socket}."
            hint = f"End it: acpbridge daemon stop --force; its log is {paths.log}."
            raise BridgeError("daemon_unreachable", message, hint=hint)
        time.sleep(LOOK_PAUSE)


def _greeted(sock: _socket.socket, deadline: float, *, any_version: bool) -> Quick | None:
    """Return a client that has said hello; None if the daemon ended just then."""
    client = Quick(sock)
    try:
        _greet(client, deadline, any_version=any_version)
    except BridgeError as error:
        sock.close()
        if error.code != "connection_closed":
            raise
        return None
    return client


def _greet(client: Quick, deadline: float, *, any_version: bool) -> None:
    left = max(0.01, deadline - time.monotonic())
    try:
        hello = client.call(HELLO, limit=left, version=__version__, wire=WIRE_VERSION)
    except BridgeError as error:
        if error.code != "daemon_frozen":
            raise
        raise frozen(f"The daemon does not answer ({HELLO_LIMIT:g} s).") from None
    if not any_version:
        check_versions(__version__, str(hello.get("version")), hello.get("wire"))
    client.pid = int(hello.get("pid") or 0)
    client.stopping = hello.get("stopping") is True


def _try(paths: Paths, deadline: float) -> _socket.socket | None:
    """Return a connection, None where nobody listens."""
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        check_private(paths.socket.parent)
        _connect(sock, paths, deadline)
        _check_peer(sock, paths)
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        sock.close()
        return None
    except OSError as error:
        sock.close()
        raise BridgeError("daemon_unreachable", f"{paths.socket}: {error.strerror}.") from None
    except BaseException:
        sock.close()
        raise
    return sock


def _check_peer(sock: _socket.socket, paths: Paths) -> None:
    # `_socket` and no `struct`: the libraries on top of them cost a tenth of the whole command.
    data = sock.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, _UCRED)
    if int.from_bytes(data[4:8], sys.byteorder) != os.getuid():
        raise BridgeError("not_our_socket", f"{paths.socket} is served by another user.")


def _connect(sock: _socket.socket, paths: Paths, deadline: float) -> None:
    """Connect, and wait while the backlog is full: a frozen daemon accepts nobody."""
    sock.settimeout(max(0.01, deadline - time.monotonic()))
    while True:
        try:
            sock.connect(os.fspath(paths.socket))
        except (BlockingIOError, TimeoutError):
            if time.monotonic() >= deadline:
                raise frozen(f"The daemon accepts no connection ({HELLO_LIMIT:g} s).") from None
            time.sleep(LOOK_PAUSE)
        else:
            return
