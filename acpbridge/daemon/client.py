"""A client of the daemon: connects, starts it where that is allowed, and follows events.

Below is the same `Connection` that speaks to agents. A daemon that is frozen accepts and never
answers, so connect and hello share one limit.
"""

import os
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import anyio
from anyio.abc import SocketStream

from acpbridge import __version__
from acpbridge.config.environment import MARK
from acpbridge.daemon import lock
from acpbridge.daemon.params import write_run
from acpbridge.daemon.paths import PROGRAM, Paths, check_private, make_private
from acpbridge.daemon.wire import (
    ATTEND,
    EVENTS,
    HELLO,
    HELLO_LIMIT,
    UNFOLLOW,
    WIRE_VERSION,
    check_versions,
)
from acpbridge.errors import BridgeError
from acpbridge.model.permission import Effect
from acpbridge.protocol import rawjson, strict
from acpbridge.protocol.jsonrpc import Call, Notification, Peer
from acpbridge.router.api import RunRequest
from acpbridge.transport import unix
from acpbridge.transport.connection import Connection
from acpbridge.transport.detach import start_detached
from acpbridge.transport.tasks import background

# A daemon of 60 MB starts in half a second; a machine in distress needs longer. Seconds.
START_LIMIT: Final = 20.0

# Between two looks for the socket of a daemon that somebody else is starting. Seconds.
LOOK_PAUSE: Final = 0.05

# Events that wait to be read here; beyond either the connection is not read any further.
EVENTS_HELD: Final = 4096
BYTES_HELD: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class EventLine:
    """One event: its line as it came, and decoded."""

    raw: bytes
    value: Mapping[str, Any]


class Events:
    """The events of one session, in order.

    Attributes:
        newest: number of the newest event when it was begun to follow.
        room: set when more can be read.
        lost: whether the daemon is gone.
    """

    def __init__(self) -> None:
        self.newest = 0
        self._held: deque[EventLine] = deque()
        self._size = 0
        self._news = anyio.Event()
        self._why = BridgeError("connection_closed", "The daemon is gone.")
        self.room = anyio.Event()
        self.lost = False
        self.over = False

    @property
    def full(self) -> bool:
        """Whether no more should be read for now."""
        return len(self._held) >= EVENTS_HELD or self._size >= BYTES_HELD

    def put(self, lines: list[EventLine]) -> None:
        """Take events at the end."""
        self._held.extend(lines)
        self._size += sum(len(line.raw) for line in lines)
        self._news.set()

    def end(self, why: BridgeError | None = None) -> None:
        """Nothing more will come: because of an error, or because the daemon is gone."""
        if not self.lost and not self.over:
            self.lost, self._why = True, why or self._why
        self._news.set()

    def finish(self) -> None:
        """Nothing more will come: all was there that was wanted."""
        self.over = True
        self._news.set()

    async def next(self) -> EventLine:
        """Return the next event.

        Raises:
            anyio.EndOfStream: all was read that was wanted.
            BridgeError: `connection_closed`, when the daemon is gone and nothing is left, or why
                no more can be read (`no_such_session` when the session was deleted).
        """
        while not self._held:
            if self.over:
                raise anyio.EndOfStream
            if self.lost:
                raise self._why
            self._news = anyio.Event()
            await self._news.wait()
        was_full = self.full
        event = self._held.popleft()
        self._size -= len(event.raw)
        if was_full and not self.full:  # only then does anybody wait for it
            self.room.set()
            self.room = anyio.Event()
        return event


