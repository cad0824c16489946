"""Runs a command for an agent of the house, in the agent's own tree, and returns what it says.

For the process of one agent, which its shim ends with everything below it: what a command leaves
behind ends with the session. Above are the tools of an agent that is defined by a model.
"""

import os
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from subprocess import DEVNULL, PIPE, STDOUT
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream, Process

from acpbridge.errors import BridgeError

# What it has written before its end is in the pipe by then; who else holds the pipe open, a server
# that it has started, is not waited for. Seconds.
LAST_WORDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class Ran:
    """A command that was run.

    Attributes:
        code: its exit status, the negative number of a signal; None: its time was over.
        output: what it wrote on stdout and stderr, its beginning and its end.
        left_out: how many bytes of the middle are missing.
    """

    code: int | None
    output: str
    left_out: int


async def run_command(
    argv: Sequence[str], *, cwd: str, env: Mapping[str, str], seconds: float, most: int
) -> Ran:
    """Run a command without a shell and without input; cancelled or out of time, end its group.

    Args:
        argv: the program, looked up on the PATH of `env`, and its arguments.
        cwd: absolute directory.
        env: the whole environment.
        seconds: that it may take.
        most: bytes of its output that are returned.

    Raises:
        BridgeError: `usage`: it cannot be started.
    """
    heard = _Heard(most)
    try:
        process = await anyio.open_process(  # noqa: TID251 - this is transport
            list(argv),
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=STDOUT,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BridgeError("usage", f"{argv[0]!r} cannot be run: {why}.") from None
    ended = False
    try:
        with anyio.move_on_after(seconds):
            await _follow(process, heard)
            ended = True
    finally:
        with anyio.CancelScope(shield=True):
            await _end(process)
    return Ran(process.returncode if ended else None, heard.text(), heard.left_out)


async def _follow(process: Process, heard: "_Heard") -> None:
    assert process.stdout is not None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(heard.listen, process.stdout)
        await process.wait()
        with anyio.move_on_after(LAST_WORDS):
            await heard.over.wait()
        tasks.cancel_scope.cancel()


async def _end(process: Process) -> None:
    """End what still runs of a command; by its pid only as long as that is certainly its own."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        with anyio.move_on_after(LAST_WORDS):
            await process.wait()
    if process.stdout is not None:
        await process.stdout.aclose()


class _Heard:
    """The beginning and the end of what a command says."""

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self._first = bytearray()
        self._last = bytearray()
        self.left_out = 0
        self.over = anyio.Event()

    async def listen(self, stream: ByteReceiveStream) -> None:
        """Read until there is nothing more."""
        with suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
            while True:
                self._take(await stream.receive())
        self.over.set()

    def text(self) -> str:
        """Return it as text, with a word about what is missing."""
        gap = f"\n[... {self.left_out} bytes left out ...]\n" if self.left_out else ""
        first, last = (bytes(part).decode("utf-8", "replace") for part in (self._first, self._last))
        return f"{first}{gap}{last}"

    def _take(self, piece: bytes) -> None:
        room = self._half - len(self._first)
        self._first += piece[:room]
        self._last += piece[room:]
        excess = len(self._last) - self._half
        if excess > 0:
            del self._last[:excess]
            self.left_out += excess
