"""The daemon's line to one guard and its keeper: orders go out, and what became of them comes back.

Above is `acpbridge.transport.child`, which starts the two; below are their channels, whose words
`acpbridge.transport.helpers` defines. A line that is lost takes all its children with it.
"""

import errno
import itertools
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass

import anyio

from acpbridge.transport.helpers import killing, wire
from acpbridge.transport.program import no_room
from acpbridge.transport.tree import (
    LAST_STEP_LIMIT,
    NOBODY,
    Child,
    KillReceipt,
    ProcessId,
    hear,
)

# The keeper ends its shims, then the guard looks again: each has its own limit.
END_LIMIT = killing.END_LIMIT + 2 * killing.KILL_LIMIT

NOTHING_STARTED = KillReceipt((), ())


@dataclass(frozen=True, slots=True)
class Helpers:
    """A guard that was started, with the channels to it and to its keeper.

    Attributes:
        control: to the keeper.
        watch: to the guard.
        guard: who the guard is.
        pidfd: of the guard.
        kill: ends the guard at once, and with it the keeper and all agents.
        wait: reaps the guard once it has ended.
    """

    control: socket.socket
    watch: socket.socket
    guard: ProcessId
    pidfd: int
    kill: Callable[[], object]
    wait: Callable[[], int]


class Line:
    """The connection to one guard and its keeper, from their start to the proof of their end.

    Args:
        helpers: just started.
        on_lost: called when they are lost and were not asked to end.

    Attributes:
        children: those that are not over, by the names that the keeper knows them by.
        guard: who the guard is.
        keeper: who the keeper is, nobody before `ready`.
        ready: set once the keeper has said who it is, or is lost.
        lost: whether no child can be started any more.
    """

    def __init__(self, helpers: Helpers, on_lost: Callable[[], None]) -> None:
        self.children: dict[bytes, Child] = {}
        self.guard = helpers.guard
        self.keeper = NOBODY
        self.ready = anyio.Event()
        self.lost = False
        self._helpers = helpers
        self._on_lost = on_lost
        self._ending = False
        self._orphaned: dict[bytes, tuple[Child, anyio.CancelScope]] = {}
        self._names = itertools.count(1)
        self._writing = anyio.Lock()
        self._control_over = anyio.Event()
        self._guard_over = anyio.Event()
        self._receipt: KillReceipt | None = None

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
                    socket.send_fds(self._helpers.control, [name], fds, socket.MSG_NOSIGNAL)
                except BlockingIOError:
                    await anyio.wait_writable(self._helpers.control)
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
            while data := await hear(self._helpers.control):
                word, *rest = data.split(b" ")
                if word == b"hello":
                    self.keeper = ProcessId(int(rest[0]), int(rest[1]))
                    self.ready.set()
                elif word == b"swept":
                    receipt = KillReceipt(*map(wire.decode_pids, rest[1:]))
                    for name in rest[0].split(b","):
                        if name in self.children:
                            self.children[name].settle(receipt)
        finally:
            self._lose()
            self._helpers.control.close()
            self._control_over.set()
            self._settle_orphans()

    async def follow_guard(self) -> None:
        """Wait for the guard's exit, reap it, and take in its last word."""
        try:
            await anyio.wait_readable(self._helpers.pidfd)
            self._helpers.wait()
            data = await hear(self._helpers.watch)
            if data:
                self._receipt = KillReceipt(*map(wire.decode_pids, data.split(b" ")[2:]))
        finally:
            self._guard_over.set()
            self._lose()
            self._settle_orphans()
            os.close(self._helpers.pidfd)
            self._helpers.watch.close()

    async def end(self) -> None:
        """Let keeper and guard end, and make sure of it."""
        self._ending = True
        self._lose()
        with anyio.move_on_after(END_LIMIT):
            await self._guard_over.wait()
            await self._control_over.wait()
        if not self._guard_over.is_set():
            self._helpers.kill()
            await self._guard_over.wait()

    def abandon(self) -> None:
        """Give up helpers that do not come up; the next spawn starts others."""
        self._ending = True
        self._lose()
        self._helpers.kill()

    def _lose(self) -> None:
        """Close everything in our direction: what is left of keeper and shims ends by that."""
        if self.lost:
            return
        self.lost = True
        self.ready.set()
        for channel in (self._helpers.control, self._helpers.watch):
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
