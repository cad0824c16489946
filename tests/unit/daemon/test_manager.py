"""What a service manager is told, over a real datagram socket."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from acpbridge.daemon.manager import READY, WELL, Manager


@pytest.fixture
def listening(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(str(tmp_path / "notify"))
        bound.settimeout(10)
        yield bound


def test_a_manager_is_taken_out_of_the_environment(listening: socket.socket) -> None:
    environ = {
        "NOTIFY_SOCKET": listening.getsockname(),
        "WATCHDOG_USEC": "30000000",
        "WATCHDOG_PID": str(os.getpid()),
        "PATH": "/bin",
    }
    Manager.taken_from(environ, os.getpid()).tell(READY)
    assert environ == {"PATH": "/bin"}
    assert listening.recv(100) == b"READY=1"


def test_an_abstract_address_is_understood() -> None:
    name = f"acpbridge-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bound:
        bound.bind(f"\0{name}")
        bound.settimeout(10)
        Manager(f"@{name}").tell(READY)
        assert bound.recv(100) == b"READY=1"


async def test_signs_of_life_come_again_and_again(listening: socket.socket) -> None:
    manager = Manager(listening.getsockname(), patience=0.03)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(manager.keep_telling)
        for _ in range(3):
            await anyio.wait_readable(listening)
            assert listening.recv(100) == WELL.encode()
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"WATCHDOG_USEC": "1000"},
        {"NOTIFY_SOCKET": "/nowhere"},
        {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "0"},
        {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "soon"},
        {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"},
    ],
)
async def test_nobody_who_waits_is_told_nothing(environ: dict[str, str]) -> None:
    given = dict(environ)
    manager = Manager.taken_from(given, os.getpid())
    manager.tell(READY)
    with anyio.move_on_after(30) as patience:
        await manager.keep_telling()
    assert not patience.cancelled_caught, "it goes on telling"
    assert given == {}


def test_a_manager_that_does_not_read_holds_nobody_up(listening: socket.socket) -> None:
    manager = Manager(listening.getsockname())
    for _ in range(5000):  # far more than a socket's queue holds
        manager.tell(WELL)
    assert listening.recv(100) == WELL.encode()
