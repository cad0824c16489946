"""The life of one agent process: every cell is there, and the rules hold over all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.controller.lifecycle import TABLE, Action, Input, Life, step

CELLS = [(state, what) for state in Life for what in Input]
ALIVE = {Life.STARTING, Life.READY}


def test_every_state_meets_every_input() -> None:
    assert {state: set(row) for state, row in TABLE.items()} == {s: set(Input) for s in Life}


@pytest.mark.parametrize(("state", "what"), CELLS)
def test_a_tree_is_ended_when_and_only_when_somebody_asks(state: Life, what: Input) -> None:
    cell = step(state, what)
    asked = what is Input.STOP and state is not Life.GONE
    assert (cell.action is Action.END_TREE) == asked
    if cell.state is Life.ENDING and state is not Life.ENDING:
        assert what is Input.STOP


@pytest.mark.parametrize(("state", "what"), CELLS)
def test_gone_is_reached_by_proof_alone(state: Life, what: Input) -> None:
    if step(state, what).state is Life.GONE and state is not Life.GONE:
        assert what is Input.TREE_GONE


@pytest.mark.parametrize("what", Input)
def test_gone_is_final_and_does_nothing(what: Input) -> None:
    assert step(Life.GONE, what) == step(Life.GONE, Input.STOP)
    assert step(Life.GONE, what).state is Life.GONE
    assert step(Life.GONE, what).action is Action.NOTHING


@pytest.mark.parametrize("what", Input)
def test_nobody_comes_back_from_ending(what: Input) -> None:
    assert step(Life.ENDING, what).state in {Life.ENDING, Life.GONE}
    assert step(Life.ENDING, what).action is not Action.TELL


@pytest.mark.parametrize(("state", "what"), CELLS)
def test_ready_is_the_answer_to_initialize_and_nothing_else(state: Life, what: Input) -> None:
    if step(state, what).state is Life.READY and state is not Life.READY:
        assert (state, what) == (Life.STARTING, Input.INITIALIZED)


@pytest.mark.parametrize("state", sorted(ALIVE))
def test_a_death_that_nobody_asked_for_is_told(state: Life) -> None:
    assert step(state, Input.EXITED).action is Action.TELL
    assert step(state, Input.TREE_GONE).action is Action.TELL


@given(st.lists(st.sampled_from(Input), max_size=30))
def test_over_any_story_a_death_is_told_at_most_once_and_nothing_lives_again(
    story: list[Input],
) -> None:
    state, told, over = Life.STARTING, 0, False
    for what in story:
        cell = step(state, what)
        told += cell.action is Action.TELL
        over = over or cell.state not in ALIVE
        assert not (over and cell.state in ALIVE)
        state = cell.state
    assert told <= 1


@given(st.lists(st.sampled_from(Input), max_size=30))
def test_a_stop_is_always_heard_and_proof_always_ends_it(story: list[Input]) -> None:
    state = Life.STARTING
    for what in story:
        state = step(state, what).state
    after = step(state, Input.STOP)
    assert after.state in {Life.ENDING, Life.GONE}
    assert step(after.state, Input.TREE_GONE).state is Life.GONE
