"""Starts agents, each as a tree that can be ended as a whole: the daemon's side of the keeper.

The only module that starts a process, and it starts one: the guard, which forks the keeper, which
forks a shim for each agent (`acpbridge.transport.keeper`). Above is the supervisor. Nothing here
is a subreaper or waits for a child that is not its own: an embedding program keeps its orphans.
"""

import errno
import functools
import itertools
import os
import resource
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from types import TracebackType
from typing import Self

import anyio
import anyio.abc

from acpbridge.errors import BridgeError
from acpbridge.transport import keeper as kernel
from acpbridge.transport.program import no_room, order_for, resolve_program, start_error
from acpbridge.transport.tree import (
    LAST_STEP_LIMIT,
    NOBODY,
    Child,
    ChildSpec,
    ExitStatus,
    KillReceipt,
    ProcessId,
    channel_pair,
    hear,
    make_child,
)

__all__ = [
    "Child",
    "ChildSpec",
    "ExitStatus",
    "Keeper",
    "KillReceipt",
    "ProcessId",
    "raise_descriptor_limit",
    "resolve_program",
]

# A start takes 12 ms; a machine in distress may need seconds. Beyond this it is broken.
START_LIMIT = 10.0
# Descriptors in flight count against RLIMIT_NOFILE of the user, five for each start.
STARTS_AT_ONCE = 32
# The keeper ends its shims, then the guard looks again: each has its own limit.
END_LIMIT = kernel.END_LIMIT + 2 * kernel.KILL_LIMIT

NOTHING_STARTED = KillReceipt((), ())


def raise_descriptor_limit() -> int:
    """Raise this process's soft limit of open files to the hard one; return what it was.

    Hand the old limit to `Keeper`, which gives it to the agents: programs that use select, or
    that close all descriptors one by one, do badly with a high one.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return soft


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
        self._lines: list[_Line] = []
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
            BridgeError: `agent_not_found`, or `start_failed` with the step that failed.
        """
        program = resolve_program(spec.argv[0], spec.env, spec.cwd)
        order = order_for(spec, program)
        async with self._starts:
            line = await self._line()
            child = await self._attempt(line, order)
            if child.agent == NOBODY and child.failure is None and line.lost:
                await child.aclose()  # the keeper was dead, or died meanwhile: once more
                child = await self._attempt(await self._line(), order)
        if child.agent == NOBODY:
            await child.aclose()
            raise start_error(child.failure, spec, program)
        return child

    async def _attempt(self, line: "_Line", order: bytes) -> Child:
        """Start a child; its `agent` is nobody if that failed."""
        with ExitStack() as far:
            try:
                child, fds = make_child(order, far, self._watch_kill)
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

    async def _line(self) -> "_Line":
        """Return the line to a keeper that works, starting one where there is none."""
        self._lines = [line for line in self._lines if not line.over]
        if not self._lines or self._lines[-1].lost:
            line = _Line(self._nofile, self._on_lost)
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