class DaemonClient:
    """What a command asks of the daemon; made by `connect`."""

    def __init__(self) -> None:
        self._followed: dict[int, Events] = {}
        self._early: dict[int, Events] = {}
        self._newest = 0
        self.connection: Connection
        self.hello: Mapping[str, Any] = {}

    # ---- Handler ----

    def on_notification(self, notification: Notification) -> None:
        """Take events in."""
        if notification.method != EVENTS or not isinstance(notification.params, dict):
            return
        number = notification.params.get("follow")
        values = notification.params.get("events")
        text = notification.line.decode("utf-8", "surrogateescape")
        raws = rawjson.items(rawjson.member(text, "params", "events") or "[]")
        lines = [
            EventLine(raw.encode("utf-8", "surrogateescape"), value)
            for raw, value in zip(raws, values or [], strict=False)
        ]
        if not isinstance(number, int) or not self._expected(number):
            return
        # The first events may overtake the answer that names their number.
        events = self._followed.get(number) or self._early.setdefault(number, Events())
        events.put(lines)
        if "end" in notification.params:
            _end(events, notification.params["end"])

    def _expected(self, number: int) -> bool:
        """Tell whether events are for somebody: followed, or about to be, but not let go."""
        return number in self._followed or number > self._newest

    async def on_call(self, call: Call) -> Any:
        """The daemon calls nothing on its clients."""
        raise BridgeError("method_not_found", f"There is no method {call.method!r}.")

    async def room(self) -> None:
        """Wait while somebody does not read their events."""
        for events in list(self._followed.values()):
            while events.full:
                await events.room.wait()

    # ---- Calls ----

    async def call(self, method: str, **params: Any) -> Any:
        """Call any method of the daemon.

        Raises:
            BridgeError: what the daemon answered, or `connection_closed`.
        """
        await self.connection.drained()
        return await self.connection.request(method, params)

    async def answers(self) -> bool:
        """Ask whether the daemon is there; it is taken to be while we do not read ourselves.

        Raises:
            BridgeError: `connection_closed`.
        """
        with anyio.move_on_after(HELLO_LIMIT):
            await self.call(HELLO, version=__version__, wire=WIRE_VERSION)
            return True
        return any(events.full for events in self._followed.values())

    async def run(self, request: RunRequest) -> Mapping[str, Any]:
        """Have a turn accepted; return the receipt."""
        receipt: Mapping[str, Any] = await self.call("run", **write_run(request))
        return receipt

    def attend(self, key: str) -> None:
        """Tell that a person is asked here what a session asks; "" for all sessions."""
        if not self.connection.closed.is_set():
            self.connection.notify(ATTEND, {"key": key})

    async def answer(
        self,
        question: str,
        *,
        option: str | None,
        effect: Effect | None,
        note: str = "",
        confirm: str | None = None,
    ) -> Mapping[str, Any]:
        """Answer a question; return the decision."""
        decision: Mapping[str, Any] = await self.call(
            "answer", id=question, optionId=option, effect=effect, note=note, confirm=confirm
        )
        return decision

    @asynccontextmanager
    async def follow(self, key: str, after: int, **span: Any) -> AsyncIterator[Events]:
        """Follow a session's events, until the context is left.

        Args:
            key: of the session.
            after: number of the last event that is not wanted, or -N for the last N.
            span: further params of the call: `since`, `live`, `stored`.
        """
        async with self._followed_by("follow", key=key, after=after, **span) as events:
            yield events

    @asynccontextmanager
    async def watch(self, key: str = "") -> AsyncIterator[Events]:
        """Follow what a session and all below it ask, "" for all; first what is open."""
        async with self._followed_by("watch", key=key) as events:
            yield events

    @asynccontextmanager
    async def _followed_by(self, method: str, **params: Any) -> AsyncIterator[Events]:
        answer = await self.call(method, **params)
        number = answer["follow"]
        self._newest = max(self._newest, number)
        events = self._early.pop(number) if number in self._early else Events()
        events.newest = answer.get("newest", 0)
        self._followed[number] = events
        if self.connection.closed.is_set():
            events.end()
        try:
            yield events
        finally:
            del self._followed[number]
            if not self.connection.closed.is_set():
                self.connection.notify(UNFOLLOW, {"follow": number})

    async def watch_end(self) -> None:
        """Tell whoever waits for events when the daemon is gone."""
        await self.connection.closed.wait()
        for events in self._followed.values():
            events.end()


@asynccontextmanager
async def connect(paths: Paths, *, start: bool) -> AsyncIterator[DaemonClient]:
    """Connect to the daemon of a state directory.

    Args:
        paths: of the state directory.
        start: whether to start a daemon where none runs; never inside a supervised tree.

    Raises:
        BridgeError: `daemon_unreachable`, `daemon_frozen`, `daemon_version`, `not_our_socket`,
            and whatever kept a new daemon from starting.
    """
    patience = anyio.current_time() + START_LIMIT
    async with AsyncExitStack() as stack:
        while True:
            async with AsyncExitStack() as attempt:
                client = await _attempt(attempt, paths, start=start)
                if client is not None:
                    await stack.enter_async_context(attempt.pop_all())
                    break
            # It was just ending, and had taken nothing: the next one will do.
            if anyio.current_time() >= patience:
                raise _unreachable(paths)
            await anyio.sleep(LOOK_PAUSE)
        yield client


