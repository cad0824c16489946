"""A short form of the seeded chaos: a daemon killed under load, and an observer that trusts nobody.

`python -m tests.chaos --seed N --seconds 7` replays one of them; without arguments it runs longer.
"""

import secrets

import pytest

from tests.chaos.plan import make_plan
from tests.chaos.session import run

SECONDS = 5.0


def test_a_seed_gives_the_same_schedule_and_another_one_another() -> None:
    plan = make_plan(7, 45)
    assert plan == make_plan(7, 45)
    assert plan != make_plan(8, 45)
    kinds = [fault.kind for fault in plan]
    assert kinds.count("kill_daemon") >= 2
    assert kinds.count("stop_daemon") == 1
    assert [fault.at for fault in plan] == sorted(fault.at for fault in plan)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("fresh", [False, True], ids=["a_known_seed", "a_fresh_seed"])
def test_nothing_is_left_lost_doubled_or_wrongly_allowed_under_chaos_g3_g4_g5_g15_g17_g19(
    fresh: bool,
) -> None:
    seed = secrets.randbelow(1_000_000) if fresh else 20
    print(f"replay: python -m tests.chaos --seed {seed} --seconds {SECONDS:g}")
    result = run(seed, SECONDS)
    assert result.broken == {}
    assert len(result.book.runs) > 8
    assert result.restarts >= 2
