"""Runs a command for an agent of the house, in the agent's own tree, and returns what it says.

For the process of one agent, which its shim ends with everything below it: what a command leaves
behind ends with the session. Above are the tools of an agent that is defined by a model.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from subprocess import DEVNULL
from typing import Final

import anyio
from anyio.abc import Process

from acpbridge.errors import BridgeError
from acpbridge.transport.helpers.kernel import Process as Row
from acpbridge.transport.helpers.kernel import read_process, tree_of
from acpbridge.transport.helpers.killing import ROUND_PAUSE, KillLoop
from acpbridge.transport.pipes import PipeReader

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
    """Run a command without a shell and without input; cancelled or out of time, end its tree.

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
    # A pipe of our own: that of the event loop stays open for as long as anybody holds its end.
    read, write = os.pipe2(os.O_CLOEXEC)
    os.set_blocking(read, False)
    said = PipeReader(read)
    try:
        process = await _start(argv, cwd, env, write)
        top = read_process(process.pid)
        ended = False
        try:
            with anyio.move_on_after(seconds):
                await _follow(process, said, heard)
                ended = True
        finally:
            with anyio.CancelScope(shield=True):
                await _end(process, top)
    finally:
        await said.aclose()
    return Ran(process.returncode if ended else None, heard.text(), heard.left_out)


async def _start(argv: Sequence[str], cwd: str, env: Mapping[str, str], out: int) -> Process:
    """Start a command that writes to a descriptor, which is closed here in any case."""
    try:
        return await anyio.open_process(  # noqa: TID251 - this is transport
            list(argv),
            stdin=DEVNULL,
            stdout=out,
            stderr=out,
            cwd=cwd,
            env=dict(env),
            start_new_session=True,
        )
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise BridgeError("usage", f"{argv[0]!r} cannot be run: {why}.") from None
    finally:
        os.close(out)


async def _follow(process: Process, said: PipeReader, heard: "_Heard") -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(heard.listen, said)
        await process.wait()
        with anyio.move_on_after(LAST_WORDS):
            await heard.over.wait()
        tasks.cancel_scope.cancel()


async def _end(process: Process, top: Row | None) -> None:
    """End what still runs of a command that did not end by itself."""
    if process.returncode is not None or top is None:
        return
    loop = KillLoop(lambda: _living(top))
    while not loop.round():  # noqa: ASYNC110 -- no event tells when a process is gone
        await anyio.sleep(ROUND_PAUSE)
    with anyio.move_on_after(LAST_WORDS):
        await process.wait()


def _living(top: Row) -> list[Row]:
    """Return what lives of a command's tree; nobody, where its number is another's by now."""
    now = read_process(top.pid)
    if now is None or now.start_ticks != top.start_ticks:
        return []
    return [*([now] if now.alive else []), *tree_of(top.pid)]


class _Heard:
    """The beginning and the end of what a command says."""

    def __init__(self, most: int) -> None:
        self._half = most // 2
        self._first = bytearray()
        self._last = bytearray()
        self.left_out = 0
        self.over = anyio.Event()

    async def listen(self, stream: PipeReader) -> None:
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
