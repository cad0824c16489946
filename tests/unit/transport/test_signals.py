"""G6, case 9: there is one way to send a signal, and it reaches no group and no stranger."""

import ast
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import acpbridge
from acpbridge.transport.helpers import kernel, killing
from acpbridge.transport.tree import NOBODY, ProcessId

ROOT = Path(acpbridge.__file__).parent

# What signals by a bare number. Whoever calls them on itself may: nobody else has that number.
BY_NUMBER = {"kill", "killpg", "send_signal", "terminate", "pidfd_send_signal", "sigqueue"}
# `terminate` and `kill` of our own classes go through a shim or the router.
OUR_OWN = {
    "killing.send_signal",
    "self.terminate",  # tree.Child
    "self.kill",
    "self._cgroup.kill",  # by the kernel, and only if no stranger is in the group
    "self.cgroup.kill",
    "group.kill",
    "self._helpers.kill",  # line: of the guard, by its start time
    "self._router.kill",
    "self._api.kill",
    "self._ending.kill",
}


def calls() -> Iterator[tuple[str, str, ast.Call]]:
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield str(path.relative_to(ROOT)), ast.unparse(node.func), node


def test_g6_every_signal_in_the_code_compares_the_start_time() -> None:
    """With `process.kill` for the guard in `child._start_helpers`: it is found."""
    found = []
    for path, name, node in calls():
        last = name.rpartition(".")[2]
        if last not in BY_NUMBER or name in OUR_OWN:
            continue
        itself = name == "os.kill" and ast.unparse(node.args[0]) == "os.getpid()"
        if itself or (path.startswith("transport/helpers/") and name == "send_signal"):
            continue
        found.append(f"{path}: {name}")
    assert found == ["transport/helpers/killing.py: signal.pidfd_send_signal"]


def test_g6_no_signal_is_passed_on_as_a_value() -> None:
    names = {"os.kill", "os.killpg", "process.kill", "process.terminate", "process.send_signal"}
    found = [
        f"{path.name}: {ast.unparse(node)}"
        for path in ROOT.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Attribute) and ast.unparse(node) in names
    ]
    # A process may signal itself.
    assert set(found) <= {"arming.py: os.kill", "live.py: os.kill"}


GROUPS = {
    "our group": 0,
    "everybody": -1,
    "our group by its number": -os.getpgid(0),
    "a group of our own": -os.getpid(),
    "above pid_max": 2**22 + 1,
    "the largest": 2**31 - 1,
}


@pytest.mark.parametrize("pid", GROUPS.values(), ids=GROUPS)
def test_case_9_no_number_names_a_group_or_everybody(pid: int) -> None:
    """Without `pid <= 0` in `send_signal` the kernel's own refusal is left; no group is reached."""
    assert not killing.send_signal(pid, 0, signal.SIGKILL)
    assert not ProcessId(pid, 0).signal(signal.SIGKILL)
    assert not ProcessId(pid, 0).alive()


def test_case_9_nobody_has_no_start_time_and_gets_no_signal() -> None:
    """Process 1 and this one too: without their start times they are strangers."""
    for meant in (NOBODY, ProcessId(1, 0), ProcessId(os.getpid(), 0)):
        assert not meant.signal(signal.SIGKILL)


def test_case_9_a_child_in_our_own_group_is_signalled_alone() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        assert os.getpgid(child.pid) == os.getpgid(0)
        row = kernel.read_process(child.pid)
        assert row is not None
        assert killing.send_signal(row.pid, row.start_ticks, signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL
        assert not killing.send_signal(row.pid, row.start_ticks, signal.SIGKILL)
