"""The symmetric JSON-RPC 2.0 peer, without I/O: it serves either end of any connection.

Below is `framing`; above is `transport.connection`, which moves the bytes. Built on jsonrpc-base's
messages and errors, which no other module imports. What the peer promises: an id of ours is never
used twice; an incoming request is answered at most once; an id that is reused while it is open is
answered with one error and the open request is withdrawn; any bytes give messages or `Noise`, never
an exception.
"""

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final

import jsonrpc_base

from acpbridge.errors import INVALID_REQUEST, PARSE_ERROR, BridgeError
from acpbridge.protocol import strict
from acpbridge.protocol.encoded import Encoded
from acpbridge.protocol.envelope import early, lenient
from acpbridge.protocol.errors import answer_problem, broken_answer, read_error, wire_error
from acpbridge.protocol.framing import DEFAULT_LIMIT, HEAD, LineSplitter, TooLong

# The method whose lines a bridge relays unread but for their envelope.
RELAYED: Final = "session/update"

# An agent that opens more requests than this at once is answered with errors.
MAX_OPEN_CALLS: Final = 256

Id = str | int | float


@dataclass(eq=False, slots=True)
class Call:
    """A request of the other side, open until it is answered.

    Attributes:
        method: as it came.
        params: decoded strictly.
        id: the exact JSON value of its id.
        line: the bytes as they came.
        open: False once it was answered or withdrawn.
        outside_turn: set by whoever takes it in, where it came while no prompt was open.
    """

    method: str
    params: Any
    id: Id
    line: bytes
    open: bool = True
    outside_turn: bool = False

    @property
    def wire_id(self) -> str:
        """The id as JSON text, which tells 1, 1.0, "1" and true apart."""
        return json.dumps(self.id)


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification of the other side.

    Attributes:
        method: as it came.
        params: decoded.
        line: the bytes as they came.
        update: those of its `params.update` where that was too long to be decoded.
    """

    method: str
    params: Any
    line: bytes
    update: bytes | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a request of ours: a result, or the error."""

    id: int
    result: Any = None
    error: BridgeError | None = None


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """An open request that must not be answered any more; what was due has been sent."""

    call: Call


@dataclass(frozen=True, slots=True)
class Noise:
    """Bytes that are no message for us: why, and the first of them.

    Attributes:
        reason: for the log.
        head: at most 200 bytes, undecoded.
        malformed_request: whether it was meant as a request; only these are held against a peer.
        too_long: whether something that was said is lost because its line was too long.
    """

    reason: str
    head: bytes
    malformed_request: bool = False
    too_long: bool = False


@dataclass(frozen=True, slots=True)
class Unread:
    """A long line that begins like one that is relayed; see `envelope.splits` for what it takes."""

    line: bytes


Sorted = Call | Notification | Answer | Withdrawn | Noise
Incoming = Sorted | Unread


class _Params(dict[str, Any]):
    """Parameters that are written even when empty: jsonrpc-base leaves out a falsy object."""

    def __bool__(self) -> bool:
        return True


