"""G6 with the kernel's own numbers, given out again on purpose."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration import reused_pids

ROOT = Path(__file__).parents[2]


def test_g6_a_stranger_that_got_the_number_of_one_of_ours_is_never_signalled() -> None:
    """Without the start times in `killing.send_signal`: wrong == ['send_signal', ..., 'dead']."""
    unshare = shutil.which("unshare")
    if unshare is None:
        pytest.skip("no unshare(1) to make a pid namespace with")
    done = subprocess.run(
        (
            *(unshare, "-Urpf", "--kill-child", "--mount-proc", sys.executable, "-m"),
            reused_pids.__name__,
        ),
        cwd=ROOT,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )
    if done.returncode != 0 and "unshare:" in done.stderr:
        pytest.skip(f"no pid namespace can be made here: {done.stderr.strip()}")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["wrong"] == []
    assert found["reused"] > 0
