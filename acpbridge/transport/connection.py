"""Drives a `Peer` over a byte stream: one reader, one writer, a task for each call.

Above are the controller (towards agents), the daemon and its client, and the faces. Wire order is
kept: notifications and answers are handled inline by the reader, in order; a call gets a task of
its own so that the reader reads on. A handler of a notification must not block.

Whoever enters the connection must also leave it, in the same task. Leaving it cancels the calls
that are still being served and fails the requests that are still open.
"""

import json
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final, Protocol, TypeVar

import anyio
import anyio.lowlevel

from acpbridge.errors import BridgeError
from acpbridge.logline import Logger
from acpbridge.protocol.jsonrpc import (
    Answer,
    Call,
    Incoming,
    Noise,
    Notification,
    Peer,
    Sorted,
    Unread,
    Withdrawn,
)
from acpbridge.transport.longlines import LongLines
from acpbridge.transport.manners import MAKE_WAY_AT_MOST, make_way
from acpbridge.transport.memory import ByteReceive, ByteSend
from acpbridge.transport.outgoing import SEND_LIMIT, Outgoing
from acpbridge.transport.tasks import Owner, background

log = Logger(__name__)

Message = TypeVar("Message", Call, Notification)

# One read takes what the pipe holds, 64 KiB by default. It is taken in by pieces, for the shortest
# messages take the longest: 2 KiB of noise 3 ms, of updates 0.5. Bytes.
READ_SIZE: Final = 64 * 1024
READ_PIECE: Final = 2 * 1024

# After a piece that took longer others get on. Seconds.
BUSY: Final = 0.0005

# After the other side's process has exited its pipe is read until it has been empty for this long
# (a grandchild may hold it open for ever), but in all no longer than the second figure. Seconds.
DRAIN_QUIET: Final = 0.1
DRAIN_AT_MOST: Final = 1.0

# A noise line is logged the first few times, then at every power of two.
NOISE_LOGGED: Final = 5


class Handler(Protocol):
    """Serves what the other side sends."""

    def on_notification(self, notification: Notification) -> None:
        """Take a notification. Runs inline in the reader: cannot block, should not fail."""
        ...

    async def on_call(self, call: Call) -> Any:
        """Return the result of a call.

        Raises:
            BridgeError: to be sent as the answer.
        """
        ...

    async def room(self) -> None:
        """Wait until more may be read."""
        ...


class _Waiter:
    def __init__(self, answered: Callable[[], None]) -> None:
        self.done = anyio.Event()
        self.answered = answered
        self.result: Any = None
        self.error: BridgeError | None = None

    def fail(self, error: BridgeError) -> None:
        self.error = error
        self.done.set()


