"""What whoever is asked is told when there is nothing more to answer."""

from acpbridge.cli.questions.asking import taken_back


def test_an_answer_from_elsewhere_is_told_apart_from_a_question_that_went_away() -> None:
    decision = {"effect": "deny", "reason": "operator", "by": "operator:c3", "note": "no"}
    assert taken_back(decision) == "answered elsewhere: denied by operator:c3: no"
    late = {"effect": "deny", "reason": "timed_out"}
    assert taken_back(late) == (
        "the question is gone: it was denied because nobody answered in time"
    )
    missed = {"effect": "decided", "reason": "elsewhere"}
    assert taken_back(missed) == "the question is gone: it was decided elsewhere"
