"""Agents in memory: the twin of the supervisor, for tests and for whoever embeds an ACP agent.

An agent is an async function over one end of a pair of byte streams. It behind this launcher looks
like a process to everything above: it is started, it exits, it is stopped, and it leaves nothing.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import structlog

from acpbridge.controller.process import AgentProcess, LaunchSpec
from acpbridge.errors import BridgeError
from acpbridge.transport.memory import ByteReceive, ByteSend, MemoryEnd, memory_pair
from acpbridge.transport.tasks import background
from acpbridge.transport.tree import ExitStatus

log = structlog.get_logger(__name__)


class MemoryLauncher:
    """Starts agents in memory.

    Args:
        agent_main: the agent; it reads from its end and writes to it until its input ends.
    """

    def __init__(self, agent_main: Callable[[MemoryEnd], Awaitable[None]]) -> None:
        self._agent_main = agent_main

    @asynccontextmanager
    async def launch(self, spec: LaunchSpec) -> AsyncIterator[AgentProcess]:
        """Start an agent; leaving the context ends it."""
        ours, theirs = memory_pair()
        process = _MemoryProcess(spec, ours, theirs, self._agent_main)
        try:
            async with background(process.run):
                try:
                    yield process
                finally:
                    with anyio.CancelScope(shield=True):
                        await process.stop()
        finally:
            with anyio.CancelScope(shield=True):
                await ours.aclose_both()


class _MemoryProcess:
    """A running agent."""

    def __init__(
        self,
        spec: LaunchSpec,
        ours: MemoryEnd,
        theirs: MemoryEnd,
        agent_main: Callable[[MemoryEnd], Awaitable[None]],
    ) -> None:
        self._spec = spec
        self._ours = ours
        self._theirs = theirs
        self._agent_main = agent_main
        self._scope = anyio.CancelScope()
        self._how = "cancelled"
        self._exited = anyio.Event()

    @property
    def pid(self) -> int:
        return 0

    @property
    def start_ticks(self) -> int:
        return 0

    @property
    def stdin(self) -> ByteSend:
        return self._ours

    @property
    def stdout(self) -> ByteReceive:
        return self._ours

    async def run(self) -> None:
        """Run the agent to its end, whatever that is."""
        try:
            with self._scope:
                await self._agent_main(self._theirs)
                self._how = "exit status 0"
        except Exception as error:
            # The top of a task: to the other end, an agent that raises is one that died.
            log.exception("an agent in memory raised")
            self._how = f"{type(error).__name__} was raised"
        finally:
            with anyio.CancelScope(shield=True):
                await self._theirs.aclose_both()
            self._exited.set()

    @property
    def status(self) -> ExitStatus | None:
        return ExitStatus(0, None) if self._exited.is_set() else None

    async def exited(self) -> str:
        await self._exited.wait()
        return self._how

    async def gone(self) -> None:
        await self._exited.wait()

    def initialized(self) -> None:
        pass

    def post_mortem(self, code: str, message: str) -> BridgeError:
        return BridgeError(code, message, data={"stderr": ""})

    async def stop(self, grace: float | None = None) -> tuple[int, ...]:
        await self._ours.aclose()
        with anyio.move_on_after(self._spec.grace if grace is None else grace):
            await self._exited.wait()
        self._scope.cancel()
        await self._exited.wait()
        return ()
