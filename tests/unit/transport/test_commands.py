"""Commands of an agent of the house: what they say comes back, and none goes on by itself."""

import os
import signal
import sys
from pathlib import Path

import anyio
import pytest

from acpbridge.errors import BridgeError
from acpbridge.transport.commands import Ran, run_command

ENV = {"PATH": os.environ["PATH"]}


async def run(*argv: str, seconds: float = 60, most: int = 1000, cwd: str = "/") -> Ran:
    with anyio.fail_after(60):
        return await run_command(argv, cwd=cwd, env=ENV, seconds=seconds, most=most)


async def wait_gone(pid: int) -> None:
    try:
        fd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        with anyio.fail_after(20):
            await anyio.wait_readable(fd)
    finally:
        os.close(fd)


async def test_what_it_says_and_its_status_come_back(tmp_path: Path) -> None:
    script = "pwd; echo oops >&2; cat; echo $HOME-; exit 3"
    ran = await run("/bin/sh", "-c", script, cwd=str(tmp_path))
    assert ran == Ran(3, f"{tmp_path}\noops\n-\n", 0)


async def test_no_shell_reads_its_words() -> None:
    assert (await run("printf", "%s", "$HOME; *")).output == "$HOME; *"


async def test_of_much_the_beginning_and_the_end_come_back() -> None:
    script = "print('a' * 700 + 'b' * 5000 + 'c' * 700, end='')"
    ran = await run(sys.executable, "-S", "-c", script, most=1000)
    assert ran.left_out == 5400
    assert ran.output == f"{'a' * 500}\n[... 5400 bytes left out ...]\n{'c' * 500}"


@pytest.mark.parametrize("argv", [("no-such-program",), ("/etc",), ("a\0b",)])
async def test_what_cannot_be_run_is_said(argv: tuple[str, ...]) -> None:
    with pytest.raises(BridgeError) as caught:
        await run(*argv)
    assert caught.value.code == "usage"
    assert "cannot be run" in caught.value.message


async def test_out_of_time_its_whole_group_is_ended(tmp_path: Path) -> None:
    script = "echo begun; sleep 600 & echo $! > child; wait"
    ran = await run("/bin/sh", "-c", script, seconds=1.5, cwd=str(tmp_path))
    assert (ran.code, ran.output) == (None, "begun\n")
    await wait_gone(int((tmp_path / "child").read_text(encoding="utf-8")))


async def test_cancelled_it_is_ended(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "begun")
    async with anyio.create_task_group() as tasks:
        script = "echo $$ > begun; exec sleep 600"
        tasks.start_soon(lambda: run("/bin/sh", "-c", script, cwd=str(tmp_path)))
        pid = int(await anyio.Path(tmp_path / "begun").read_text(encoding="utf-8"))
        tasks.cancel_scope.cancel()
    await wait_gone(pid)


async def test_what_it_leaves_behind_is_not_waited_for(tmp_path: Path) -> None:
    script = "sleep 600 & echo $! > child; echo done"
    ran = await run("/bin/sh", "-c", script, cwd=str(tmp_path))
    pid = int((tmp_path / "child").read_text(encoding="utf-8"))
    assert (ran.code, ran.output) == (0, "done\n")
    os.kill(pid, signal.SIGKILL)  # in a session its shim does that
