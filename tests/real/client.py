"""A bare ACP client on a real agent's pipes: JSON lines, no model of the protocol, all captured.

For looking at what an agent really sends, apart from the bridge. Above it: the probe. It starts a
process group of its own and always ends it.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.real.agents import RealAgent

Frame = dict[str, Any]
Answer = Callable[[Frame], Frame]


class Client:
    """One agent process, from `with` to its end."""

    def __init__(self, agent: RealAgent, cwd: Path, answer: Answer, capture: Path) -> None:
        self.frames: list[tuple[str, float, Frame]] = []
        self._agent = agent
        self._cwd = cwd
        self._answer = answer  # gives the result for a request of the agent's
        self._capture = capture
        self._next = 0
        self._lock = threading.Lock()
        self._answers: dict[int, queue.Queue[Frame]] = {}

    def __enter__(self) -> Self:
        self._log = self._capture.open("w", encoding="utf-8")
        self._errors = self._capture.with_suffix(".stderr").open("wb")
        self.started = time.monotonic()
        self.process = subprocess.Popen(
            self._agent.argv,
            cwd=self._cwd,
            env=self._agent.env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.end()
        self._log.close()
        self._errors.close()

    def end(self, grace: float = 5.0) -> float:
        """Close stdin, kill what is left after the grace; return the seconds the exit took."""
        begun = time.monotonic()
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        if not self.process.stdin.closed:
            self.process.stdin.close()
        try:
            self.process.wait(grace)
        except subprocess.TimeoutExpired:
            self.process.kill()
        took = time.monotonic() - begun
        with contextlib.suppress(ProcessLookupError):  # nothing stayed in the group
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()
        return took

    def ask(self, method: str, params: Frame, timeout: float = 60.0) -> Frame:
        """Send a request and return its whole answer frame."""
        return self.begin(method, params).get(timeout=timeout)

    def begin(self, method: str, params: Frame) -> queue.Queue[Frame]:
        """Send a request; its answer frame will come in the queue."""
        with self._lock:
            number = self._next
            self._next += 1
            answer: queue.Queue[Frame] = queue.Queue()
            self._answers[number] = answer
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        return answer

    def tell(self, method: str, params: Frame) -> None:
        """Send a notification."""
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def updates(self, *kinds: str) -> list[Frame]:
        """Return the session updates of these kinds so far, or all of them."""
        with self._lock:
            frames = [f for way, _, f in self.frames if way == "a2c"]
        found = [f["params"]["update"] for f in frames if f.get("method") == "session/update"]
        return [u for u in found if not kinds or u["sessionUpdate"] in kinds]

    def text(self) -> str:
        """Return the agent's text so far."""
        return "".join(u["content"].get("text", "") for u in self.updates("agent_message_chunk"))

    def _send(self, frame: Frame) -> None:
        assert self.process.stdin is not None
        self._note("c2a", frame)
        self.process.stdin.write(json.dumps(frame).encode() + b"\n")
        self.process.stdin.flush()

    def _note(self, way: str, frame: Frame) -> None:
        with self._lock:
            self.frames.append((way, time.monotonic() - self.started, frame))
            self._log.write(json.dumps({"dir": way, "msg": frame}) + "\n")
            self._log.flush()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            frame = json.loads(line)
            self._note("a2c", frame)
            if "method" not in frame:
                waiting = self._answers.get(frame["id"])
                if waiting:
                    waiting.put(frame)
            elif "id" in frame:
                # A thread each, so that an answer may wait for something else to happen.
                threading.Thread(target=self._serve, args=(frame,)).start()

    def _serve(self, frame: Frame) -> None:
        answer = self._answer(frame)
        if answer:
            self._send({"jsonrpc": "2.0", "id": frame["id"], **answer})
