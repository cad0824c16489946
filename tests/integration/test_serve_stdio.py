"""A served process: its standard streams carry the protocol and nothing else, whatever they are."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.daemon_home import LIMIT
from tests.unit.runtimes import scripted

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-P", str(scripted.__file__))
INITIALIZE = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n'


@pytest.mark.parametrize("source", ["pipe", "file"])
@pytest.mark.parametrize("target", ["pipe", "file"])
def test_output_is_protocol_only_over_pipes_and_files_a22(
    source: str, target: str, tmp_path: Path
) -> None:
    given, taken, errors = tmp_path / "in", tmp_path / "out", tmp_path / "err"
    given.write_bytes(INITIALIZE)
    with given.open("rb") as stdin, taken.open("wb") as stdout, errors.open("wb") as stderr:
        done = subprocess.run(
            COMMAND,
            **({"stdin": stdin} if source == "file" else {"input": INITIALIZE}),
            stdout=stdout if target == "file" else subprocess.PIPE,
            stderr=stderr,
            env={"PYTHONPATH": str(ROOT)},
            timeout=LIMIT,
            check=True,
        )
    output = taken.read_bytes() if target == "file" else done.stdout
    (line,) = output.splitlines()
    assert json.loads(line)["result"]["protocolVersion"] == 1
    assert b"a word on stdout at the start" in errors.read_bytes()


def test_a_client_that_has_left_ends_the_process() -> None:
    process = subprocess.Popen(
        COMMAND,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={"PYTHONPATH": str(ROOT)},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    with process, process.stdin, process.stdout:
        process.stdout.close()
        process.stdin.write(INITIALIZE)
        process.stdin.flush()
        assert process.wait(timeout=LIMIT) == 0
