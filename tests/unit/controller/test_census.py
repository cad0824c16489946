"""What really runs, held against processes that the test itself starts, stops and kills."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from acpbridge.controller import census
from acpbridge.transport.helpers import kernel

PATIENCE = 10  # seconds; everything here takes milliseconds

# Says that it runs, does what its arguments say, and waits for the end of its input.
PYTHON = Path(sys.executable).resolve().name

PROGRAM = """
import ctypes, os, sys
name, work, *kinds = sys.argv[1:]
ctypes.CDLL(None).prctl(15, os.fsencode(name), 0, 0, 0)
if work == "busy":
    while sum(os.times()[:2]) < 0.2:
        pass
hold = bytearray(32 * 1024 * 1024) if work == "big" else b""
for kind in kinds:
    child = os.fork()
    if child == 0:
        if kind == "zombie":
            os._exit(0)
        if kind == "deep" and os.fork() != 0:
            os.setsid()
        sys.stdin.buffer.read()
        os._exit(0)
os.write(1, b"!")
sys.stdin.buffer.read()
"""


@contextmanager
def program(
    name: str = "program", work: str = "", kinds: Sequence[str] = (), **env: str
) -> Iterator[tuple[int, int]]:
    """Run the program; give its pid and start ticks."""
    argv = [sys.executable, "-I", "-S", "-c", PROGRAM, name, work, *kinds]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env) as process:
        try:
            assert process.stdout
            assert process.stdout.read(1) == b"!"
            row = kernel.read_process(process.pid)
            assert row is not None
            yield process.pid, row.start_ticks
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()


def wait_for(condition: Callable[[], bool]) -> None:
    """Look at the kernel's tables until they say so."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.002)


def look(pid: int, start_ticks: int) -> census.ProcessInfo:
    info = census.look(pid, start_ticks, "agent")
    assert info is not None
    return info


def test_a_process_is_told_as_the_kernel_has_it() -> None:
    before = datetime.now(UTC)
    with program(work="big") as (pid, ticks):
        info = look(pid, ticks)
        assert (info.pid, info.ppid, info.start_ticks) == (pid, os.getpid(), ticks)
        assert (info.name, info.role) == (PYTHON, "agent")
        assert info.state in {"running", "sleeping"}
        assert 32 * 2**20 < info.rss_bytes < 200 * 2**20
        assert abs((datetime.fromisoformat(info.started_at) - before).total_seconds()) < 60
        assert info.to_json() == {
            "pid": pid,
            "ppid": os.getpid(),
            "name": PYTHON,
            "state": info.state,
            "rssBytes": info.rss_bytes,
            "cpuSeconds": round(info.cpu_seconds, 2),
            "startedAt": info.started_at,
            "role": "agent",
        }


def test_the_time_that_it_took_is_plausible() -> None:
    with program(work="busy") as (pid, ticks):
        assert 0.15 < look(pid, ticks).cpu_seconds < 5


def test_a_stopped_process_shows_as_stopped_g7() -> None:
    with program() as (pid, ticks):
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED)
        assert look(pid, ticks).state == "stopped"
        os.kill(pid, signal.SIGCONT)
        os.waitid(os.P_PID, pid, os.WCONTINUED)
        assert look(pid, ticks).state in {"running", "sleeping"}


def test_a_zombie_shows_as_a_zombie_g7() -> None:
    with program() as (pid, ticks):
        os.kill(pid, signal.SIGKILL)
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert look(pid, ticks).state == "zombie"
        assert look(pid, ticks).rss_bytes == 0
    assert census.look(pid, ticks, "agent") is None


def test_another_process_with_the_same_number_is_not_the_one_that_is_meant_g6() -> None:
    with program() as (pid, ticks):
        assert census.look(pid, ticks - 1, "agent") is None
        assert census.tree((pid, ticks - 1), (pid, ticks)) == []


def test_a_tree_is_shown_whole_parents_first_zombies_included() -> None:
    with program(kinds=("plain", "zombie", "deep")) as shim:
        rows = kernel.tree_of(shim[0])
        agent = next((row.pid, row.start_ticks) for row in rows)
        wait_for(lambda: len(census.tree(shim, agent)) == 5)
        wait_for(lambda: [p.state for p in census.tree(shim, agent)].count("zombie") == 1)
        found = census.tree(shim, agent)
        seen: set[int] = {os.getpid()}
        for info in found:
            assert info.ppid in seen
            seen.add(info.pid)
        assert (found[0].pid, found[0].role) == (shim[0], "shim")
        assert [info.pid for info in found if info.role == "agent"] == [agent[0]]
        assert [info.role for info in found].count("child") == 3
        for info in found[1:]:
            if info.state != "zombie":
                os.kill(info.pid, signal.SIGKILL)


@pytest.mark.parametrize("name", [") Z 1 1", "a\nb", "((", "))", "x ) S 1", "\udcff\udcfe", ""])
def test_an_evil_name_changes_nothing(name: str) -> None:
    with program(name) as (pid, ticks):
        info = look(pid, ticks)
        # The file that runs, whatever the process calls itself; our own helpers by that name.
        assert info.name == PYTHON
        shim = census.look(pid, ticks, "shim")
        assert shim is not None
        assert shim.name == os.fsencode(name).decode("utf-8", "replace")
        shim.name.encode()  # fit for the wire
        assert info.ppid == os.getpid()
        assert info.state in {"running", "sleeping"}


@pytest.mark.parametrize("file", ["a-program-with-a-long-name", "\udcff) Z 1", "an end\nof line"])
def test_a_program_is_named_by_its_file_whole_and_fit_for_the_wire(
    file: str, tmp_path: Path
) -> None:
    copy = tmp_path / file
    shutil.copy("/bin/sleep", copy)
    with subprocess.Popen([copy, "600"]) as process:
        row = kernel.read_process(process.pid)
        assert row is not None
        assert look(process.pid, row.start_ticks).name == os.fsencode(file).decode(
            "utf-8", "replace"
        )
        process.kill()


def test_the_line_of_parents_goes_up_to_the_first_process() -> None:
    with program(kinds=("plain",)) as (pid, ticks):
        (child,) = kernel.tree_of(pid)
        line = census.ancestors(child.pid)
        assert line[:2] == [(child.pid, child.start_ticks), (pid, ticks)]
        assert line[2][0] == os.getpid()
        assert census.ancestors(pid) == line[1:]
        os.kill(child.pid, signal.SIGKILL)


def test_who_is_gone_has_no_parents() -> None:
    with program() as (pid, _):
        pass
    assert census.ancestors(pid) == []
    assert census.ancestors(0) == []
    assert census.ancestors(-1) == []
    assert census.ancestors(2**22 + 1) == []


def test_the_marker_is_read_from_the_environment_at_exec() -> None:
    with program(MARK="agent:x:main.0123=4", XMARK="no", EMPTY="") as (pid, _):
        assert census.marker(pid, "MARK") == "agent:x:main.0123=4"
        assert census.marker(pid, "ARK") == ""
        assert census.marker(pid, "EMPTY") == ""
        assert census.marker(pid, "NONE") == ""
    assert census.marker(pid, "MARK") == ""


def test_a_marker_that_is_not_text_is_read_all_the_same() -> None:
    with program(MARK="\udcff") as (pid, _):
        assert census.marker(pid, "MARK") == "\ufffd"
