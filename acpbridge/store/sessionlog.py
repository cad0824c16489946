"""The numbered, append-only log of all sessions' events; every face follows it by number.

`append` numbers an event at once; it may be seen only after its batch was committed. Live followers
get the bytes as they came, from a ring; the stored copy is redacted. There is one database per
agent. Where one was damaged beyond rescue, a session's numbers begin at 1 again: each line carries
the epoch of the daemon's start, so that number and epoch together never mean two things.

Above are the router and the faces. Appending and following happen on the event loop; commits and
reads happen in at most two threads each, however many agents there are.
"""

from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from weakref import ref

import anyio
from anyio.abc import TaskGroup
from anyio.to_thread import run_sync

from acpbridge.errors import BridgeError
from acpbridge.model.events import SESSION_END, Event
from acpbridge.model.faults import Faults, no_faults
from acpbridge.model.keys import AgentId, SessionKey
from acpbridge.model.ports import Clock
from acpbridge.store.database import store_error
from acpbridge.store.eventfile import EventFile
from acpbridge.store.follower import Follower
from acpbridge.store.joins import Searcher
from acpbridge.store.lines import Template, Timestamps, time_of
from acpbridge.store.ring import Chunk, Ring, Stream
from acpbridge.store.traces import Traces
from acpbridge.store.writer import Writer

RING_BYTES: Final = 4 * 1024 * 1024
PENDING_BYTES: Final = 8 * 1024 * 1024

# What counts as the store; damaged files that were moved aside are a person's business.
_FILES: Final = ("events.db", "events.db-wal")

_THREADS: Final = 2
_FLUSH_SECONDS: Final = 5.0

OnFailure = Callable[[BridgeError | None], None]

# Returns what an earlier daemon was not able to append any more: the turn and the event of each.
Mend = Callable[[Traces], Awaitable[Iterable[tuple[str | None, Event]]]]


