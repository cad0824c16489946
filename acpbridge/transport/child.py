"""Starts agents, each as a tree that can be ended as a whole: the daemon's side of the keeper.

It starts one process itself: the guard, which forks the keeper, which forks a shim for each agent
(`acpbridge.transport.helpers`). Above is the supervisor; below is the line to the two (`line`) and
what each child is (`tree`). Nothing here is a subreaper or waits for a child that is not its own:
an embedding program keeps its orphans.
"""

import functools
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import anyio
import anyio.abc

from acpbridge.errors import BridgeError
from acpbridge.transport.helpers import kernel, start
from acpbridge.transport.line import NOTHING_STARTED, Helpers, Line
from acpbridge.transport.program import no_room, order_for, resolve_program, start_error
from acpbridge.transport.tree import (
    NOBODY,
    Child,
    ChildSpec,
    ProcessId,
    channel_pair,
    make_child,
)

# A start takes 12 ms; a machine in distress may need seconds. Beyond this it is broken.
START_LIMIT = 10.0
# Descriptors in flight count against RLIMIT_NOFILE of the user, five for each start.
STARTS_AT_ONCE = 32
# Without it an interpreter with a library of its own does not start.
_NEEDED = ("LD_LIBRARY_PATH",)


def raise_descriptor_limit() -> int:
    """Raise this process's soft limit of open files to the hard one; return what it was.

    Hand the old limit to `Keeper`, which gives it to the agents: programs that use select, or
    that close all descriptors one by one, do badly with a high one.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft


def descriptor_limit() -> int:
    """Return how many files this process may have open."""
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]


class Keeper:
    """Starts children, and sees to it that none outlives this block or this process.

    An async context manager. Should guard or keeper die, all children die with them, and the next
    spawn starts a new pair.

    Args:
        on_lost: called on the event loop when that happened, before the children are gone.
        nofile: soft limit of open files for the children, where this process raised its own.
    """

    def __init__(
        self, *, on_lost: Callable[[], None] | None = None, nofile: int | None = None
    ) -> None:
        self._on_lost = on_lost or (lambda: None)
        self._nofile = -1 if nofile is None else nofile
        self._tasks = anyio.create_task_group()
        self._scopes: set[anyio.CancelScope] = set()
        self._lines: list[Line] = []
        self._unclosed: set[Child] = set()
        self._starts = anyio.Semaphore(STARTS_AT_ONCE)

    @property
    def pid(self) -> int:
        """The pid of the keeper that is, or was last, at work."""
        return self.identity.pid

    @property
    def identity(self) -> ProcessId:
        """Who the keeper is that is, or was last, at work."""
        return self._lines[-1].keeper if self._lines else NOBODY

    @property
    def guard(self) -> ProcessId:
        """Who the keeper's guard is: the one direct child of this process."""
        return self._lines[-1].guard if self._lines else NOBODY

    @property
    def children(self) -> tuple[Child, ...]:
        """All children that are not proven gone."""
        known = (child for line in self._lines for child in line.children.values())
        return tuple(child for child in known if child.receipt is None)

    async def __aenter__(self) -> Self:
        await self._tasks.__aenter__()
        try:
            await self._line()
        except BaseException as error:
            await self.__aexit__(type(error), error, error.__traceback__)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as ends:
                for child in self._unclosed:
                    ends.start_soon(child.aclose)
            async with anyio.create_task_group() as ends:
                for line in self._lines:
                    ends.start_soon(line.end)
            for scope in list(self._scopes):
                scope.cancel()
        if error is None or isinstance(error, anyio.get_cancelled_exc_class()):
            return await self._tasks.__aexit__(kind, error, traceback)
        # The group would wrap the caller's error, which is none of ours.
        await self._tasks.__aexit__(None, None, None)
        return None

    async def spawn(self, spec: ChildSpec) -> Child:
        """Start an agent; when this returns its exec has happened.

        Cancelled or failed, it leaves nothing behind.

        Raises:
            BridgeError: `agent_not_found`, `capacity`, or `start_failed` with the step that failed.
        """
        program = resolve_program(spec.argv[0], spec.env, spec.cwd)
        order = order_for(spec, program)
        async with self._starts:
            line = await self._line()
            child = await self._attempt(line, order, spec)
            if child.agent == NOBODY and child.failure is None and line.lost:
                await child.aclose()  # the keeper was dead, or died meanwhile: once more
                child = await self._attempt(await self._line(), order, spec)
        if child.agent == NOBODY:
            await child.aclose()
            raise start_error(child.failure, spec, program)
        return child

    async def _attempt(self, line: Line, order: bytes, spec: ChildSpec) -> Child:
        """Start a child; its `agent` is nobody if that failed."""
        with ExitStack() as far:
            try:
                child, fds = make_child(order, far, self._watch_kill, spec)
            except OSError as error:
                raise no_room(error) from error
            # No await from here to the guard below.
            self._unclosed = {known for known in self._unclosed if not known.closed} | {child}
            name = line.register(child)
            self._attend(functools.partial(line.follow_child, name, child))
            sent = False
            try:
                with anyio.move_on_after(START_LIMIT):
                    sent = await line.hand_over(name, fds)
                    far.close()
                    if sent:
                        await child.wait_started()
            except BaseException:
                far.close()
                if not sent:
                    child.settle(NOTHING_STARTED)
                await child.aclose()
                raise
        if not sent:
            child.settle(NOTHING_STARTED)
        return child

    async def _line(self) -> Line:
        """Return the line to a keeper that works, starting one where there is none."""
        self._lines = [line for line in self._lines if not line.over]
        if not self._lines or self._lines[-1].lost:
            line = Line(_start_helpers(self._nofile), self._on_lost)
            self._lines.append(line)
            self._attend(line.follow_keeper)
            self._attend(line.follow_guard)
        line = self._lines[-1]
        with anyio.move_on_after(START_LIMIT):
            await line.ready.wait()
        if not line.ready.is_set():
            line.abandon()
        if line.lost:
            raise BridgeError("start_failed", "The keeper of the agents did not come up.")
        return line

    def _watch_kill(self, child: Child) -> None:
        self._attend(child.see_kill_through)

    def _attend(self, work: Callable[[], Awaitable[None]]) -> None:
        self._tasks.start_soon(self._shielded, work)

    async def _shielded(self, work: Callable[[], Awaitable[None]]) -> None:
        # When the caller is cancelled, its children's ends still have to be heard of: these tasks
        # live until __aexit__ has seen everything end.
        with anyio.CancelScope(shield=True) as scope:
            self._scopes.add(scope)
            try:
                await work()
            finally:
                self._scopes.discard(scope)


