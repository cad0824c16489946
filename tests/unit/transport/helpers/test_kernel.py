"""Rows of /proc and the trees that they make."""

import os

import pytest

from acpbridge.transport.helpers import kernel
from acpbridge.transport.helpers.kernel import Process
from tests.unit.transport.helpers.rows import FIELDS, row, table


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


def test_g2_a_look_that_failed_is_not_taken_for_an_empty_table(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> int:
        raise OSError(24, "Too many open files")

    assert kernel.read_file("/proc/none") == b""
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(OSError, match="Too many"):
        kernel.read_process(os.getpid())
