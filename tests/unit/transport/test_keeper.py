"""The pure part of the keeper: rows of /proc, signals, the kill loop, words on the wire."""

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.transport.helpers import kernel, killing, wire
from acpbridge.transport.helpers.kernel import Process
from acpbridge.transport.helpers.killing import KillLoop
from acpbridge.transport.helpers.wire import Order

FIELDS = b"%b %d 7 7 0 -1 4194560 111 0 0 0 30 12 0 0 20 0 %d 0 %d 4096 321 18446744073709551615"


def row(pid: int, ppid: int, ticks: int = 500, state: bytes = b"S", threads: int = 1) -> Process:
    return Process(b"%d (x) " % pid + FIELDS % (state, ppid, threads, ticks))


def table(*rows: Process) -> dict[int, Process]:
    return {process.pid: process for process in rows}


@pytest.mark.parametrize(
    "name",
    [
        b"sh",
        b"a b",
        b") Z 1 (",
        b"((()",
        b") S 1 1 1 0 -1",
        b"",
        b"\xff\n",
        b"99 (init) S",
    ],
)
def test_a_row_is_read_after_the_last_parenthesis_whatever_the_name_holds(name: bytes) -> None:
    process = Process(b"42 (" + name + b") " + FIELDS % (b"T", 41, 3, 987654))
    assert (process.pid, process.ppid, process.start_ticks) == (42, 41, 987654)
    assert (process.state, process.threads, process.cpu_ticks) == ("T", 3, 42)
    assert process.rss_pages == 321
    assert process.name == name.decode("utf-8", "replace")


def test_this_process_is_read_as_the_kernel_knows_it() -> None:
    me = kernel.read_process(os.getpid())
    assert me is not None
    assert me.ppid == os.getppid()
    assert me.alive
    assert kernel.process_table()[os.getpid()].start_ticks == me.start_ticks
    assert len(kernel.boot_id()) == 36
    assert kernel.read_process(2**22 + 1) is None


def test_a_zombie_is_dead_unless_other_threads_outlive_its_first() -> None:
    assert not row(2, 1, state=b"Z").alive
    assert not row(2, 1, state=b"X", threads=0).alive
    assert row(2, 1, state=b"Z", threads=2).alive
    assert row(2, 1, state=b"T").alive


def test_a_tree_has_parents_first_and_leaves_out_what_it_is_told_to() -> None:
    rows = table(row(1, 0), row(5, 1), row(9, 5), row(6, 9), row(7, 5), row(8, 1), row(3, 8))
    assert [process.pid for process in kernel.tree_of(5, rows)] == [9, 7, 6]
    assert [process.pid for process in kernel.tree_of(1, rows, skip=[5])] == [8, 3]
    assert kernel.tree_of(77, rows) == []


def test_a_tree_goes_on_below_a_zombie_but_does_not_name_it() -> None:
    rows = table(row(5, 1), row(6, 5, state=b"Z"), row(7, 6))
    assert [process.pid for process in kernel.tree_of(5, rows)] == [7]


def test_a_table_that_holds_a_circle_is_still_walked_once() -> None:
    rows = table(row(5, 6), row(6, 5))
    assert [process.pid for process in kernel.tree_of(5, rows)] == [6]


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


WORDS = st.binary(max_size=20).filter(lambda word: b"\0" not in word)
NAMES = WORDS.filter(lambda word: word != b"" and b"=" not in word)


@given(
    program=WORDS,
    argv=st.lists(WORDS),
    env=st.dictionaries(NAMES, WORDS),
    cwd=WORDS,
    linger=st.integers(0, 10**6),
)
def test_an_order_arrives_as_it_was_given(
    program: bytes, argv: list[bytes], env: dict[bytes, bytes], cwd: bytes, linger: int
) -> None:
    order = Order(program, argv, env, cwd, linger / 1000)
    again = Order.decode(order.encode())
    assert (again.program, again.argv, again.env, again.cwd) == (program, argv, env, cwd)
    assert again.linger == linger / 1000


@pytest.mark.parametrize(
    ("argv", "env", "words"),
    [
        ([b"a\0b"], {}, "NUL"),
        ([], {b"A": b"\0"}, "NUL"),
        ([], {b"": b"x"}, "name"),
        ([], {b"A=B": b"x"}, "name"),
    ],
)
def test_an_order_that_exec_would_change_is_refused(
    argv: list[bytes], env: dict[bytes, bytes], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Order(b"/bin/x", argv, env, b"/", 1).encode()


@given(st.sets(st.integers(1, 2**22), max_size=100))
def test_pids_are_one_word_both_ways(pids: set[int]) -> None:
    word = wire.encode_pids(pids)
    assert b" " not in word
    assert wire.decode_pids(word) == tuple(sorted(pids))


def test_a_receipt_always_fits_into_one_message() -> None:
    assert len(wire.encode_pids(range(4_000_000, 4_100_000))) * 2 < wire.MESSAGE_LIMIT


def test_g2_a_look_that_failed_is_not_taken_for_an_empty_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(24, "Too many open files")

    assert kernel.read_file("/proc/none") == b""
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match="Too many"):
        kernel.read_process(os.getpid())
