"""A client of the control socket that shares no code with acpbridge: threads and a plain socket."""

import json
import queue
import re
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

WIRE = int(
    re.findall(
        r"^WIRE_VERSION\D*= (\d+)$",
        (Path(__file__).parents[2] / "acpbridge/daemon/wire.py").read_text(encoding="utf-8"),
        re.MULTILINE,
    )[0]
)
VERSION = re.findall(
    r'^__version__\D*= "(.+)"$',
    (Path(__file__).parents[2] / "acpbridge/__init__.py").read_text(encoding="utf-8"),
    re.MULTILINE,
)[0]
LIMIT = 30.0  # ten times what a call may take under load, in seconds

Take = Callable[[list[Any], Any], None]


class GoneError(Exception):
    """The connection ended before the answer came."""


class StuckError(Exception):
    """No answer came, and the connection is there."""


class CallError(Exception):
    """The daemon answered with an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(str(error))
        data = error.get("data")
        self.code = str(data.get("code") if isinstance(data, dict) else error.get("code"))


class Tally:
    """How the requests of all clients went."""

    def __init__(self) -> None:
        self.sent = 0
        self.answered = 0
        self.cut = 0  # by the end of their connection
        self.doubled = 0
        self.stuck: list[str] = []
        self.errors: dict[str, int] = {}
        self.lock = threading.Lock()

    def count(self, name: str) -> None:
        with self.lock:
            setattr(self, name, getattr(self, name) + 1)

    def error(self, code: str) -> None:
        with self.lock:
            self.errors[code] = self.errors.get(code, 0) + 1


class Client:
    """One connection that has said hello; its calls may come from several threads."""

    def __init__(self, path: Path, tally: Tally) -> None:
        self._tally = tally
        self._sock = socket.socket(socket.AF_UNIX)
        self._sock.settimeout(LIMIT)
        self._write = threading.Lock()
        self._id = 0
        self._open: dict[int, queue.SimpleQueue[Any]] = {}
        self._taking: dict[int, Take] = {}
        self._early: dict[int, list[Any]] = {}
        self.gone = False
        try:
            self._sock.connect(str(path))
        except OSError:
            self._sock.close()
            raise GoneError from None
        self._sock.settimeout(None)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        try:
            self.hello = self.call("hello", version=VERSION, wire=WIRE)
        except BaseException:
            self.close()
            raise

    def call(self, method: str, *, limit: float = LIMIT, **params: Any) -> Any:
        """Call a method; raises GoneError, StuckError or CallError."""
        answer: queue.SimpleQueue[Any] = queue.SimpleQueue()
        with self._write:
            if self.gone:
                raise GoneError
            self._id += 1
            number = self._id
            self._open[number] = answer
            self._tally.count("sent")
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            try:
                self._sock.sendall(json.dumps(request).encode() + b"\n")
            except OSError:
                self.sever()
        try:
            message = answer.get(timeout=limit)
        except queue.Empty:
            if limit >= LIMIT:  # else the caller only wanted a look
                self._tally.stuck.append(f"{method} {params}"[:200])
            raise StuckError(method) from None
        if message is None:
            self._tally.count("cut")
            raise GoneError
        if "error" in message:
            error = CallError(message["error"])
            self._tally.error(error.code)
            raise error
        return message["result"]

    def follow(self, key: str, after: int, take: Take, **span: Any) -> int:
        """Hand a session's events, in the reader's thread, to `take`; and its end, if it has one.

        Returns the number to let go of it by.
        """
        number: int = self.call("follow", key=key, after=after, **span)["follow"]
        with self._write:
            self._taking[number] = take
            for params in self._early.pop(number, []):
                take(params["events"], params.get("end", ...))
            if self.gone:
                take([], {"code": "gone"})
        return number

    def unfollow(self, number: int) -> None:
        """Let go of a session's events."""
        note = {"jsonrpc": "2.0", "method": "unfollow", "params": {"follow": number}}
        with self._write, suppress(OSError):
            self._taking[number] = lambda _rows, _end: None
            self._sock.sendall(json.dumps(note).encode() + b"\n")

    def sever(self) -> None:
        """End it as a client's death would."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.sever()
        self._thread.join(LIMIT)
        self._sock.close()

    def _read(self) -> None:
        held = b""
        with suppress(OSError):
            while chunk := self._sock.recv(1 << 18):
                *lines, held = (held + chunk).split(b"\n")
                for line in lines:
                    self._take(json.loads(line))
        with self._write:
            self.gone = True
            waiting, self._open = list(self._open.values()), {}
            taking = list(self._taking.values())
        for answer in waiting:
            answer.put(None)
        for take in taking:
            take([], {"code": "gone"})

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("method") == "events":
            params = message["params"]
            with self._write:
                take = self._taking.get(params["follow"])
                if take is None:
                    self._early.setdefault(params["follow"], []).append(params)
                else:
                    take(params["events"], params.get("end", ...))
            return
        with self._write:
            answer = self._open.pop(message.get("id", -1), None)
        if answer is None:
            self._tally.count("doubled")
            return
        self._tally.count("answered")
        answer.put(message)


def connect(path: Path, tally: Tally, limit: float, going_on: Callable[[], bool]) -> Client | None:
    """Connect as soon as a daemon serves; None when there was none in the limit."""
    deadline = time.monotonic() + limit
    while going_on() and time.monotonic() < deadline:
        try:
            return Client(path, tally)
        except (GoneError, StuckError, CallError):
            time.sleep(0.01)
    return None