class _Line:
    """The connection to one guard and its keeper, from their start to the proof of their end."""

    def __init__(self, nofile: int, on_lost: Callable[[], None]) -> None:
        self.children: dict[bytes, Child] = {}
        self.keeper = NOBODY
        self.ready = anyio.Event()
        self.lost = False
        self._on_lost = on_lost
        self._ending = False
        self._orphaned: dict[bytes, tuple[Child, anyio.CancelScope]] = {}
        self._names = itertools.count(1)
        self._writing = anyio.Lock()
        self._control_over = anyio.Event()
        self._guard_over = anyio.Event()
        self._receipt: KillReceipt | None = None
        self._start(nofile)

    def _start(self, nofile: int) -> None:
        with ExitStack() as far, ExitStack() as near:
            try:
                self._control, control = channel_pair(near, far)
                self._watch, watch = channel_pair(near, far)
                fds = (control.fileno(), watch.fileno())
                words = [*map(str, fds), str(os.getpid()), str(nofile)]
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", kernel.__file__, *words], pass_fds=fds
                )
                near.callback(self._process.wait)
                near.callback(self._process.kill)
                self.guard = _identity(self._process.pid)
                self._pidfd = os.pidfd_open(self._process.pid)
            except OSError as error:
                raise BridgeError(
                    "start_failed", f"The keeper of the agents cannot be started: {error.strerror}."
                ) from error
            near.pop_all()

    @property
    def over(self) -> bool:
        """Whether guard, keeper and all children are gone."""
        return self._guard_over.is_set() and self._control_over.is_set() and not self.children

    # ---- children ----

    def register(self, child: Child) -> bytes:
        """Take a child in, before it is started."""
        name = b"%d" % next(self._names)
        self.children[name] = child
        return name

    async def hand_over(self, name: bytes, fds: list[int]) -> bool:
        """Send an order with its descriptors; False if there is no keeper to take it."""
        self._wake()
        async with self._writing:
            while not self.lost:
                try:
                    socket.send_fds(self._control, [name], fds, socket.MSG_NOSIGNAL)
                except BlockingIOError:
                    await anyio.wait_writable(self._control)
                except OSError as error:
                    if error.errno not in {errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN}:
                        raise no_room(error) from error
                    self._lose()
                else:
                    return True
        return False

    async def follow_child(self, name: bytes, child: Child) -> None:
        """Hear a shim out; if it ends without a proof, wait for whoever sweeps after it."""
        try:
            await child.follow()
            if child.receipt is None and child.failure is not None:
                child.settle(NOTHING_STARTED)
            if child.receipt is None:
                self._wake()
                with anyio.move_on_after(LAST_STEP_LIMIT) as patience:
                    self._orphaned[name] = child, patience
                    self._settle_orphans()
                    await child.wait_gone()
            if child.receipt is None:
                child.settle(await child.sweep())
        finally:
            child.settle(child.unproven() if child.receipt is None else child.receipt)
            self._orphaned.pop(name, None)
            self.children.pop(name, None)

    def _settle_orphans(self) -> None:
        """Give the guard's proof to those whose shim, and whose keeper, could not give theirs."""
        if not self._guard_over.is_set():
            return
        for child, patience in self._orphaned.values():
            if self._receipt is not None:
                child.settle(self._receipt)
            elif self._control_over.is_set():
                patience.cancel()  # nobody is left who could sweep

    # ---- keeper and guard ----

    async def follow_keeper(self) -> None:
        """Take in what the keeper says until it is gone."""
        try:
            while data := await hear(self._control):
                word, *rest = data.split(b" ")
                if word == b"hello":
                    self.keeper = ProcessId(int(rest[0]), int(rest[1]))
                    self.ready.set()
                elif word == b"swept":
                    receipt = KillReceipt(*map(kernel.decode_pids, rest[1:]))
                    for name in rest[0].split(b","):
                        if name in self.children:
                            self.children[name].settle(receipt)
        finally:
            self._lose()
            self._control.close()
            self._control_over.set()
            self._settle_orphans()

    async def follow_guard(self) -> None:
        """Wait for the guard's exit, reap it, and take in its last word."""
        try:
            await anyio.wait_readable(self._pidfd)
            self._process.wait()
            data = await hear(self._watch)
            if data:
                self._receipt = KillReceipt(*map(kernel.decode_pids, data.split(b" ")[2:]))
        finally:
            self._guard_over.set()
            self._lose()
            self._settle_orphans()
            os.close(self._pidfd)
            self._watch.close()

    async def end(self) -> None:
        """Let keeper and guard end, and make sure of it."""
        self._ending = True
        self._lose()
        with anyio.move_on_after(END_LIMIT):
            await self._guard_over.wait()
            await self._control_over.wait()
        if not self._guard_over.is_set():
            self._process.kill()
            await self._guard_over.wait()

    def abandon(self) -> None:
        """Give up helpers that do not come up; the next spawn starts others."""
        self._ending = True
        self._lose()
        self._process.kill()

    def _lose(self) -> None:
        """Close everything in our direction: what is left of keeper and shims ends by that."""
        if self.lost:
            return
        self.lost = True
        self.ready.set()
        for channel in (self._control, self._watch):
            try:
                channel.shutdown(socket.SHUT_WR)
            except OSError:
                continue  # its other end is gone already
        for child in self.children.values():
            child.close_channel()
        self._wake()
        if not self._ending:
            self._on_lost()

    def _wake(self) -> None:
        # Nobody else would wake a keeper that was stopped, and spawn and sweep are its work.
        self.guard.signal(signal.SIGCONT)
        self.keeper.signal(signal.SIGCONT)


def _identity(pid: int) -> ProcessId:
    row = kernel.read_process(pid)
    return NOBODY if row is None else ProcessId(pid, row.start_ticks)
