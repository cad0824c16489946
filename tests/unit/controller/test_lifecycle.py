"""The life of one agent process: every cell is there, and the two rules hold over all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.controller.lifecycle import TABLE, Action, Input, Life, step

ENDS = {Action.END_TREE, Action.REPORT_AND_END}
TELLS = {Action.REPORT, Action.REPORT_AND_END}
CELLS = [(state, what) for state in Life for what in Input]


def test_every_state_meets_every_input() -> None:
    assert {state: set(row) for state, row in TABLE.items()} == {s: set(Input) for s in Life}


@pytest.mark.parametrize(("state", "what"), CELLS)
def test_whoever_ends_a_tree_is_ending(state: Life, what: Input) -> None:
    cell = step(state, what)
    if cell.action in ENDS:
        assert cell.state is Life.ENDING


@pytest.mark.parametrize(("state", "what"), CELLS)
def test_whoever_comes_to_end_has_asked_for_it(state: Life, what: Input) -> None:
    cell = step(state, what)
    if cell.state is Life.ENDING and state is not Life.ENDING:
        assert cell.action in ENDS


@pytest.mark.parametrize(("state", "what"), CELLS)
def test_gone_is_reached_by_proof_or_before_anything_was_started(state: Life, what: Input) -> None:
    cell = step(state, what)
    if cell.state is Life.GONE and state is not Life.GONE:
        never_started = state is Life.NEW or what is Input.SPAWN_FAILED
        assert what is Input.TREE_GONE or never_started


@pytest.mark.parametrize("what", Input)
def test_gone_is_final_and_does_nothing(what: Input) -> None:
    assert step(Life.GONE, what) == step(Life.GONE, Input.STOP)
    assert step(Life.GONE, what).state is Life.GONE
    assert step(Life.GONE, what).action is Action.NOTHING


@pytest.mark.parametrize("what", Input)
def test_nobody_comes_back_from_ending(what: Input) -> None:
    assert step(Life.ENDING, what).state in {Life.ENDING, Life.GONE}
    assert step(Life.ENDING, what).action not in TELLS


def test_ready_is_the_answer_to_initialize_and_nothing_else() -> None:
    for state, what in CELLS:
        if step(state, what).state is Life.READY and state is not Life.READY:
            assert (state, what) == (Life.STARTING, Input.INITIALIZED)


def test_a_death_is_told_from_every_state_in_which_something_lives() -> None:
    for state in (Life.STARTING, Life.READY):
        for what in (Input.EXITED, Input.LOST):
            assert step(state, what).action is Action.REPORT_AND_END
        assert step(state, Input.TREE_GONE).action is Action.REPORT
        assert step(state, Input.STOP).action is Action.END_TREE


@given(st.lists(st.sampled_from(Input), max_size=30))
def test_over_any_story_nothing_lives_twice_and_a_death_is_told_once(story: list[Input]) -> None:
    state, starts, told, ended = Life.NEW, 0, 0, False
    for what in story:
        cell = step(state, what)
        starts += (state, cell.state) == (Life.NEW, Life.STARTING)
        told += cell.action in TELLS
        ended = ended or cell.action in ENDS
        assert not (ended and cell.state in {Life.NEW, Life.STARTING, Life.READY})
        state = cell.state
    assert starts <= 1
    assert told <= 1


@given(st.lists(st.sampled_from(Input), max_size=30))
def test_a_stop_is_always_heard_and_proof_always_ends_it(story: list[Input]) -> None:
    state = Life.NEW
    for what in story:
        state = step(state, what).state
    after = step(state, Input.STOP)
    assert after.state in {Life.ENDING, Life.GONE}
    assert step(after.state, Input.TREE_GONE).state is Life.GONE
