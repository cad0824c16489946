"""What an agent reads of a call that was not allowed: once why, and that nothing was done."""

import pytest

from acpbridge.model.permission import Decision, Effect, Reason
from acpbridge.runtimes.refusing import not_allowed


def denied(reason: Reason, by: str = "", note: str = "") -> str:
    decision = Decision(Effect.DENY, None, reason, by, note)
    return not_allowed("write a.txt", decision, cancelled=False).message


def test_the_rule_that_denies_is_named_once() -> None:
    assert denied(Reason.RULE, "policy:3").count("policy:3") == 1


@pytest.mark.parametrize("reason", [r for r in Reason if r is not Reason.RULE])
def test_no_reason_names_who_decided(reason: Reason) -> None:
    assert "c7" not in denied(reason, "operator:c7")


def test_a_person_is_quoted() -> None:
    assert denied(Reason.OPERATOR, "operator:c7", "use a branch").endswith("use a branch")
