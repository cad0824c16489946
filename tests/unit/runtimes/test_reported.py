"""The runtime of what another process does: it takes its word for its own turns, and no other's."""

from pathlib import Path

import anyio
import pytest

from acpbridge.errors import BridgeError
from acpbridge.model.agents import AgentDefinition, RuntimeKind
from acpbridge.model.keys import AgentId
from acpbridge.model.settings import Settings
from acpbridge.runtimes.base import New, SessionSpec
from acpbridge.runtimes.reported import Report, ReportedRuntime, ReportedTurn
from tests.unit.runtimes.scenarios import Recorder, allow, spec_fields, text


def spec(cwd: Path) -> SessionSpec:
    return SessionSpec(
        **spec_fields(AgentDefinition(AgentId("x"), kind=RuntimeKind.PYTHON), str(cwd))
    )


async def test_a_turn_ends_as_its_report_says_and_says_what_that_says(tmp_path: Path) -> None:
    host, turn = Recorder(allow), ReportedTurn("mine")
    runtime = ReportedRuntime(turn, running=lambda: "mine")
    async with runtime.connect(spec(tmp_path), host) as session:
        assert await session.open(New()) == {}
        turn.end(Report(text="done"))
        turn.end(Report("cancelled"))  # the first word counts
        assert (await session.prompt(text("x"))).stop_reason == "end_turn"
        assert runtime.turn is None
    [said] = host.updates
    assert said["content"]["text"] == "done"


async def test_a_prompt_of_somebody_else_takes_no_report(tmp_path: Path) -> None:
    turn = ReportedTurn("mine")
    turn.end(Report(text="a secret of its caller's"))
    host, runtime = Recorder(allow), ReportedRuntime(turn, running=lambda: "another")
    async with runtime.connect(spec(tmp_path), host) as session:
        with pytest.raises(BridgeError, match="who alone calls it"):
            await session.prompt(text("x"))
    assert host.updates == []
    assert runtime.turn is turn


async def test_a_stop_tells_who_does_the_work_and_waits_for_its_word(tmp_path: Path) -> None:
    turn, ends = ReportedTurn("mine"), []
    runtime = ReportedRuntime(turn, running=lambda: "mine")
    with anyio.fail_after(20):
        async with runtime.connect(spec(tmp_path), Recorder(allow)) as session:

            async def work() -> None:
                await turn.unwanted.wait()
                turn.end(Report("cancelled", "half of it"))

            async def prompt() -> None:
                ends.append((await session.prompt(text("x"))).stop_reason)

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(work)
                tasks.start_soon(prompt)
                await anyio.wait_all_tasks_blocked()
                assert await session.stop() == ()
            assert isinstance(await session.died(), BridgeError)
    assert ends == ["cancelled"]


async def test_it_takes_neither_settings_nor_modes(tmp_path: Path) -> None:
    async with ReportedRuntime().connect(spec(tmp_path), Recorder(allow)) as session:
        assert await session.apply((Settings(),)) == (Settings(),)
        with pytest.raises(BridgeError, match="settings"):
            await session.apply((Settings(model="m"),))
        with pytest.raises(BridgeError, match="no modes"):
            await session.set_mode("yolo")
        with pytest.raises(BridgeError, match="session/fork"):
            await session.request("session/fork", {})
