"""Signals that reach who is meant and nobody else, and the kill loop."""

import os
import signal
from collections.abc import Iterator

import pytest

from acpbridge.transport.helpers import killing
from acpbridge.transport.helpers.kernel import Process
from acpbridge.transport.helpers.killing import KillLoop
from tests.unit.transport.helpers.rows import row, table


class World:
    """A fake process table: who has which number now, and every signal that was sent."""

    def __init__(self) -> None:
        self.rows: dict[int, Process] = {}
        self.sent: list[tuple[int, int, int]] = []

    def pidfd_open(self, pid: int) -> int:
        if pid not in self.rows:
            raise ProcessLookupError
        return os.open(os.devnull, os.O_RDONLY)

    def send(self, process: Process, number: int) -> bool:
        return killing.send_signal(process.pid, process.start_ticks, number, process.ppid)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    world = World()
    opened: dict[int, int] = {}

    def pidfd_open(pid: int) -> int:
        fd = world.pidfd_open(pid)
        opened[fd] = pid
        return fd

    def pidfd_send_signal(fd: int, number: int) -> None:
        pid = opened[fd]
        world.sent.append((pid, world.rows[pid].start_ticks, number))

    monkeypatch.setattr(os, "pidfd_open", pidfd_open)
    monkeypatch.setattr(signal, "pidfd_send_signal", pidfd_send_signal)
    monkeypatch.setattr(killing, "read_process", lambda pid: world.rows.get(pid))
    yield world
    for fd in opened:
        with pytest.raises(OSError, match="descriptor"):
            os.fstat(fd)


def test_g6_a_signal_reaches_the_process_that_is_meant(world: World) -> None:
    world.rows = table(row(10, 5, ticks=100))
    assert world.send(world.rows[10], signal.SIGTERM)
    assert killing.send_signal(10, 100, signal.SIGKILL)
    assert world.sent == [(10, 100, signal.SIGTERM), (10, 100, signal.SIGKILL)]


def test_g6_a_stranger_with_a_reused_number_is_not_signalled(world: World) -> None:
    meant = row(10, 5, ticks=100)
    world.rows = table(row(10, 5, ticks=101))
    assert not world.send(meant, signal.SIGKILL)
    assert world.sent == []


def test_g6_nobody_is_signalled_who_hangs_below_another_parent_now(world: World) -> None:
    meant = row(10, 5, ticks=100)
    world.rows = table(row(10, 1, ticks=100))
    assert not world.send(meant, signal.SIGKILL)
    assert world.sent == []


def test_g6_a_number_that_nobody_has_is_no_error(world: World) -> None:
    assert not world.send(row(10, 5), signal.SIGKILL)
    world.rows = table(row(10, 5))
    del world.rows[10]
    assert killing.signal_all([row(10, 5)], signal.SIGKILL) == []


def test_g6_a_kill_loop_whose_numbers_are_reused_between_looks_kills_no_stranger(
    world: World,
) -> None:
    ours = [row(10, 5, ticks=100), row(11, 10, ticks=100)]
    world.rows = table(ours[0], row(11, 1, ticks=200))
    looks = iter([ours, [], []])
    loop = KillLoop(lambda: next(looks))
    loop.run()
    assert loop.killed == {10}
    assert {pid for pid, _, _ in world.sent} == {10}


def test_the_loop_stops_all_before_it_kills_leaves_first(world: World) -> None:
    ours = [row(10, 5), row(11, 10), row(12, 11)]
    world.rows = table(*ours)
    looks = iter([ours, [], []])
    KillLoop(lambda: next(looks)).run()
    assert [(pid, number) for pid, _, number in world.sent] == [
        (10, signal.SIGSTOP),
        (11, signal.SIGSTOP),
        (12, signal.SIGSTOP),
        (12, signal.SIGKILL),
        (11, signal.SIGKILL),
        (10, signal.SIGKILL),
    ]


def test_one_empty_look_is_not_believed(world: World) -> None:
    late = row(13, 5)
    world.rows = table(late)
    looks = iter([[], [late], [], []])
    loop = KillLoop(lambda: next(looks))
    loop.run()
    assert loop.killed == {13}
    assert next(looks, None) is None


def test_g2_what_cannot_be_killed_is_named_and_not_called_killed(world: World) -> None:
    stuck, other = row(10, 5, state=b"D"), row(11, 5)
    world.rows = table(stuck, other)
    looks = iter([[stuck, other]])
    loop = KillLoop(lambda: next(looks, [stuck]), limit=0.01)
    loop.run()
    assert loop.survivors == [10]
    assert loop.killed == {11}
