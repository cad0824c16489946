"""The task that brings one agent's events to disk, batch by batch.

There is no timer in the path: an event that comes while nothing is being committed is committed at
once, alone; those that come during a commit form the next batch. Above is the session log, which
shows what was committed; below is the event file.
"""

import sqlite3
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, Protocol, TypeVar

import anyio
from anyio.to_thread import run_sync

from acpbridge.errors import BridgeError
from acpbridge.store.database import store_error
from acpbridge.store.eventfile import EventFile
from acpbridge.store.ring import Chunk, Stream
from acpbridge.store.traces import Traces

T = TypeVar("T")

# A quarter of the ring: followers at its tip have read a batch before it is pushed out.
BATCH_BYTES: Final = 1024 * 1024

# A full disk is looked at again this often, then ever more rarely.
RETRY_FIRST: Final = 0.5
RETRY_MOST: Final = 5.0

# While the log is being closed there are only seconds left to try.
_RETRY_CLOSING: Final = 0.1
_CLOSE_SECONDS: Final = 1.0


class Sink(Protocol):
    """What a writer tells the log above it."""

    def committed(self, chunks: list[Chunk]) -> None:
        """Show what is on disk now."""
        ...

    def failing(self, writer: "Writer", error: BridgeError | None) -> None:
        """Take note that commits fail, or (None) that they work again."""
        ...


class Writer:
    """Events of one agent on their way to its database.

    Args:
        file: the database.
        sink: told of each commit and each change between failing and working.
        threads: limits the commits of all writers together.
        readers: the same for reads.
    """

    def __init__(
        self,
        file: EventFile,
        sink: Sink,
        threads: anyio.CapacityLimiter,
        readers: anyio.CapacityLimiter,
    ) -> None:
        self.file = file
        self._sink = sink
        self._threads = threads
        self._readers = readers
        self._waiting: deque[Chunk] = deque()
        self._signals = _Signals()
        self._connection = anyio.Lock()

    def add(self, stream: Stream, line: bytes) -> None:
        """Take the stream's next line. Cannot block and cannot fail."""
        chunk = stream.add(line)
        if chunk is not None:
            self._waiting.append(chunk)
            self._signals.work.set()

    async def last(self, name: str) -> int:
        """Return the highest stored number of a session.

        Raises:
            BridgeError: `store_full`, when the file can be neither read nor made.
        """
        return await self._locked(lambda: self.file.last(name), abandon=False)

    async def history(self, stream: Stream, after: int) -> tuple[int, list[bytes]]:
        """Return stored lines after a number, with the number of the first.

        Raises:
            BridgeError: `internal` or `store_full`, when the file cannot be read.
        """
        return await self._read(partial(self.file.read, stream.name, after, stream.committed))

    async def traces(self, name: str) -> Traces:
        """Return what is stored of a session's turns and questions.

        Raises:
            BridgeError: `internal` or `store_full`, when the file cannot be read.
        """
        return await self._read(lambda: self.file.traces(name))

    async def _read(self, read: Callable[[], T]) -> T:
        try:
            # A read has a connection of its own, so that its thread may be left behind.
            return await run_sync(read, abandon_on_cancel=True, limiter=self._readers)
        except sqlite3.Error:
            await self._locked(self.file.mend, abandon=False)
        try:
            return await run_sync(read, abandon_on_cancel=True, limiter=self._readers)
        except sqlite3.Error as error:
            message = f"{self.file.path} cannot be read: {error}."
            raise BridgeError("internal", message) from error

    async def forget(self, name: str) -> None:
        """Delete what is stored of a session, in steps between which others commit.

        Raises:
            BridgeError: `store_full`, when it cannot be deleted, or not all of it.
        """
        while await self._locked(lambda: self.file.forget(name), abandon=False):
            pass

    async def reclaim(self) -> None:
        """Give the space of what was deleted back to the disk, in steps.

        Raises:
            BridgeError: `store_full`, when the file cannot be written.
        """
        while await self._locked(self.file.reclaim, abandon=False):
            pass

    async def sizes(self) -> dict[str, int]:
        """Return how many bytes are stored, by session.

        Raises:
            BridgeError: `store_full`, when the file cannot be read.
        """
        return await self._locked(self.file.sizes, abandon=False)

    async def run(self) -> None:
        """Commit what comes, until `finish` and everything is on disk, or `abandon`."""
        signals = self._signals
        try:
            # The log alone ends its writers: a cancelled owner must not cost events.
            with signals.scope:
                await self._serve()
        finally:
            signals.done.set()

    def finish(self) -> None:
        """Have the task end once everything is on disk."""
        self._signals.closing.set()
        self._signals.work.set()

    async def done(self) -> None:
        """Wait until the task has ended."""
        await self._signals.done.wait()

    def abandon(self) -> None:
        """Have the task end now, whatever is not on disk."""
        self._signals.scope.cancel()

    async def _serve(self) -> None:
        signals = self._signals
        while self._waiting or not signals.closing.is_set():
            if self._waiting:
                await self._store(self._batch())
            else:
                signals.work = anyio.Event()
                await signals.work.wait()
        with anyio.move_on_after(_CLOSE_SECONDS):
            with suppress(BridgeError):  # then marks stand where something was withheld
                await self._locked(self.file.settle, abandon=True)
            await run_sync(self.file.close, abandon_on_cancel=True, limiter=self._threads)

    def _batch(self) -> list[Chunk]:
        batch, size = list[Chunk](), 0
        while self._waiting and size < BATCH_BYTES:
            chunk = self._waiting.popleft()
            if chunk.stream.filling is chunk:
                chunk.stream.filling = None
            size += chunk.size
            batch.append(chunk)
        return batch

    async def _store(self, batch: list[Chunk]) -> None:
        delay = RETRY_FIRST
        failed = False
        while True:
            error = await self._attempt(batch, again=failed)
            if error is None:
                break
            if not failed:
                self._sink.failing(self, error)
            failed = True
            await self._signals.pause(delay)
            delay = min(2 * delay, RETRY_MOST)
        if failed:
            self._sink.failing(self, None)
        self._sink.committed(batch)

    async def _attempt(self, batch: list[Chunk], *, again: bool) -> BridgeError | None:
        try:
            await self._locked(lambda: self.file.write(batch, again=again), abandon=True)
        except BridgeError as error:
            return error
        return None

    async def _locked(self, call: Callable[[], T], *, abandon: bool) -> T:
        # One thread at a time uses the file's connection. A thread may be left behind only by
        # `abandon`: after that nobody uses the connection any more.
        try:
            async with self._connection:
                return await run_sync(call, abandon_on_cancel=abandon, limiter=self._threads)
        except (sqlite3.Error, OSError) as error:
            raise store_error(error, self.file.path) from error


class _Signals:
    """What is said to a writer's task, and by it."""

    def __init__(self) -> None:
        self.work = anyio.Event()
        self.closing = anyio.Event()
        self.done = anyio.Event()
        self.scope = anyio.CancelScope(shield=True)

    async def pause(self, seconds: float) -> None:
        """Wait before another attempt; shortly once the log is being closed."""
        if self.closing.is_set():
            await anyio.sleep(_RETRY_CLOSING)
            return
        with anyio.move_on_after(seconds):
            await self.closing.wait()
