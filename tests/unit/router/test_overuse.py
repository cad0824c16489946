"""A tree that takes too much is warned of, then ended, and its turn fails with the reason."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acpbridge.controller.bounds import Bounds, Usage
from acpbridge.model.keys import SessionKey
from acpbridge.model.sessions import Outcome, SessionState
from acpbridge.router.overuse import PACE
from tests.unit.router.world import OPERATOR, World, until, world

LIMITS = Bounds(processes=10, memory=None)


@dataclass
class Kernel:
    """What the kernel is made to say of every tree, and how often it was asked."""

    says: Usage | None = field(default_factory=lambda: Usage(1, 1))
    broken: bool = False
    asked: int = 0

    async def usage(self, _name: str, _limits: Bounds) -> Usage | None:
        self.asked += 1
        if self.broken:
            raise OSError(24, "no more descriptors")
        return self.says


def limited(kernel: Kernel, limits: Bounds = LIMITS) -> dict[str, Callable[..., Any]]:
    return {"usage": kernel.usage, "bounds": lambda: limits}


async def look(w: World, kernel: Kernel) -> None:
    """Let a second pass, and wait until the kernel was asked, and what it said was taken in."""
    asked, sleeps = kernel.asked, w.clock.sleeps
    w.clock.advance(PACE)
    await until(lambda: kernel.asked > asked and w.clock.sleeps > sleeps)


async def notices(w: World, key: SessionKey) -> list[str]:
    events = await w.events(key)
    return [e["message"] for e in events if e["type"] == "notice" and e["kind"] == "near_limit"]


async def warnings(w: World) -> list[str]:
    shown = (await w.router.status("", OPERATOR))["warnings"]
    return [warning for warning in shown if "limits.max" in warning]


async def test_what_is_near_its_limit_is_told_of_once_and_shown_for_as_long_as_it_is(
    tmp_path: Path,
) -> None:
    kernel = Kernel()
    async with world(tmp_path, more=limited(kernel)) as w:
        key = (await w.run("hang")).key
        await w.diary.has("prompt hang")
        await look(w, kernel)
        assert (await notices(w, key), await warnings(w)) == ([], [])
        kernel.says = Usage(9, 1)
        for _ in range(3):
            await look(w, kernel)
        (notice,) = await notices(w, key)
        assert "it has 9 processes, and limits.maxProcessesPerSession is 10" in notice
        (warning,) = await warnings(w)
        assert warning.startswith(f"{key}: it has 9 processes")
        kernel.says = Usage(3, 1)
        assert await warnings(w) == []  # asked anew, not remembered (G7)
        await w.router.kill([str(key)], 0, OPERATOR)


async def test_beyond_the_limit_the_tree_is_ended_and_its_turn_fails_with_the_figure(
    tmp_path: Path,
) -> None:
    kernel = Kernel()
    async with world(tmp_path, more=limited(kernel)) as w:
        receipt = await w.run("hang", one_shot=False)
        await w.diary.has("prompt hang")
        kernel.says = Usage(11, 1)
        w.clock.advance(PACE)
        result = await w.wait(receipt)
        assert result.outcome is Outcome.FAILED
        assert result.error is not None
        assert result.error["code"] == "over_limit"
        assert "It has 11 processes, and limits.maxProcessesPerSession is 10" in str(
            result.error["message"]
        )
        assert "stop 0" in w.diary.lines
        assert await w.rest(receipt.key) is SessionState.DIED
        record = w.session(receipt.key).record
        assert record.last_error is not None
        assert record.last_error["code"] == "over_limit"
        exited = [e for e in await w.events(receipt.key) if e["type"] == "process_exited"]
        assert [(e["died"], "11 processes" in e["message"]) for e in exited] == [(True, True)]
        assert w.services.places.taken == 0  # case 116
        # Nothing starts by itself (G11); the next prompt opens the session again.
        assert w.diary.lines.count("start") == 1
        kernel.says = Usage(1, 1)
        _, again = await w.done("say on", key=receipt.key)
        assert again.outcome is Outcome.COMPLETED


async def test_an_agent_that_answers_in_that_very_moment_has_not_completed(tmp_path: Path) -> None:
    """Without `verdict` in `Host.complete` the outcome is `completed`: the agent's word won."""
    kernel = Kernel()
    async with world(tmp_path, more=limited(kernel)) as w:
        receipt = await w.run("hang")
        await w.diary.has("prompt hang")
        agent = w.agent(receipt.key)
        agent.word = "stone"  # its stop does not end it at once: the answer is still in the pipe
        kernel.says = Usage(11, 1)
        w.clock.advance(PACE)
        await w.diary.has("stop 0")
        agent.answer("end_turn")
        result = await w.wait(receipt)
        assert (result.outcome, result.stop_reason) == (Outcome.FAILED, None)
        assert result.error is not None
        assert result.error["code"] == "over_limit"


async def test_an_idle_process_is_ended_for_it_too(tmp_path: Path) -> None:
    kernel = Kernel()
    async with world(tmp_path, more=limited(kernel)) as w:
        receipt, _ = await w.done("say on", one_shot=False)
        await w.is_ready(receipt.key)
        kernel.says = Usage(11, 1)
        w.clock.advance(PACE)
        assert await w.rest(receipt.key) is SessionState.DIED
        record = w.session(receipt.key).record
        assert record.last_error is not None
        assert record.last_error["code"] == "over_limit"


async def test_one_that_takes_too_much_before_it_is_ready_did_not_open(tmp_path: Path) -> None:
    kernel = Kernel(Usage(11, 1))
    async with world(tmp_path, more=limited(kernel)) as w:
        w.runtime.script.starts = "hang"
        receipt = await w.run("say never")
        await until(lambda: w.clock.sleeps and w.runtime.running)
        w.clock.advance(PACE)
        result = await w.wait(receipt)
        assert result.error is not None
        assert result.error["code"] == "over_limit"
        assert await w.rest(receipt.key) is SessionState.FAILED
        assert w.runtime.running == {}


async def test_a_turn_that_a_person_cancelled_before_is_cancelled(tmp_path: Path) -> None:
    kernel = Kernel()
    async with world(tmp_path, more=limited(kernel)) as w:
        receipt = await w.run("leaves")
        await w.diary.has("prompt leaves")
        w.session(receipt.key)._host.mark_cancelling(w.turn(receipt.key))
        kernel.says = Usage(11, 1)
        w.clock.advance(PACE)
        assert (await w.wait(receipt)).outcome is Outcome.CANCELLED


async def test_that_the_kernel_cannot_be_asked_ends_nothing(tmp_path: Path) -> None:
    kernel = Kernel(broken=True)
    async with world(tmp_path, more=limited(kernel)) as w:
        key = (await w.run("hang")).key
        await w.diary.has("prompt hang")
        await look(w, kernel)
        assert await warnings(w) == []
        kernel.broken, kernel.says = False, None  # nor that there is no tree
        await look(w, kernel)
        assert w.session(key).record.state is SessionState.RUNNING
        await w.router.kill([str(key)], 0, OPERATOR)


async def test_without_a_limit_nobody_asks_the_kernel(tmp_path: Path) -> None:
    kernel = Kernel()
    async with world(tmp_path, more=limited(kernel, Bounds())) as w:
        key = (await w.run("hang")).key
        await w.diary.has("prompt hang")
        w.clock.advance(10 * PACE)
        assert await warnings(w) == []
        assert kernel.asked == 0
        await w.router.kill([str(key)], 0, OPERATOR)
