"""A session of the scripted agent that has commands run by the bridge."""

import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.abc

from acpbridge.controller.supervisor import Supervisor
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.events import Fact
from acpbridge.model.keys import AgentId
from acpbridge.model.permission import Decision, PermissionAsk
from acpbridge.runtimes.acp import AcpRuntime
from acpbridge.runtimes.base import New, RuntimeSession, SessionSpec
from fixtures.fake_acp import fake_agent
from tests.integration.agents import supervisor
from tests.integration.conftest import Observer
from tests.unit.runtimes.scenarios import Recorder, allow, spec_fields, text

HANG = 60
PYTHON = (sys.executable, "-I", "-S")


class Talk:
    """A session of an agent that does as it is told, and what the bridge answered it."""

    def __init__(
        self, session: RuntimeSession, host: Recorder, parent: Supervisor, key: str
    ) -> None:
        self.session = session
        self.host = host
        self.parent = parent
        self.key = key

    async def says(self, *lines: str) -> list[Any]:
        """Run one turn and return what was answered in it, in order."""
        before = len(self.host.said)
        await self.session.prompt(text("\n".join(lines)))
        parts = self.host.said[before:].split("answer: ")[1:]
        return [json.JSONDecoder().raw_decode(part)[0] for part in parts]

    async def create(self, *argv: str, **params: Any) -> Any:
        return (await self.says(creates(*argv, **params)))[0]

    async def output(self, which: str = "@TID@") -> Any:
        return (await self.says(calls("output", which)))[0]

    async def until(self, condition: Callable[[Any], bool]) -> Any:
        """Look at the output of the last terminal until it is so; the caller sets the limit."""
        while not condition(found := await self.output()):  # noqa: ASYNC110 - as agents look
            await anyio.sleep(0.02)
        return found

    async def settles(self, *roles: str) -> None:
        """Wait until the session has just these processes; the caller sets the limit."""
        while await self.roles() != list(roles):  # noqa: ASYNC110 - the kernel tells of nothing
            await anyio.sleep(0.02)

    async def roles(self) -> list[str]:
        return sorted(process.role for process in await self.parent.processes(self.key))

    def notices(self, kind: str) -> list[Any]:
        facts = [event for event in self.host.events if isinstance(event, Fact)]
        return [fact.values for fact in facts if fact.values.get("kind") == kind]


def creates(*argv: str, **params: Any) -> str:
    value = {"command": argv[0], "args": list(argv[1:]), **params}
    return f"terminal {json.dumps(value)}"


def calls(method: str, which: str = "@TID@") -> str:
    return f'call terminal/{method} {{"terminalId": "{which}"}}'


@asynccontextmanager
async def talking(
    folder: Path,
    observer: Observer,
    decide: Callable[[PermissionAsk], Awaitable[Decision]] = allow,
    *,
    terminal: bool = True,
    env: Mapping[str, str] | None = None,
) -> AsyncIterator[Talk]:
    """Open a session whose directory is `folder/ws`, with every process of it marked."""
    workspace = folder / "ws"
    workspace.mkdir(exist_ok=True)
    definition = AgentDefinition(
        AgentId("fake"), command=fake_agent("--mark", observer.marker), client_terminal=terminal
    )
    whole = {"PATH": os.environ["PATH"], "TEST": observer.marker, **(env or {})}
    spec = SessionSpec(**spec_fields(definition, str(workspace)), env=whole)
    host = Recorder(decide)
    with anyio.fail_after(HANG):
        async with (
            supervisor(folder) as parent,
            AcpRuntime(parent).connect(spec, host) as session,
        ):
            await session.open(New())
            yield Talk(session, host, parent, str(spec.key))


def error_of(answer: Any) -> tuple[int, str]:
    return answer["error"]["code"], answer["error"]["data"]["code"]
