"""When a session that failed to open may be opened again, over any story of failures."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.errors import BridgeError
from acpbridge.router.opening import OPENS_FAILED, OPENS_WINDOW, Failures
from tests.unit.router.world import SteppedClock


def refuses(failures: Failures) -> bool:
    try:
        failures.check()
    except BridgeError as error:
        return error.code == "reopen_refused"
    return False


def test_g11_a_refusal_is_cleared_by_a_person_and_by_nothing_else() -> None:
    """With `refusing` computed anew at each failure, a late one clears it: `assert False`."""
    clock = SteppedClock()
    failures = Failures(clock)
    for _ in range(OPENS_FAILED):
        assert not refuses(failures)
        failures.add()
    assert refuses(failures)
    clock.seconds += 100 * OPENS_WINDOW
    assert refuses(failures)
    failures.add()
    assert refuses(failures)
    failures.clear()
    assert refuses(failures)
    failures.forgive()
    assert not refuses(failures)


STEPS = st.lists(st.sampled_from(["fail", "good"]) | st.floats(0, 100), max_size=40)


@given(STEPS)
def test_g11_a_session_is_refused_exactly_after_three_failures_within_the_window(
    steps: list[str | float],
) -> None:
    clock = SteppedClock()
    failures, expected = Failures(clock), False
    times: list[float] = []
    for step in steps:
        if step == "good":
            failures.clear()
            times = []
        elif step == "fail":
            failures.add()
            times = [*times, clock.seconds][-OPENS_FAILED:]
            close = len(times) == OPENS_FAILED and times[-1] - times[0] < OPENS_WINDOW
            expected = expected or close
        else:
            clock.seconds += float(step)
        assert refuses(failures) is expected


@pytest.mark.parametrize("gap", [0.0, OPENS_WINDOW / 2 - 0.001])
def test_g27_only_the_monotonic_clock_counts(gap: float) -> None:
    clock = SteppedClock()
    failures = Failures(clock)
    for _ in range(OPENS_FAILED):
        failures.add()
        clock.seconds += gap
    assert failures.refusing