class SessionLog:
    """The events of all sessions; a context manager that flushes when it is left.

    Args:
        root: the state directory; the databases are `agents/<id>/sessions/events.db` in it.
        clock: for the time of each event.
        epoch: of this start of the daemon.
        redact: makes the stored copy of a line, in a worker thread; pure and total.
        faults: passes `log.before_commit` and `log.after_commit`.
        ring_bytes: bound of what live followers are served from, over all sessions.
        pending_bytes: beyond it `room` waits.
        searcher: finds the secrets that are said in pieces, over the borders of events.
        on_failure: called with `store_full` when commits begin to fail, with None when they work.
    """

    def __init__(  # noqa: PLR0913 -- wired in one place, by name
        self,
        root: Path,
        clock: Clock,
        epoch: str,
        redact: Callable[[bytes], bytes],
        faults: Faults = no_faults,
        *,
        ring_bytes: int = RING_BYTES,
        pending_bytes: int = PENDING_BYTES,
        on_failure: OnFailure = lambda _: None,
        searcher: Searcher | None = None,
    ) -> None:
        self.epoch = epoch
        self._times = Timestamps(clock)
        self._sessions: dict[SessionKey, _Session] = {}
        self._opening: dict[SessionKey, anyio.Event] = {}
        files = partial(EventFile, redact=redact, faults=faults, searcher=searcher)
        self._writers = _Writers(root, files, _Publisher(ring_bytes, on_failure))
        self._pending_bytes = pending_bytes

    async def open(self, key: SessionKey, mend: Mend | None = None) -> int:
        """Make a session known, before it is appended to or followed; return its last number.

        Args:
            key: of the session.
            mend: called when it is not known yet and has stored events, or may have; what it
                returns is appended before anything else can be. None: nothing can be missing.

        Raises:
            BridgeError: `store_full`, when its database can be neither read nor made;
                `daemon_version`, when a newer version wrote it; or what `mend` raised.
        """
        while key not in self._sessions:
            if key in self._opening:
                await self._opening[key].wait()
                continue
            opened = self._opening[key] = anyio.Event()
            try:
                await self._open(key, mend)
            finally:
                del self._opening[key]
                opened.set()
        return self.last_seq(key)

    async def _open(self, key: SessionKey, mend: Mend | None) -> None:
        writer = self._writers.of(key.agent)
        stream = Stream(key, await writer.last(str(key)))
        session = _Session(stream, writer)
        missing: Iterable[tuple[str | None, Event]] = ()
        if mend is not None:
            traces = await writer.traces(str(key)) if stream.last else Traces()
            session.closed = traces.closed
            missing = await mend(traces)
        # Nothing is awaited from here on: what was missing comes first, and all of it.
        self._sessions[key] = session
        for turn, event in missing:
            self.append(key, turn, event)

    def knows(self, key: SessionKey) -> bool:
        """Tell whether a session is open."""
        return key in self._sessions

    def closed(self, key: SessionKey) -> bool:
        """Tell whether the log of an open session has the event that is its last."""
        return self._sessions[key].closed

    def append(self, key: SessionKey, turn: str | None, event: Event) -> int:
        """Take an event and return its number. Cannot block and cannot fail."""
        session = self._sessions[key]
        stream = session.stream
        session.last = seq = stream.last + 1
        line = session.template(self.epoch, turn, event.type).render(event, seq, self._times.now())
        self._writers.publisher.pending += len(line) + 1
        session.writer.add(stream, line)
        return seq

    async def room(self) -> None:
        """Wait while more is pending than the bound: only when the disk is slow or full."""
        publisher = self._writers.publisher
        while publisher.pending > self._pending_bytes:
            await publisher.drained.wait()

    async def committed(self, key: SessionKey) -> None:
        """Wait until everything that was appended so far for the session is on disk."""
        stream = self._sessions[key].stream
        wanted = stream.last
        while stream.committed < wanted:
            await stream.news()

    def follow(
        self,
        key: SessionKey,
        after: int = 0,
        *,
        live: bool = True,
        stored: bool = False,
        replay: bool = False,
    ) -> Follower:
        """Return a cursor over the session's events with numbers greater than `after`.

        Args:
            key: of the session.
            after: number of the last event that is not wanted.
            live: whether it waits for what comes; else it ends with what is on disk now.
            stored: whether it reads the stored, redacted copy alone.
            replay: whether it reads that of what is on disk by now, for somebody who came later.
        """
        session = self._sessions[key]
        stream = session.stream
        upto = None if live else stream.committed
        history, replayed = session.writer.history, stream.committed if replay else 0
        return Follower(stream, history, after, upto=upto, stored=stored, replayed=replayed)

    async def number_before(self, key: SessionKey, at: str) -> int:
        """Return the number of the last event before a moment, 0 if there is none.

        Args:
            key: of an open session.
            at: ISO 8601, UTC, in milliseconds, as in the events.

        Raises:
            BridgeError: `internal` or `store_full`, when the log cannot be read.
        """
        session = self._sessions[key]
        stream = session.stream
        low, high = 0, stream.committed
        while low < high:
            middle = (low + high) // 2
            number, lines = await session.writer.history(stream, middle)
            if lines and time_of(lines[0]) < at:
                low = number
            else:
                high = middle
        return low

    def last_seq(self, key: SessionKey) -> int:
        """Return the number of the session's newest event, committed or not."""
        return self._sessions[key].last

    # ---- Keeping it small ----

    async def forget(self, key: SessionKey) -> None:
        """Delete the stored events of a session that nobody appends to now.

        Its numbers go on where they were, should it be kept after all; else `drop` must follow.

        Raises:
            BridgeError: `store_full`, when they cannot be deleted, or not all of them.
        """
        session = self._sessions.get(key)
        if session is not None:
            # What is committed after the deletion would be left for ever.
            with anyio.move_on_after(_FLUSH_SECONDS) as waiting:
                await self.committed(key)
            if waiting.cancelled_caught:
                raise BridgeError("store_full", f"The last events of {key} are not on disk yet.")
        await self._writers.of(key.agent).forget(str(key))

    def drop(self, key: SessionKey) -> None:
        """Know a session no more; whoever follows it is told that it was deleted."""
        session = self._sessions.pop(key, None)
        if session is not None:
            session.stream.end()

    async def reclaim(self, agent: AgentId) -> None:
        """Give the space of an agent's deleted events back to the disk.

        Raises:
            BridgeError: `store_full`, when its database cannot be written.
        """
        await self._writers.of(agent).reclaim()

    async def sizes(self, agent: AgentId) -> dict[str, int]:
        """Return how many bytes of events are stored, by the session's key.

        Raises:
            BridgeError: `store_full`, when its database cannot be read.
        """
        return await self._writers.of(agent).sizes()

    async def bytes_on_disk(self) -> int:
        """Return how much room all databases take, with what is not yet merged into them."""
        return await self._writers.bytes_on_disk()

    @property
    def notices(self) -> tuple[str, ...]:
        """What an operator should know of damaged databases that were moved aside."""
        return self._writers.notices()

    async def __aenter__(self) -> Self:
        await self._writers.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        return await self._writers.stop(exc_type, exc, traceback)


