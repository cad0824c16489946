"""What a daemon keeps of sessions that ended: records, and nothing of who called or what ran."""

import gc
from asyncio import Event as LoopEvent
from pathlib import Path

from acpbridge.router.environments import REMEMBERED, Environments
from acpbridge.router.life import Life
from acpbridge.router.turns import Turn
from tests.unit.router.world import OPERATOR, world

SESSIONS = 30


def alive(kind: type) -> int:
    gc.collect()
    return sum(type(one) is kind for one in gc.get_objects())


async def test_sessions_at_rest_hold_no_turn_no_event_and_no_environment_of_their_own(
    tmp_path: Path,
) -> None:
    """With `_gone` made at once: 30 events more; without `shared`: 30 environments."""
    async with world(tmp_path) as w:
        first, _ = await w.done("say a")
        await w.rest(first.key)
        w.runtime.specs.clear()  # the tests' own memory of what was run
        before = alive(LoopEvent)
        keys = []
        for _ in range(SESSIONS):
            run, _ = await w.done("say a", env={"A": "".join(["x"] * 50)})
            await w.rest(run.key)
            keys.append(run.key)
        w.runtime.specs.clear()
        assert alive(LoopEvent) <= before + 3, "a commit or a write may be under way"
        assert alive(Life) == 0
        assert alive(Turn) <= 1, "the last one, until the next run"
        envs = {id(w.session(key).env) for key in keys}
        assert len(envs) == 1, "equal environments are one"
        await w.router.kill([str(key) for key in keys], 0, OPERATOR)
        assert all(w.session(key).closed and not w.session(key).env for key in keys)


def test_equal_environments_are_one_and_few_are_remembered() -> None:
    known = Environments()
    one = known.shared({"A": "x" * 50, "B": "1"})
    assert known.shared({"A": "x" * 50, "B": "1"}) is one
    other = known.shared({"A": "".join(["x"] * 50), "B": "2"})
    assert other["A"] is one["A"]
    for number in range(REMEMBERED):
        known.shared({"A": str(number)})
    assert known.shared({"A": "x" * 50, "B": "1"}) is not one
