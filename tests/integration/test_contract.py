"""The contract of the runtimes, over a real process behind a real supervisor."""

import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import anyio
import pytest

from acpbridge.controller.supervisor import Supervisor
from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition
from acpbridge.model.keys import AgentId
from acpbridge.runtimes.acp import AcpRuntime
from acpbridge.runtimes.base import New, RuntimeSession, SessionSpec
from tests.integration.agents import supervisor
from tests.unit.runtimes import scripted
from tests.unit.runtimes.scenarios import (
    HANG,
    SCENARIOS,
    Recorder,
    Scenario,
    named,
    spec_fields,
    text,
)

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-P", str(scripted.__file__))


def connect_to(
    parent: Supervisor, cwd: Path, host: Recorder, mode: str | None
) -> AbstractAsyncContextManager[RuntimeSession]:
    definition = AgentDefinition(AgentId("scripted"), command=COMMAND, mode=mode)
    spec = SessionSpec(**spec_fields(definition, str(cwd)), env={"PYTHONPATH": str(ROOT)})
    return AcpRuntime(parent).connect(spec, host)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=named)
async def test_a_served_process_keeps_the_contract(scenario: Scenario, tmp_path: Path) -> None:
    with anyio.fail_after(HANG):
        async with supervisor(tmp_path) as parent:

            @asynccontextmanager
            async def connect(
                host: Recorder, mode: str | None = None
            ) -> AsyncIterator[RuntimeSession]:
                async with connect_to(parent, tmp_path, host, mode) as session:
                    yield session

            await scenario(connect)
            assert parent.live() == 0


async def test_an_agent_that_dies_in_a_turn_is_reported_within_two_seconds(tmp_path: Path) -> None:
    with anyio.fail_after(HANG):
        async with (
            supervisor(tmp_path) as parent,
            connect_to(parent, tmp_path, Recorder(), None) as session,
        ):
            await session.open(New())
            with anyio.fail_after(30), pytest.raises(BridgeError) as caught:
                await session.prompt(text("die 7"))
            assert caught.value.code == "agent_died"
            assert caught.value.data["exitCode"] == 7
            assert (await session.died()).args == caught.value.args