async def _attempt(stack: AsyncExitStack, paths: Paths, *, start: bool) -> DaemonClient | None:
    """Return a client that has said hello; None if the daemon is on its way out."""
    client = DaemonClient()
    began = anyio.current_time()
    stream = await stack.enter_async_context(await _reach(paths, start=start))
    peer = Peer(silent_on_noise=False, relayed=frozenset({EVENTS}))
    client.connection = Connection(stream, stream, client, peer=peer)
    await stack.enter_async_context(client.connection)
    await stack.enter_async_context(background(client.watch_end))
    try:
        # One limit for both, but a daemon that had to be started first has used none of it.
        used = anyio.current_time() - began
        await _say_hello(client, HELLO_LIMIT if used > HELLO_LIMIT else HELLO_LIMIT - used)
    except BridgeError as error:
        if error.code != "connection_closed":
            raise
        return None
    return None if start and client.hello.get("stopping") else client


def _end(events: Events, why: Any) -> None:
    if why is None:
        events.finish()
    else:
        events.end(BridgeError.from_json(why if isinstance(why, dict) else {}))


async def _say_hello(client: DaemonClient, limit: float) -> None:
    try:
        with anyio.fail_after(limit):
            client.hello = await client.call(HELLO, version=__version__, wire=WIRE_VERSION)
    except TimeoutError:
        raise _frozen() from None
    check_versions(__version__, str(client.hello.get("version")), client.hello.get("wire"))


async def _reach(paths: Paths, *, start: bool) -> SocketStream:
    """Connect; start a daemon if there is none, and wait for one that starts or ends."""
    with anyio.move_on_after(START_LIMIT + HELLO_LIMIT if start else HELLO_LIMIT):
        while (stream := await _try(paths)) is None:
            if lock.held(paths.lock):
                await anyio.sleep(LOOK_PAUSE)
            elif not start:
                raise _absent(paths)
            else:
                await _start(paths)
        return stream
    raise _unreachable(paths)


async def _try(paths: Paths) -> SocketStream | None:
    """Return a connection, None where nobody listens."""
    try:
        check_private(paths.socket.parent)
        with anyio.fail_after(HELLO_LIMIT):
            return await unix.connect(paths.socket)
    except TimeoutError:
        raise _frozen() from None
    except (FileNotFoundError, NotADirectoryError, ConnectionRefusedError):
        return None
    except OSError as error:
        raise BridgeError("daemon_unreachable", f"{paths.socket}: {error.strerror}.") from None


async def _start(paths: Paths) -> None:
    """Start a daemon and wait until it is ready, or has said why it is not."""
    if os.environ.get(MARK):
        message = "No daemon runs, and none is started from inside a supervised agent."
        raise BridgeError("daemon_unreachable", message)
    make_private(paths.home)
    options = ("--home", str(paths.home), "daemon", "run", "--config", str(paths.config))
    ready = start_detached((*PROGRAM, *options), os.environ, paths.log, "--ready-fd")
    said = b""
    try:
        with anyio.fail_after(START_LIMIT):
            while True:
                said += await ready.receive()
    except anyio.EndOfStream:
        pass
    except TimeoutError:
        message = f"The daemon was not ready in {START_LIMIT:g} s; see {paths.log}."
        raise BridgeError("daemon_unreachable", message) from None
    finally:
        await ready.aclose()
    _check_ready(said, paths)


def _check_ready(said: bytes, paths: Paths) -> None:
    try:
        word = strict.loads(said or b"null")
    except strict.StrictError:
        word = None
    if not isinstance(word, dict):
        message = f"The daemon ended before it was ready; see {paths.log}."
        raise BridgeError("daemon_unreachable", message)
    if "error" in word:
        error = BridgeError.from_json(word["error"])
        if error.code != "daemon_running":  # somebody else was quicker, and theirs will do
            raise error


def _frozen() -> BridgeError:
    return BridgeError("daemon_frozen", f"The daemon did not answer in {HELLO_LIMIT:g} s.")


def _absent(paths: Paths) -> BridgeError:
    return BridgeError("daemon_unreachable", f"No daemon runs in {paths.home}.")


def _unreachable(paths: Paths) -> BridgeError:
    pid = lock.holder(paths.lock)
    message = f"The daemon (pid {pid or 'unknown'}) cannot be reached on {paths.socket}."
    hint = f"End it: acpbridge daemon stop --force; its log is {paths.log}."
    return BridgeError("daemon_unreachable", message, hint=hint)
