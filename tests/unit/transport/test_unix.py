"""Who is at the other end of the control socket: the very process that connected, or nobody."""

import errno
import os
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from acpbridge.errors import BridgeError
from acpbridge.transport import unix

HANG = 10

# Connects, hands its end of the connection to its child, and goes as soon as it is told to.
CLIENT = """
import os, select, socket, sys
peer = socket.socket(socket.AF_UNIX)
peer.connect(sys.argv[1])
if os.fork() == 0:
    end = select.poll()
    end.register(0, 0)  # for the end of the input alone: the line is its parent's to read
    end.poll()  # until then the child keeps the connection
    os._exit(0)
sys.stdin.readline()
"""


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[tuple[SocketStream, anyio.abc.Process]]:
    with anyio.fail_after(HANG):
        async with (
            await unix.listen(path) as listener,
            await anyio.open_process([sys.executable, "-c", CLIENT, str(path)]) as client,
            await listener.accept() as stream,
        ):
            yield stream, client
            assert client.stdin
            await client.stdin.aclose()


async def test_g6_a_peer_that_has_gone_is_no_longer_the_one_with_its_pid(tmp_path: Path) -> None:
    """Without the look at the pidfd: a peer whose number is free passes for whoever gets it."""
    async with connected(tmp_path / "socket") as (stream, client):
        assert unix.peer_credentials(stream) == unix.PeerCredentials(client.pid, os.getuid())
        assert unix.still_there(stream)
        assert client.stdin
        await client.stdin.send(b"go\n")
        await client.wait()
        raw = stream.extra(SocketAttribute.raw_socket)
        if lacks_peerpidfd(raw):
            pytest.skip("this kernel has no SO_PEERPIDFD")
        assert not unix.still_there(stream)


def lacks_peerpidfd(sock: socket.socket) -> bool:
    try:
        os.close(sock.getsockopt(socket.SOL_SOCKET, unix.SO_PEERPIDFD))
    except OSError as error:
        return error.errno == errno.ENOPROTOOPT
    return False


async def test_g24_no_descriptor_of_a_peer_is_left_open(tmp_path: Path) -> None:
    async with connected(tmp_path / "socket") as (stream, _):
        before = set(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names only
        for _ in range(5):
            assert unix.still_there(stream)
        assert set(os.listdir("/proc/self/fd")) == before  # noqa: PTH208


async def test_an_older_kernel_is_taken_at_the_word_of_its_credentials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unix, "SO_PEERPIDFD", 9999)  # an option that no kernel has
    async with connected(tmp_path / "socket") as (stream, _):
        assert unix.still_there(stream)


async def test_a_socket_that_cannot_be_bound_is_told_with_its_place(tmp_path: Path) -> None:
    path = tmp_path / "daemon.sock"
    path.mkdir()
    before = os.umask(0o077)
    os.umask(before)
    with pytest.raises(BridgeError) as caught:
        await unix.listen(path)
    assert (caught.value.code, str(path) in caught.value.message) == ("state_directory", True)
    assert str(path) in caught.value.hint
    assert os.umask(before) == before
    unix.remove(path)
    assert path.is_dir()
