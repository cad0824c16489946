"""One contract over the runtimes that need no process: in this one, and ACP in memory."""

import sys
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import anyio
import pytest

from acpbridge.controller.memory import MemoryLauncher
from acpbridge.edge.serve import serve_streams
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.keys import AgentId
from acpbridge.runtimes.acp import AcpRuntime
from acpbridge.runtimes.base import Runtime, RuntimeSession, SessionSpec
from acpbridge.runtimes.python import PythonRuntime
from acpbridge.transport.memory import MemoryEnd
from tests.unit.runtimes.scenarios import HANG, SCENARIOS, Recorder, Scenario, named, spec_fields
from tests.unit.runtimes.scripted import scripted


def in_process() -> Runtime:
    return PythonRuntime(scripted)


def in_memory() -> Runtime:
    async def agent_main(end: MemoryEnd) -> None:
        await serve_streams(end, end, PythonRuntime(scripted))

    return AcpRuntime(MemoryLauncher(agent_main))


@pytest.mark.parametrize("scenario", SCENARIOS, ids=named)
@pytest.mark.parametrize("runtime", [in_process, in_memory])
async def test_every_runtime_keeps_the_contract(
    runtime: Callable[[], Runtime], scenario: Scenario, tmp_path: Path
) -> None:
    def connect(
        host: Recorder, mode: str | None = None
    ) -> AbstractAsyncContextManager[RuntimeSession]:
        # Nothing is started by this command; it only has to be there.
        definition = AgentDefinition(AgentId("scripted"), command=(sys.executable,), mode=mode)
        if runtime is in_process:
            definition = AgentDefinition(AgentId("scripted"), kind=RuntimeKind.PYTHON, mode=mode)
        spec = SessionSpec(**spec_fields(definition, str(tmp_path)))
        return runtime().connect(spec, host)

    with anyio.move_on_after(HANG) as patience:
        await scenario(connect)
    assert not patience.cancelled_caught, "it hung"
