"""An ACP agent whose every byte the test writes, in memory, behind the real runtime."""

import json
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from acpbridge.controller.memory import MemoryLauncher
from acpbridge.model.agents import AgentDefinition, AgentFacts
from acpbridge.model.keys import AgentId
from acpbridge.runtimes.acp import AcpRuntime
from acpbridge.runtimes.base import New, Opening, RuntimeSession, SessionHost, SessionSpec
from acpbridge.transport.memory import MemoryEnd
from tests.unit.runtimes.scenarios import spec_fields, text

SESSION = "s-1"
OPTIONS = (
    {"optionId": "allow_once", "name": "Yes", "kind": "allow_once"},
    {"optionId": "reject_once", "name": "No", "kind": "reject_once"},
)
PERMISSION = "session/request_permission"
END = {"stopReason": "end_turn"}


def line(**message: Any) -> bytes:
    """Return a message as a line."""
    return json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"


def params(**other: Any) -> dict[str, Any]:
    """Return sound params of a permission request, but for what is given."""
    call = {"toolCallId": "t-1", "title": "rm x", "kind": "execute", "rawInput": {"command": "x"}}
    return {"sessionId": SESSION, "toolCall": call, "options": list(OPTIONS), **other}


class Wire:
    """The agent's end. It answers by itself what sets a session up, and all else is the test's."""

    def __init__(self, answers: Mapping[str, Any]) -> None:
        self._answers = {
            "initialize": {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}},
            "session/new": {"sessionId": SESSION},
            "session/load": {},
            **answers,
        }
        self._up = anyio.Event()
        self._end: MemoryEnd | None = None
        self._news = anyio.Event()
        self.ended = False
        self.heard: list[dict[str, Any]] = []
        self.before: dict[str, bytes] = {}  # what is sent before the answer to a method

    async def main(self, end: MemoryEnd) -> None:
        self._end = end
        held = b""
        try:
            while True:
                *lines, held = (held + await end.receive()).split(b"\n")
                for one in lines:
                    await self._take(json.loads(one))
        except anyio.EndOfStream:
            self.ended = True
            self._tell()

    async def _take(self, message: dict[str, Any]) -> None:
        method = message.get("method", "")
        if "id" in message and method in self.before:
            await self.raw(self.before.pop(method))
        if "id" in message and method in self._answers:
            await self.send({"id": message["id"], "result": self._answers[method]})
        self.heard.append(message)
        self._tell()

    def _tell(self) -> None:
        self._news.set()
        self._news = anyio.Event()

    async def raw(self, data: bytes) -> None:
        assert self._end is not None
        await self._end.send(data)

    async def send(self, *messages: Mapping[str, Any]) -> None:
        """Send messages in one write."""
        await self.raw(b"".join(line(**message) for message in messages))

    async def until(self, method: str) -> dict[str, Any]:
        """Return the first request or notification of a method, once there is one."""
        while not (found := [m for m in self.heard if m.get("method") == method]):
            await self._news.wait()
        return found[0]

    async def answers(self, number: Any, count: int = 1) -> list[dict[str, Any]]:
        """Wait for so many answers to a request of the agent; return all that there are by then."""
        while len(found := self.answered(number)) < count:
            await self._news.wait()
        return found

    def answered(self, number: Any) -> list[dict[str, Any]]:
        """Return the answers to a request of the agent that came so far."""
        same = json.dumps(number)
        return [m for m in self.heard if "method" not in m and json.dumps(m["id"]) == same]

    async def settled(self) -> None:
        """Wait until all that was sent was taken in: its order is kept."""
        number = f"settled-{len(self.heard)}"
        await self.send({"id": number, "method": "_settled"})
        await self.answers(number)


@asynccontextmanager
async def wired(
    folder: Path,
    host: SessionHost,
    *,
    facts: AgentFacts | None = None,
    mode: str | None = None,
    allow_bypass: bool = False,
    serves: bool = False,
    how: Opening | None = None,
    before: Mapping[str, bytes] | None = None,
    **answers: Any,
) -> AsyncIterator[tuple[RuntimeSession, Wire]]:
    """Have a session over such an agent, opened.

    Args:
        folder: its directory.
        host: its host.
        facts: what is known of the agent.
        mode: of its definition.
        allow_bypass: of its definition.
        serves: whether the agent gets files and terminals.
        how: it is opened; None leaves that to the test.
        before: what the agent sends before its answer to a method.
        answers: to what the client sends, with "_" for "/".
    """
    wire = Wire({name.replace("_", "/", 1): answer for name, answer in answers.items()})
    wire.before = dict(before or {})
    definition = AgentDefinition(
        AgentId("wired"),
        command=(sys.executable,),
        mode=mode,
        allow_bypass=allow_bypass,
        client_fs_read=serves,
        client_fs_write=serves,
        client_terminal=serves,
        facts=facts or AgentFacts(grace=0.01),
    )
    spec = SessionSpec(**spec_fields(definition, str(folder)))
    async with AcpRuntime(MemoryLauncher(wire.main)).connect(spec, host) as session:
        if how is not None:
            await session.open(how)
        yield session, wire


@asynccontextmanager
async def prompted(
    folder: Path, host: SessionHost, **more: Any
) -> AsyncIterator[tuple[RuntimeSession, Wire, int]]:
    """Have a turn under way; the id of its prompt comes too. What becomes of it is nobody's."""
    async with (
        wired(folder, host, how=New(), **more) as (session, wire),
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(session.prompt, text("go"))
        number = (await wire.until("session/prompt"))["id"]
        yield session, wire, number
        tasks.cancel_scope.cancel()
