"""A line at a question is read as what was shown, and as nothing else."""

import pytest

from acpbridge.cli.questions.answers import Answer, Word, parse, ways
from tests.unit.cli.questions.test_question import question


def test_numbers_ids_and_two_letters_are_answers() -> None:
    asked = question()
    assert parse("y\n", asked) == parse(" YES ", asked) == Answer(effect="allow")
    assert parse("n", asked) == parse("no", asked) == Answer(effect="deny")
    assert parse("1", asked) == Answer(option_id="yes")
    assert parse("2", asked) == parse("ever", asked) == Answer(option_id="ever")
    assert parse("3", asked) == Answer(option_id="no")
    assert ways(asked) == "answer [1-3, y = allow once, d = deny, ? = help]: "


def test_only_what_would_answer_is_offered() -> None:
    assert ways(question([])) == "answer [d = deny, ? = help]: "
    one = {"optionId": "a", "name": "A", "kind": "allow_once"}
    assert ways(question([one])) == "answer [1, y = allow once, d = deny, ? = help]: "
    assert ways(question([one, {**one, "optionId": "b"}])) == "answer [1-2, d = deny, ? = help]: "


def test_anything_else_is_no_answer() -> None:
    for line in (
        "",
        "0",
        "4",
        "-1",
        "1.0",
        "\u0661",
        "maybe",
        "Ever",
        "1 2",
        "dx",
        "y no",
        "9" * 9000,
    ):
        assert parse(line, question()) is None
    assert parse("1", question([])) is None
    assert parse("1", question("nonsense")) is None


def test_a_number_means_the_line_that_shows_it_whatever_the_ids_are() -> None:
    crossed = [
        {"optionId": "2", "name": "A", "kind": "allow_once"},
        {"optionId": "1", "name": "B", "kind": "reject_once"},
    ]
    assert parse("1", question(crossed)) == Answer(option_id="2")
    assert parse("2", question(crossed)) == Answer(option_id="1")


def test_an_id_that_is_offered_twice_cannot_be_chosen_by_its_name() -> None:
    twice = [{"optionId": "a", "name": "A", "kind": kind} for kind in ("allow_once", "reject_once")]
    assert parse("a", question(twice)) is None


def test_unknown_kinds_and_modes_must_be_confirmed_and_rejections_never() -> None:
    odd = question([{"optionId": "odd", "name": "Odd", "kind": "strange"}])
    mode = question([{"optionId": "acceptEdits", "name": "Yes", "kind": "allow_once"}])
    for asked in (odd, mode, question(kind="switch_mode")):
        answer = parse("1", asked)
        assert isinstance(answer, Answer)
        assert answer.confirm
    switch = parse("y", question(kind="switch_mode"))
    assert isinstance(switch, Answer)
    assert switch.confirm
    reject = parse("3", question(kind="switch_mode"))
    assert reject == Answer(option_id="no")


@pytest.mark.parametrize(
    ("line", "note"),
    [
        ("d", ""),
        ("D\n", ""),
        ("deny", ""),
        (" d  not on a Friday \n", "not on a Friday"),
        ("d 1", "1"),
    ],
)
def test_a_denial_may_come_with_its_reason(line: str, note: str) -> None:
    assert parse(line, question()) == Answer(effect="deny", note=note)


def test_help_and_later_answer_nothing() -> None:
    assert parse("?\n", question()) is Word.HELP
    assert parse("s", question()) is parse("later", question()) is Word.LATER


def test_the_letters_are_ours_whatever_the_agent_calls_its_options() -> None:
    options = [{"optionId": name, "name": name, "kind": "allow_once"} for name in ("d", "s", "?")]
    assert parse("d", question(options)) == Answer(effect="deny")
    assert parse("s", question(options)) is Word.LATER
    assert parse("?", question(options)) is Word.HELP