@dataclass(slots=True)
class Peer:
    """One end of a connection.

    Attributes:
        takes: bytes of a line that the other side takes, where it has said so.
        outbox: bytes that the peer itself wants sent (answers to broken requests), in order.
        silent_on_noise: True towards an agent, which is never sent an id of null. Its errors are
            its own, whatever they claim to be; those of our daemon come back as they were raised.
        relayed: methods of notifications that are passed on unread but for their envelope.
        strict_limit: bytes of any other line: reading strictly takes time for all that is nested
            in it, and whoever else is served waits meanwhile.
        unread_limit: bytes beyond which a line that may be relayed is handed out as it is, for the
            same reason.
    """

    limit: int = DEFAULT_LIMIT
    silent_on_noise: bool = True
    relayed: frozenset[str] = frozenset({RELAYED})
    strict_limit: int = DEFAULT_LIMIT
    unread_limit: int = sys.maxsize
    takes: int = sys.maxsize
    outbox: list[bytes] = field(default_factory=list)
    _ids: "count[int]" = field(default_factory=count)
    _pending: dict[int, jsonrpc_base.Request] = field(default_factory=dict)
    _open: dict[str, Call] = field(default_factory=dict)
    _splitter: LineSplitter = field(init=False)

    def __post_init__(self) -> None:
        self._splitter = LineSplitter(self.limit)

    def raise_limit(self, limit: int) -> None:
        """Take longer lines from now on: the other side has said who it is."""
        self.limit = self._splitter.limit = limit

    # Sending.

    def request(self, method: str, params: Mapping[str, Any]) -> tuple[int, bytes]:
        """Return a new id and the line to send.

        Raises:
            BridgeError: `message_too_large`.
        """
        number = next(self._ids)
        request = jsonrpc_base.Request(method, _Params(params), number)
        line = self._line(request.serialize())
        self._pending[number] = request
        return number, line

    def notification(self, method: str, params: Mapping[str, Any]) -> bytes:
        """Return the line to send.

        Raises:
            BridgeError: `message_too_large`.
        """
        return self._line(jsonrpc_base.Request(method, _Params(params), None).serialize())

    def answer(self, call: Call, result: Any) -> bytes:
        """Return the line that answers the call, nothing if it was answered or withdrawn."""
        return self._respond(call, result, None)

    def refuse(self, call: Call, error: BridgeError) -> bytes:
        """Return the line that answers the call with an error, nothing if it is not open."""
        return self._respond(call, None, wire_error(error))

    def forget(self, number: int) -> None:
        """Give up waiting for an answer; one that still comes is dropped."""
        self._pending.pop(number, None)

    def open_call(self, wire_id: str) -> Call | None:
        """Return the open request of the other side with this id (JSON text)."""
        return self._open.get(wire_id)

    def close(self) -> list[int]:
        """Return the ids of our requests that will never be answered; nothing is open after."""
        for call in self._open.values():
            call.open = False
        self._open.clear()
        pending = list(self._pending)
        self._pending.clear()
        return pending

    def _respond(self, call: Call, result: Any, error: Mapping[str, Any] | None) -> bytes:
        if not call.open:
            return b""
        request = jsonrpc_base.Request(call.method, None, call.id)
        try:
            if isinstance(result, Encoded):
                line = self._bounded(result.answer(call.wire_id))
            else:
                line = self._line(jsonrpc_base.Response(request, result, error).serialize())
        except BridgeError as too_large:
            line = _error_line(request, wire_error(too_large))
        call.open = False
        self._open.pop(call.wire_id, None)
        return line

    def _line(self, text: str) -> bytes:
        return self._bounded(text.encode("ascii") + b"\n")

    def _bounded(self, line: bytes) -> bytes:
        limit = min(self.limit, self.takes)
        if len(line) > limit:
            message = f"The message has {len(line)} bytes; the limit is {limit}."
            raise BridgeError("message_too_large", message)
        return line

    # Receiving.

    def receive(self, chunk: bytes) -> list[Incoming]:
        """Return what the chunk completes, in wire order. Look at `outbox` afterwards."""
        return self._read(self._splitter.feed(chunk))

    def finish(self) -> list[Incoming]:
        """Return what an unfinished last line held, once the stream is at its end."""
        return self._read(self._splitter.finish(), whole=False)

    def _read(self, lines: list[bytes | TooLong], *, whole: bool = True) -> list[Incoming]:
        out: list[Incoming] = []
        for line in lines:
            if isinstance(line, TooLong):
                out.extend(self._too_long(line))
            else:
                out.extend(self._message(line, whole=whole))
        return out

    def _message(self, line: bytes, *, whole: bool) -> list[Incoming]:
        if len(line) > min(self.strict_limit, self.unread_limit):
            if self._may_be_relayed(line):
                if len(line) > self.unread_limit:
                    return [Unread(line)]
            elif len(line) > self.strict_limit:
                return self._broken(early(line), f"more than {self.strict_limit} bytes", line)
        return self._read_line(line, whole=whole)

    def _read_line(self, line: bytes, *, whole: bool) -> list[Incoming]:
        try:
            envelope = lenient(line)
        except ValueError:
            # Half a line at the end of the stream fails nothing: the end itself does.
            found = early(line) if whole else {}
            return self._broken(found, "not JSON", line) if found else self._noise(line)
        if not isinstance(envelope, dict):
            return [Noise("not an object", line[:200])]
        method = envelope.get("method")
        if "id" not in envelope and isinstance(method, str) and method in self.relayed:
            return [Notification(method, envelope.get("params"), line)]
        try:
            message = strict.loads(line)
        except strict.StrictError as error:
            return self._broken(envelope, str(error), line)
        return self._sorted(message, line)

    def _may_be_relayed(self, line: bytes) -> bool:
        """Tell whether a long line begins like one that is passed on; its method stands early.

        One that begins as a request is owed its answer, whatever words are in it.
        """
        head = line[:HEAD]
        return "method" not in early(head) and any(
            json.dumps(method).encode() in head for method in self.relayed
        )

    def _sorted(self, message: dict[str, Any], line: bytes) -> list[Incoming]:
        if "method" not in message:
            return [self._answered(message, line)]
        method = message["method"]
        if not isinstance(method, str):
            return self._broken(message, "the method is not a string", line)
        if "id" not in message:
            return [Notification(method, message.get("params"), line)]
        if not _is_id(message["id"]):
            return self._broken(message, "the id is not a string or a number", line)
        if message.get("jsonrpc") != "2.0":
            return self._broken(message, "jsonrpc is not 2.0", line)
        return self._called(message, line)

    def _called(self, message: dict[str, Any], line: bytes) -> list[Incoming]:
        try:
            request = jsonrpc_base.Request.parse(message)
        except jsonrpc_base.ProtocolError as error:
            return self._broken(message, str(error), line)
        call = Call(request.method, request.params, request.msg_id, line)
        earlier = self._open.get(call.wire_id)
        if earlier is not None:
            return self._reused(earlier, line)
        self._open[call.wire_id] = call
        if len(self._open) > MAX_OPEN_CALLS:
            problem = BridgeError("busy", "Too many requests are open on this connection.")
            self.outbox.append(self.refuse(call, problem))
            return [Noise("too many open requests", line[:200])]
        return [call]

    def _reused(self, earlier: Call, line: bytes) -> list[Incoming]:
        problem = BridgeError("invalid_message", "The id is in use by an open request.")
        self.outbox.append(self.refuse(earlier, problem))
        return [Withdrawn(earlier), Noise("an id was reused", line[:200], malformed_request=True)]

    def _answered(self, message: dict[str, Any], line: bytes) -> Answer | Noise:
        number = message.get("id")
        if type(number) is not int or number not in self._pending:
            return Noise("an answer to an unknown id", line[:200])
        request = self._pending.pop(number)
        error = message.get("error")
        problem = answer_problem(message)
        if problem is not None:
            text = f"The answer to {request.method} is broken: {problem}."
            return Answer(number, error=broken_answer(text, **_kept(message)))
        try:
            return Answer(number, request.parse_response(message))
        except jsonrpc_base.ProtocolError:
            return Answer(number, error=read_error(error or {}, ours=not self.silent_on_noise))

    # What is no message.

    def _noise(self, line: bytes) -> list[Incoming]:
        if not self.silent_on_noise:
            body = {"code": PARSE_ERROR, "message": "Parse error: not JSON"}
            self.outbox.append(strict.dumps({"jsonrpc": "2.0", "id": None, "error": body}) + b"\n")
        return [Noise("not JSON", line[:200])]

    def _broken(
        self, message: Mapping[str, Any], reason: str, line: bytes, code: str = "invalid_message"
    ) -> list[Incoming]:
        """Answer a broken request by its id, if that can be read; fail what a broken answer is for.

        Nothing is ever sent back for a broken answer.
        """
        number: Any = message.get("id")
        if "method" not in message:
            if type(number) is int and self._pending.pop(number, None) is not None:
                return [
                    Answer(number, error=broken_answer(f"An answer is broken: {reason}.", code))
                ]
            return [Noise(f"a broken answer: {reason}", line[:200])]
        if _is_id(number):
            earlier = self._open.get(json.dumps(number))
            if earlier is not None:
                return self._reused(earlier, line)
            body = {"code": INVALID_REQUEST, "message": f"Invalid request: {reason}"}
            self.outbox.append(_error_line(jsonrpc_base.Request("", None, number), body))
        return [Noise(reason, line[:200], malformed_request="id" in message)]

    def _too_long(self, line: TooLong) -> list[Incoming]:
        reason = f"a line of more than {line.limit} bytes"
        found = early(line.head)
        if found:
            broken = self._broken(found, reason, line.head, "message_too_large")
            return [replace(m, too_long=True) if isinstance(m, Noise) else m for m in broken]
        return [Noise(reason, line.head[:200], too_long=True)]


def _error_line(request: jsonrpc_base.Request, error: Mapping[str, Any]) -> bytes:
    """Return an error of our own as a line; it is short but for the id, and no limit stops it."""
    return jsonrpc_base.Response(request, None, error).serialize().encode("ascii") + b"\n"


def _is_id(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, str | int) and not isinstance(value, bool)


def _kept(message: Mapping[str, Any]) -> dict[str, Any]:
    return {"error": message["error"]} if message.get("error") is not None else {}