def _identity(pid: int) -> ProcessId:
    row = kernel.read_process(pid)
    return NOBODY if row is None else ProcessId(pid, row.start_ticks)


def _start_helpers(nofile: int) -> Helpers:
    """Start a guard, which forks its keeper.

    Raises:
        BridgeError: `start_failed`.
    """
    with ExitStack() as far, ExitStack() as near:
        try:
            control, far_control = channel_pair(near, far)
            watch, far_watch = channel_pair(near, far)
            fds = (far_control.fileno(), far_watch.fileno())
            words = [*map(str, fds), str(os.getpid()), str(nofile)]
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", start.__file__, *words],
                pass_fds=fds,
                # Every agent can read their environment, which need not be the daemon's.
                env={name: os.environ[name] for name in _NEEDED if name in os.environ},
            )
            near.callback(process.wait)
            guard = _identity(process.pid)
            near.callback(guard.signal, signal.SIGKILL)
            pidfd = os.pidfd_open(process.pid)
        except OSError as error:
            raise BridgeError(
                "start_failed", f"The keeper of the agents cannot be started: {error.strerror}."
            ) from error
        near.pop_all()
    # Not `process.kill`: in a program that reaps all its children its number may be another's.
    kill = functools.partial(guard.signal, signal.SIGKILL)
    return Helpers(control, watch, guard, pidfd, kill, process.wait)
