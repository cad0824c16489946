"""One command that an agent has us run: its start, its output, its end.

Above is `terminals`, which knows who may have what run. Below is the launcher, which gives the
command a shim of its own: when the tree is told to be over, it is over.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

import anyio

from acpbridge.controller.process import AgentProcess, Launcher, LaunchSpec
from acpbridge.errors import BridgeError
from acpbridge.runtimes.terminal_output import TerminalOutput
from acpbridge.transport.memory import ByteReceive
from acpbridge.transport.tasks import background
from acpbridge.transport.tree import ExitStatus

# A pipe holds so much; who fills it faster than it is read is made to wait a moment, so that a
# flood is no load: 64 MB in a second at most. Bytes and seconds.
PIECE: Final = 64 * 1024
BREATH: Final = 0.001

# When the command has ended, what it wrote last is still in the pipe; what it left running may
# hold that open for longer. Seconds.
LAST_WORDS: Final = 0.5

# Once its tree was ended, how it ended is known at once, or never. Seconds.
STATUS_WAIT: Final = 1.0


class Terminal:
    """A command from when it was asked for until nothing of it is left.

    Args:
        name: its id.
        turn: in which it was asked for.
        limit: bytes of its output that are kept.
        told: called once it has started, and once it has ended. Cannot block and cannot fail.

    Attributes:
        output: what it wrote.
        status: how it ended; None while it runs. What it wrote before is in the output by then.
        begun: whether there is a task that runs it.
        unwanted: whether it was told to end, started or not.
        error: why it could not be started.
        left: pids of it that could not be ended.
        up: set once it is started, or is not.
        ended: set once `status` is known.
        over: set once nothing of its tree is left, or what is left is named.
    """

    def __init__(
        self, name: str, turn: int, limit: int, told: Callable[["Terminal"], None]
    ) -> None:
        self.id = name
        self.turn = turn
        self.output = TerminalOutput(limit)
        self.status: ExitStatus | None = None
        self.begun = False
        self.unwanted = False
        self.error: BridgeError | None = None
        self.left: tuple[int, ...] = ()
        self.up = anyio.Event()
        self.ended = anyio.Event()
        self.over = anyio.Event()
        self._told = told
        self._process: AgentProcess | None = None
        self._read_all = anyio.Event()
        self._done = anyio.Event()

    def end(self) -> None:
        """Have the whole tree end: TERM, and KILL for what is left of it. Cannot block."""
        self.unwanted = True
        self._done.set()

    async def end_now(self) -> None:
        """Have the whole tree end without a moment's grace."""
        self.end()
        if self._process is not None:
            self.left = await self._process.stop(0)

    async def run(self, launcher: Launcher, spec: LaunchSpec) -> None:
        """Start it, and see it through to its end; `up` and then `error` say whether it started."""
        try:
            if not self.unwanted:
                await self._live(launcher, spec)
        except BridgeError as error:
            self.error = error
        finally:
            self.settle()

    def settle(self) -> None:
        """Let nobody wait any more: its task has come to an end, or was never begun."""
        for event in (self.up, self.ended, self.over):
            event.set()

    async def _live(self, launcher: Launcher, spec: LaunchSpec) -> None:
        async with launcher.launch(spec) as process:
            self._process = process
            await process.stdin.aclose()
            async with background(
                partial(self._read, process.stdout),
                partial(self._follow, process),
                partial(self._until_gone, process),
            ):
                self.up.set()
                self._told(self)
                await self._done.wait()
                # It is read on meanwhile: nobody can end while he waits in a write.
                self.left = await process.stop()
                with anyio.move_on_after(STATUS_WAIT):
                    await self.ended.wait()

    async def _read(self, stream: ByteReceive) -> None:
        try:
            while True:
                data = await stream.receive(PIECE)
                self.output.feed(data)
                if len(data) == PIECE:
                    await anyio.sleep(BREATH)
        except (anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError, OSError):
            self.output.feed(b"", final=True)
            self._read_all.set()

    async def _follow(self, process: AgentProcess) -> None:
        await process.exited()
        with anyio.move_on_after(LAST_WORDS):
            await self._read_all.wait()
        self.status = process.status
        self.ended.set()
        self._told(self)

    async def _until_gone(self, process: AgentProcess) -> None:
        await process.gone()
        self._done.set()
