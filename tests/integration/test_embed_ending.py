"""How a program's bridge ends agents: in any order, from any task, and code that will not end."""

import json
import os
from pathlib import Path

import anyio
import pytest

import acpbridge
from acpbridge import Turn
from acpbridge.runtimes import python
from fixtures.fake_acp import fake_agent
from tests.integration.daemon_home import used, wait_gone

HANG = 60  # seconds; a guard


class Stubborn:
    """Code that takes no cancellation until it is let go, and then still speaks and asks."""

    def __init__(self) -> None:
        self.began = anyio.Event()
        self.let_go = anyio.Event()
        self.ended = anyio.Event()
        self.answers: list[bool] = []

    async def serve(self, turn: Turn) -> str:
        """Serve one turn."""
        if turn.text != "shield":
            return f"heard {turn.text}"
        self.began.set()
        with anyio.CancelScope(shield=True):
            await self.let_go.wait()
            turn.say("words of a turn that is over")
            self.answers.append(await turn.ask("rm -rf x", kind="execute"))
        self.ended.set()
        return "never heard"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    path = tmp_path / "home"
    path.mkdir(mode=0o700)
    rows = [
        {"id": "fake", "runtime": {"command": list(fake_agent())}},
        {"id": "mute", "runtime": {"command": list(fake_agent("--silent-start"))}},
    ]
    (path / "config.yaml").write_text(json.dumps({"agents": {"list": rows}}), encoding="utf-8")
    return path


async def test_code_that_shields_itself_holds_up_no_kill_and_is_said_to_go_on(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without `leave` in `_Running.end` the kill waits for the code, and this hangs.

    Without the pid from `stop`: `[()] == [(4711,)]`.
    """
    monkeypatch.setattr(python, "STOP_WAIT", 0.2)
    code = Stubborn()
    with anyio.fail_after(HANG):
        async with acpbridge.open_bridge(home, {"stubborn": code.serve}) as bridge:
            async with bridge.start("shield", agent="stubborn", keep=True) as run:
                await code.began.wait()
                cancel = await bridge.cancel(run.key, grace=0.1)
                # The turn has its outcome, and the code still runs: no word of an end.
                assert (cancel.rung, cancel.turn_ended) == ("kill", False)
                result = await run.result()
                assert result.outcome == "cancelled"
            again = await bridge.run("hello", session=run.key, keep=True, fresh=True)
            assert again.text == "heard hello"
            code.let_go.set()
            await code.ended.wait()
            assert code.answers == [False]
            last = await bridge.run("bye", session=run.key, keep=True)
            assert last.text == "heard bye"


async def test_code_that_shields_itself_holds_up_no_end_of_the_bridge(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a task group in place of `Foreign` the block is never left, and this hangs."""
    monkeypatch.setattr(python, "STOP_WAIT", 0.2)
    code = Stubborn()
    with anyio.fail_after(HANG):
        async with acpbridge.open_bridge(home, {"stubborn": code.serve}) as bridge:
            async with bridge.start("shield", agent="stubborn", keep=True) as run:
                await code.began.wait()
                (receipt,) = await bridge.kill(run.key, grace=0)
                assert receipt.survivors == (os.getpid(),)
            (row,) = used(await bridge.sessions(everything=True))
            assert (row["state"], row["closeReason"]) == ("closed", "killed")
            async with bridge.start("shield", agent="stubborn", keep=True):
                pass
        assert not code.ended.is_set()
        code.let_go.set()
        await code.ended.wait()


@pytest.mark.parametrize("order", ["ACB", "BCA", "CBA"])
async def test_case_112_agents_are_closed_in_any_order_from_any_task(
    home: Path, order: str, caplog: pytest.LogCaptureFixture
) -> None:
    """D is opened under a limit that passes; nothing is left, no scope left by another task."""
    with anyio.fail_after(HANG):
        async with acpbridge.open_bridge(home) as bridge:
            keys = {}
            for name in "ABC":
                keys[name] = (await bridge.run("say on", agent="fake", keep=True)).key
            rows = (await bridge.status())["sessions"]
            pids = [process["pid"] for row in rows for process in row["processes"]]
            with anyio.move_on_after(0.3) as limit:
                await bridge.run("hello", agent="mute")
            assert limit.cancelled_caught

            async def close(name: str, after: anyio.Event, done: anyio.Event) -> None:
                await after.wait()
                await bridge.close(keys[name])
                done.set()

            events = [anyio.Event() for _ in range(4)]
            events[0].set()
            async with anyio.create_task_group() as tasks:
                for at, name in enumerate(order):
                    tasks.start_soon(close, name, events[at], events[at + 1])
            assert wait_gone(pids) == []
    assert "cancel scope" not in caplog.text
    assert "ExceptionGroup" not in caplog.text
