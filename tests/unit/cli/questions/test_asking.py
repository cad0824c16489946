"""What whoever is asked is told when there is nothing more to answer."""

from acpbridge.cli.questions.asking import taken_back, waits
from acpbridge.cli.questions.question import REASON_GOES
from tests.unit.cli.questions.test_question import question


def test_an_answer_from_elsewhere_is_told_apart_from_a_question_that_went_away() -> None:
    decision = {"effect": "deny", "reason": "operator", "by": "operator:c3", "note": "no"}
    assert taken_back(decision) == "answered elsewhere: denied by operator:c3: no"
    late = {"effect": "deny", "reason": "timed_out"}
    assert taken_back(late) == (
        "the question is gone: it was denied because nobody answered in time"
    )
    missed = {"effect": "decided", "reason": "elsewhere"}
    assert taken_back(missed) == "the question is gone: it was decided elsewhere"


def test_it_is_said_where_a_reason_goes() -> None:
    assert "next prompt" in REASON_GOES[True]
    assert "is not told" in REASON_GOES[False]


def test_where_a_question_waits_only_what_would_answer_it_is_named() -> None:
    one = {"optionId": "a", "name": "A", "kind": "allow_once"}
    assert waits(question([one]), None).endswith("answer 1a2b3c4d --allow (or --deny)")
    two = waits(question([one, {**one, "optionId": "b"}]), None)
    assert two.endswith("answer 1a2b3c4d --option OPTION (or --deny)")
