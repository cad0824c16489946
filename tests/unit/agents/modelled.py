"""Agents that are a model, run as the bridge runs them, with a scripted model behind them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from acpbridge.agents.model import ModelDriven, SessionTools
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.keys import AgentId
from acpbridge.model.modelagent import HOUSE_TOOLS, ModelAgent
from acpbridge.runtimes.base import New, RuntimeSession, SessionSpec, TurnResult
from acpbridge.runtimes.python import PythonRuntime
from tests.unit.agents.scripted import Scripted, Step, calls, says
from tests.unit.runtimes.scenarios import Recorder, allow, spec_fields, text


class Talk:
    """A session with such an agent."""

    def __init__(self, session: RuntimeSession, model: Scripted, host: Recorder) -> None:
        self.session, self.model, self.host = session, model, host

    async def turn(self, words: str = "go") -> TurnResult:
        with anyio.fail_after(20):
            return await self.session.prompt(text(words))

    @property
    def heard(self) -> list[str]:
        """What the model was told by tools, in the order of its last request."""
        from tests.unit.agents.scripted import returns

        return returns(self.model.asked[-1])


@asynccontextmanager
async def talking(
    cwd: Path,
    *steps: Step,
    host: Recorder | None = None,
    session_tools: SessionTools | None = None,
    **agent: Any,
) -> AsyncIterator[Talk]:
    model, host = Scripted(*steps), host or Recorder(allow)
    made = ModelAgent(**{"model": "anthropic:scripted", "tools": HOUSE_TOOLS} | agent)
    code = ModelDriven(made, session_tools, lambda _: model.model)
    definition = AgentDefinition(AgentId("scribe"), kind=RuntimeKind.PYTHON)
    spec = SessionSpec(**spec_fields(definition, str(cwd)))
    async with PythonRuntime(code).connect(spec, host) as session:
        await session.open(New())
        yield Talk(session, model, host)


async def one(
    cwd: Path, name: str, arguments: dict[str, Any], host: Recorder | None = None
) -> Talk:
    """Have the model call one tool; return the talk when its turn is over."""
    async with talking(cwd, calls((name, arguments)), says("ok"), host=host) as talk:
        await talk.turn()
    return talk