class Connection(Owner):
    """A JSON-RPC connection; use it as an async context manager.

    Args:
        receive: where the other side's bytes come from.
        send: where ours go to.
        handler: serves the other side's calls and notifications.
        peer: the protocol state; its limit bounds a line.
        lost: the error with which open requests fail when the other side is gone.
        answering: called inline with a call and its result just before the answer is written; it
            returns the result to write instead, the last look at what may have changed since.
        arrived: called inline with each call, in wire order with the notifications around it; its
            handler runs later, so that a cancel right behind a call may overtake it there.
        send_limit: bytes unsent beyond which the other side is given up.
        long_lines: reads what the peer hands out unread; needed where it has an `unread_limit`.

    Attributes:
        given_up: why the other side was let go, "" if it was not.
        on_noise: told inline of what was no message; cannot block, should not fail.
        on_gone: the same, once the other side is gone, before its open calls are cancelled.
        first_noise: the first of it.
    """

    def __init__(  # noqa: PLR0913 - two streams, a handler, and hooks by keyword
        self,
        receive: ByteReceive,
        send: ByteSend,
        handler: Handler,
        *,
        peer: Peer | None = None,
        lost: Callable[[], BridgeError] | None = None,
        answering: Callable[[Call, Any], Any] | None = None,
        arrived: Callable[[Call], None] | None = None,
        long_lines: LongLines | None = None,
        send_limit: int = SEND_LIMIT,
    ) -> None:
        self._receive = receive
        self._handler = handler
        self._peer = peer or Peer()
        self._lost = lost or (lambda: BridgeError("connection_closed", "The other side is gone."))
        self._answering = answering or (lambda _call, result: result)
        self._arrived = arrived or (lambda _call: None)
        self._long_lines = long_lines or LongLines()
        self._waiters: dict[int, _Waiter] = {}
        self._scopes: dict[Call, anyio.CancelScope] = {}
        # Nobody reads us any more: what they have sent is read, and that is the end.
        self._outgoing = Outgoing(send, send_limit, self._overflown, self.finish_reading)
        self._quiet: float | None = None
        self._reading = anyio.CancelScope()
        self.on_noise: Callable[[Noise], None] = lambda _noise: None
        self.on_gone: Callable[[], None] = lambda: None
        self.given_up = ""
        self.first_noise: Noise | None = None
        self.noise = 0
        self.malformed_requests = 0
        self.closed = anyio.Event()

    async def _enter(self, stack: AsyncExitStack) -> None:
        stack.callback(self._gone)
        self._tasks = await stack.enter_async_context(background(self._read, self._outgoing.write))

    # Sending.

    async def request(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        retract: bool = False,
        answered: Callable[[], None] = lambda: None,
    ) -> Any:
        """Send a request and return its result.

        Args:
            method: its name.
            params: its parameters.
            retract: whether the other side is told when we are cancelled and wait no longer.
            answered: called inline when the answer arrives, in wire order with what is around it.

        Raises:
            BridgeError: the error that was answered, or that the other side is gone.
        """
        number, waiter = self._start(method, params, answered)
        try:
            await waiter.done.wait()
        except anyio.get_cancelled_exc_class():
            if retract:
                self.notify("$/cancel_request", {"requestId": number})
            raise
        finally:
            self._waiters.pop(number, None)
            self._peer.forget(number)
        if waiter.error is not None:
            raise waiter.error
        return waiter.result

    def _start(
        self, method: str, params: Mapping[str, Any], answered: Callable[[], None]
    ) -> tuple[int, _Waiter]:
        if self.closed.is_set():
            raise self._lost()
        number, line = self._peer.request(method, params)
        waiter = self._waiters[number] = _Waiter(answered)
        self._outgoing.put(line)
        return number, waiter

    def notify(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification; it is dropped when the other side is gone."""
        if not self.closed.is_set():
            self._outgoing.put(self._peer.notification(method, params))

    def send_raw(self, line: bytes) -> None:
        """Send a line that is a whole message already, for what is relayed and not re-encoded."""
        if not self.closed.is_set():
            self._outgoing.put(line)

    async def drained(self, stalled: float | None = None) -> None:
        """Wait until little enough is unsent; what is sent right after it is all that is added.

        Args:
            stalled: seconds for which the other side may take nothing.

        Raises:
            TimeoutError: it took nothing for so long.
        """
        await self._outgoing.drained(stalled)

    def send_no_longer_than(self, most: int) -> None:
        """Refuse to send a line of more bytes: the other side would not take it."""
        self._peer.takes = most

    def give_up(self, why: str) -> None:
        """Let the other side go, at once: what is unsent is lost, and nothing more is read."""
        self.given_up = why
        log.error("the other side is given up", why=why, unsent=self._outgoing.unsent)
        self._stop_reading()

    async def flushed(self) -> None:
        """Wait until everything is sent; the other side may have ended its own direction before.

        Set a limit: the other side may be there and not read.
        """
        await self._outgoing.flushed()

    def answer(self, call: Call, result: Any) -> None:
        """Answer an open call now, and end its handler: nobody waits for it any more."""
        self._outgoing.put(self._peer.answer(call, result))
        self._stop(call)

    def withdraw(self, wire_id: str) -> bool:
        """Cancel the other side's open call with this id; it is answered as cancelled, once."""
        call = self._peer.open_call(wire_id)
        if call is None:
            return False
        self._outgoing.put(self._peer.refuse(call, BridgeError("request_cancelled", "Withdrawn.")))
        self._stop(call)
        return True

    def finish_reading(self) -> None:
        """Read what is still in the pipe, then take the other side as gone.

        For a process that has exited while something else may hold its stdout open.
        """
        if self._quiet is None and not self.closed.is_set():
            self._quiet = DRAIN_QUIET
            self._tasks.start_soon(self._bound_drain, name="connection drain")
            self._reading.cancel()

    def _overflown(self, why: str) -> None:
        if not self.given_up:
            self.give_up(why)

    # Receiving.

    async def _read(self) -> None:
        try:
            while True:
                with anyio.CancelScope() as self._reading:
                    if self._quiet != 0:
                        await self._handler.room()
                    chunk = await self._next_chunk()
                    if not chunk:
                        break
                    await self._take_in(chunk)
            await self._dispatch(self._peer.finish())
        finally:
            self._gone()

    async def _take_in(self, chunk: bytes) -> None:
        # Shielded: what was read is not lost when the reading is cut short.
        with anyio.CancelScope(shield=True):
            for at in range(0, len(chunk), READ_PIECE):
                began = anyio.current_time()
                await self._dispatch(self._peer.receive(chunk[at : at + READ_PIECE]))
                if anyio.current_time() - began > BUSY:
                    # The end of one who is gone is waited for: it gives way once.
                    await make_way(MAKE_WAY_AT_MOST if self._quiet is None else 0)

    async def _next_chunk(self) -> bytes:
        """Return the next bytes, none at the end of the stream."""
        try:
            if self._quiet is None:
                return await self._receive.receive(READ_SIZE)
            if not self._quiet:
                return b""
            with anyio.move_on_after(self._quiet):
                return await self._receive.receive(READ_SIZE)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass
        return b""

    async def _bound_drain(self) -> None:
        await anyio.sleep(DRAIN_AT_MOST)
        self._stop_reading()

    def _stop_reading(self) -> None:
        self._quiet = 0.0
        self._reading.cancel()

    async def _dispatch(self, messages: list[Incoming]) -> None:
        for message in messages:
            if isinstance(message, Unread):
                self._sort(await self._long_lines.read(message))
            else:
                self._sort(message)
        while self._peer.outbox:
            self._outgoing.put(self._peer.outbox.pop(0))

    def _sort(self, message: Sorted) -> None:
        match message:
            case Notification():
                self._notified(message)
            case Call():
                # It can be withdrawn from now on, before its task has run at all.
                self._scopes[message] = anyio.CancelScope()
                self._inline(self._arrived, message)
                self._tasks.start_soon(self._serve, message, name=f"serving {message.method}")
            case Answer():
                self._answered(message)
            case Withdrawn():
                self._stop(message.call)
            case Noise():
                self._heard_noise(message)

    def _notified(self, notification: Notification) -> None:
        if notification.method == "$/cancel_request" and isinstance(notification.params, dict):
            # As JSON text, which no other type can equal.
            self.withdraw(json.dumps(notification.params.get("requestId")))
        else:
            self._inline(self._handler.on_notification, notification)

    def _inline(self, handler: Callable[[Message], None], message: Message) -> None:
        try:
            handler(message)
        except Exception:
            # The boundary of a call: one bad message ends neither reader nor session.
            log.exception("message failed", method=message.method)

    def _answered(self, answer: Answer) -> None:
        waiter = self._waiters.get(answer.id)
        if waiter is not None:
            waiter.result, waiter.error = answer.result, answer.error
            waiter.answered()
            waiter.done.set()

    async def _serve(self, call: Call) -> None:
        with self._scopes[call]:
            try:
                await anyio.lowlevel.checkpoint_if_cancelled()
                self._outgoing.put(await self._line_for(call))
            except Exception:
                # The boundary of a call: the text of an unknown error stays in the log.
                log.exception("call failed", method=call.method)
                hidden = BridgeError("internal", "acpbridge failed to serve this request.")
                self._outgoing.put(self._peer.refuse(call, hidden))
            finally:
                self._scopes.pop(call, None)

    async def _line_for(self, call: Call) -> bytes:
        try:
            result = await self._handler.on_call(call)
            return self._peer.answer(call, self._answering(call, result))
        except BridgeError as error:
            return self._peer.refuse(call, error)

    def _stop(self, call: Call) -> None:
        scope = self._scopes.get(call)
        if scope is not None:
            scope.cancel()

    def _heard_noise(self, noise: Noise) -> None:
        self.first_noise = self.first_noise or noise
        self.noise += 1
        self.malformed_requests += noise.malformed_request
        if self.noise <= NOISE_LOGGED or self.noise & (self.noise - 1) == 0:
            log.warning("noise on a connection", reason=noise.reason, count=self.noise)
        self.on_noise(noise)

    def _gone(self) -> None:
        if self.closed.is_set():
            return
        self.closed.set()
        self._outgoing.close()
        self._peer.close()
        self.on_gone()
        for call in list(self._scopes):
            self._stop(call)
        for waiter in list(self._waiters.values()):
            if not waiter.done.is_set():
                waiter.fail(self._lost())
