"""What is said of what a tree takes, from values alone."""

from hypothesis import given
from hypothesis import strategies as st

from acpbridge.controller.bounds import (
    MIB,
    NO_BOUNDS,
    WARNING_AT,
    Bounds,
    Figure,
    Usage,
    bounds,
    judge,
)

NUMBERS = st.integers(0, 10**6)
LIMITS = st.none() | st.integers(1, 10**6)


def test_zero_in_the_configuration_is_no_limit() -> None:
    assert bounds(0, 0) == NO_BOUNDS
    assert NO_BOUNDS.none
    assert bounds(7, 0) == Bounds(7, None)
    assert bounds(0, 3) == Bounds(None, 3 * MIB)
    assert not bounds(0, 3).none


def test_a_limit_may_be_reached_and_not_passed() -> None:
    limits = Bounds(10, 100)
    assert judge(Usage(7, 79), limits) == ()
    near = judge(Usage(8, 80), limits)
    assert [(f.figure, f.value, f.over) for f in near] == [
        (Figure.PROCESSES, 8, False),
        (Figure.MEMORY, 80, False),
    ]
    assert not any(finding.over for finding in judge(Usage(10, 100), limits))
    assert all(finding.over for finding in judge(Usage(11, 101), limits))


def test_what_is_beyond_its_limit_comes_first() -> None:
    first, second = judge(Usage(9, 101), Bounds(10, 100))
    assert (first.figure, first.over) == (Figure.MEMORY, True)
    assert (second.figure, second.over) == (Figure.PROCESSES, False)


def test_the_words_name_value_and_limit() -> None:
    found = judge(Usage(11, 612 * MIB), bounds(10, 512))
    assert [finding.words() for finding in found] == [
        "it has 11 processes, and limits.maxProcessesPerSession is 10",
        "its processes hold 612 MiB of memory, and limits.maxRssMb is 512",
    ]


@given(NUMBERS, NUMBERS, LIMITS, LIMITS)
def test_nothing_is_beyond_a_limit_that_the_figure_does_not_pass(
    processes: int, memory: int, most: int | None, much: int | None
) -> None:
    found = {f.figure: f for f in judge(Usage(processes, memory), Bounds(most, much))}
    pairs = {Figure.PROCESSES: (processes, most), Figure.MEMORY: (memory, much)}
    for figure, (value, limit) in pairs.items():
        if limit is None or value < limit * WARNING_AT:
            assert figure not in found
        else:
            assert found[figure].over is (value > limit)