class _Session:
    """One open session: its stream, who stores it, and the templates of the turn under way."""

    __slots__ = ("_key", "_stream", "_templates", "_turn", "closed", "last", "writer")

    def __init__(self, stream: Stream, writer: Writer) -> None:
        self.last = stream.last
        self.writer = writer
        self.closed = False
        self._key = stream.key
        # What is pending or in the ring holds its stream, and so does a follower; of the thousands
        # of sessions at rest none needs one.
        self._stream = ref(stream)
        self._turn: str | None = None
        self._templates: dict[str, Template] = {}

    @property
    def stream(self) -> Stream:
        """Where it stands; hold it as long as it is needed."""
        stream = self._stream()
        if stream is None:  # nobody held it any more: all of it is on disk
            stream = Stream(self._key, self.last)
            self._stream = ref(stream)
        return stream

    def template(self, epoch: str, turn: str | None, kind: str) -> Template:
        if turn != self._turn:
            self._turn = turn
            self._templates.clear()
        found = self._templates.get(kind)
        if found is None:
            self.closed = self.closed or kind == SESSION_END
            found = Template(epoch, self._key, turn, kind)
            if turn is not None:  # what is outside of any turn is rare, and would stay
                self._templates[kind] = found
        return found


class _Publisher:
    """What is said when batches are committed or cannot be."""

    def __init__(self, ring_bytes: int, on_failure: OnFailure) -> None:
        self.pending = 0
        self.drained = anyio.Event()
        self._ring = Ring(ring_bytes)
        self._on_failure = on_failure
        self._failing: set[Writer] = set()

    def committed(self, chunks: list[Chunk]) -> None:
        for chunk in chunks:
            self.pending -= chunk.size
            self._ring.add(chunk)
            chunk.stream.committed = chunk.last
            chunk.stream.wake()
        self.drained.set()
        self.drained = anyio.Event()

    def failing(self, writer: Writer, error: BridgeError | None) -> None:
        if error is not None:
            self._failing.add(writer)
            self._on_failure(error)
            return
        self._failing.discard(writer)
        if not self._failing:
            self._on_failure(None)


class _Writers:
    """One writer per agent, begun when it is first needed."""

    def __init__(
        self, root: Path, files: Callable[[Path], EventFile], publisher: _Publisher
    ) -> None:
        self.publisher = publisher
        self._agents = root / "agents"
        self._files = files
        self._writers: dict[AgentId, Writer] = {}
        self._threads = anyio.CapacityLimiter(_THREADS)
        self._readers = anyio.CapacityLimiter(_THREADS)
        self._tasks: TaskGroup = anyio.create_task_group()

    def of(self, agent: AgentId) -> Writer:
        writer = self._writers.get(agent)
        if writer is None:
            path = self._agents / agent / "sessions" / "events.db"
            writer = Writer(self._files(path), self.publisher, self._threads, self._readers)
            self._writers[agent] = writer
            self._tasks.start_soon(writer.run, name=f"log of {agent}")
        return writer

    async def bytes_on_disk(self) -> int:
        def look() -> int:
            found = self._agents.glob("*/sessions/events.db*")
            return sum(path.stat().st_size for path in found if path.name in _FILES)

        try:
            return await run_sync(look, limiter=self._readers)
        except OSError as error:
            raise store_error(error, self._agents) from error

    def notices(self) -> tuple[str, ...]:
        return tuple(text for writer in self._writers.values() for text in writer.file.notices)

    async def start(self) -> None:
        await self._tasks.__aenter__()

    async def stop(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        for writer in self._writers.values():
            writer.finish()
        with anyio.move_on_after(_FLUSH_SECONDS, shield=True):
            for writer in self._writers.values():
                await writer.done()
        for writer in self._writers.values():
            writer.abandon()
        if isinstance(exc, anyio.get_cancelled_exc_class()):
            return await self._tasks.__aexit__(exc_type, exc, traceback)
        # The body's own error passes as it is, not in a group: no task had a part in it.
        await self._tasks.__aexit__(None, None, None)
        return None
