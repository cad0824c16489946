"""What a tree takes is what the kernel says, with shared pages once and nothing made up."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from acpbridge.controller import usage
from acpbridge.controller.bounds import MIB, Bounds, Usage
from acpbridge.transport.helpers import kernel

HELD = 64  # MiB that the parent writes to before it forks
CHILDREN = 3

# Its children share every page with it, and wait until its stdin ends.
SHARING = f"""
import os, sys
held = bytearray(os.urandom(1) * ({HELD} << 20))
for _ in range({CHILDREN}):
    if os.fork() == 0:
        os.read(0, 1)
        os._exit(0)
os.write(1, b"up")
os.read(0, 1)
for _ in range({CHILDREN}):
    os.wait()
"""

# Somebody who does not reap has a zombie below it.
CARELESS = """
import os
child = os.fork()
if child == 0:
    os._exit(0)
os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
os.write(1, b"up")
os.read(0, 1)
os.wait()
"""

NEAR = Bounds(1, 1)  # whatever lives is near these


@contextmanager
def running(text: str) -> Iterator[tuple[int, int]]:
    """Run a program until the end of the block; give pid and start ticks of its parent, us."""
    words = [sys.executable, "-I", "-S", "-c", text]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.read(2) == b"up"
        me = kernel.read_process(os.getpid())
        assert me is not None
        yield me.pid, me.start_ticks
        process.communicate()


def test_pages_that_processes_share_count_once_near_a_limit() -> None:
    """Without the look at PSS: `assert 260 < 160` fails, a tree is ended for what it never held."""
    with running(SHARING) as me:
        far = usage.measure(me, Bounds(None, 1024 * MIB))
        near = usage.measure(me, NEAR)
    assert far is not None
    assert near is not None
    assert (far.processes, near.processes) == (1 + CHILDREN, 1 + CHILDREN)
    assert far.memory >= (1 + CHILDREN) * HELD * MIB  # resident in each: never too small
    assert HELD * MIB <= near.memory < 2.5 * HELD * MIB


def test_a_zombie_is_no_process_that_takes_anything() -> None:
    with running(CARELESS) as me:
        assert len(kernel.read_file(f"/proc/{me[0]}/task/{me[0]}/children").split()) == 1
        found = usage.measure(me, NEAR)
    assert found is not None
    assert found.processes == 1


def test_of_a_shim_that_is_gone_nothing_is_said() -> None:
    me = kernel.read_process(os.getpid())
    assert me is not None
    assert usage.measure((me.pid, me.start_ticks + 1), NEAR) is None


def test_what_is_there_for_one_look_only_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A burst between two looks. With the first look alone: `Usage(99, 990)` is returned."""
    looks = [Usage(99, 990), Usage(2, 20)]
    asked = []

    def look(shim: tuple[int, int], *, exact: bool) -> Usage:
        asked.append(exact)
        return looks[len(asked) - 1]

    monkeypatch.setattr(usage, "_look", look)
    assert usage.measure((1, 1), Bounds(10, 100)) == Usage(2, 20)
    assert asked == [False, True]
    looks.reverse()
    asked.clear()
    assert usage.measure((1, 1), Bounds(10, 100)) == Usage(2, 20)
    assert asked == [False]  # far from every limit: one cheap look


def test_that_the_kernel_cannot_be_asked_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(path: str) -> bytes:
        raise OSError(24, path)

    monkeypatch.setattr(kernel, "read_file", fail)
    with pytest.raises(OSError, match="24"):
        usage.measure((os.getpid(), 1), NEAR)
