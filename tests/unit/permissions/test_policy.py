"""The pure rules: what may be selected, and by whom."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.errors import BridgeError
from acpbridge.model.keys import MAIN, SessionKey
from acpbridge.model.permission import (
    Decision,
    Effect,
    OnPermission,
    Option,
    OptionKind,
    PermissionAsk,
    PermissionRequest,
    Reason,
    ToolKind,
    ToolSubject,
)
from acpbridge.permissions.policy import (
    Choice,
    choose,
    denial,
    effect_of,
    judge,
    names_bypass,
    names_mode,
    pick,
    still_valid,
    the_allow_once,
)
from acpbridge.permissions.verdict import Ruling, Verdict, merge

ALLOW = Option("allow", "Allow", OptionKind.ALLOW_ONCE)
ALWAYS = Option("always", "Always allow", OptionKind.ALLOW_ALWAYS)
REJECT = Option("reject", "Reject", OptionKind.REJECT_ONCE)
NEVER = Option("never", "Never", OptionKind.REJECT_ALWAYS)
STRANGE = Option("strange", "Strange", OptionKind.UNKNOWN, "allow_for_a_week")
PERSON = Choice(None)
REJECTS = (OptionKind.REJECT_ONCE, OptionKind.REJECT_ALWAYS)


def ask(*options: Option, subject: ToolSubject | None = None) -> PermissionAsk:
    if subject is None:
        subject = ToolSubject("call-1", "Edit a file", ToolKind.EDIT, known_kind=True)
    return PermissionAsk(subject, options)


def request(
    rule: OnPermission = OnPermission.ALLOW,
    *,
    turn: str | None = "turn-1",
    subject: ToolSubject | None = None,
) -> PermissionRequest:
    return PermissionRequest(
        "q1", SessionKey.main(MAIN), turn, rule, ask(ALLOW, REJECT, subject=subject)
    )


def once(option_id: str, name: str = "Allow") -> Option:
    return Option(option_id, name, OptionKind.ALLOW_ONCE)


def test_the_rule_of_the_run_is_what_is_judged() -> None:
    assert judge(request(OnPermission.DENY)) == Verdict(Ruling.DENY, "run:deny")
    assert judge(request(OnPermission.ASK)) == Verdict(Ruling.ASK, "run:ask")
    assert judge(request(OnPermission.ALLOW)) == Verdict(Ruling.ALLOW, "run:allow")


def test_row_01_a_rule_allows_by_the_one_allow_once() -> None:
    expected = Choice(Effect.ALLOW, "allow", Reason.RULE)
    assert choose(ask(ALWAYS, ALLOW, REJECT), Ruling.ALLOW) == expected


def test_row_02_a_rule_never_picks_an_option_that_lasts() -> None:
    assert choose(ask(ALWAYS, REJECT), Ruling.ALLOW) == PERSON


def test_row_03_several_allow_once_are_ambiguous() -> None:
    assert choose(ask(ALLOW, once("allow-2"), REJECT), Ruling.ALLOW) == PERSON
    assert choose(ask(ALLOW, once("\u202e"), REJECT), Ruling.ALLOW) == PERSON


def test_row_04_an_unknown_kind_is_hidden_from_rules_and_a_person_may_name_it() -> None:
    assert choose(ask(STRANGE, REJECT), Ruling.ALLOW) == PERSON
    assert pick(ask(STRANGE, REJECT), "strange") == STRANGE
    assert effect_of(STRANGE) is Effect.ALLOW


@pytest.mark.parametrize("ruling", Ruling)
def test_row_04_only_unknown_kinds_are_cancelled(ruling: Ruling) -> None:
    expected = Choice(Effect.CANCEL, None, Reason.MALFORMED)
    assert choose(ask(STRANGE), ruling) == expected


@pytest.mark.parametrize("ruling", Ruling)
def test_row_05_no_options_are_cancelled(ruling: Ruling) -> None:
    assert choose(ask(), ruling) == Choice(Effect.CANCEL, None, Reason.MALFORMED)


@pytest.mark.parametrize("ruling", Ruling)
def test_row_06_a_duplicate_id_denies_the_whole_request(ruling: Ruling) -> None:
    twice = Option("allow", "Reject", OptionKind.REJECT_ONCE)
    assert choose(ask(ALLOW, twice, REJECT), ruling) == Choice(
        Effect.DENY, "reject", Reason.MALFORMED
    )
    assert choose(ask(ALLOW, twice), ruling) == Choice(Effect.DENY, None, Reason.MALFORMED)


@pytest.mark.parametrize(
    "word", ["", "  ", "x" * 257, "é" * 129, "a\nb", "\u202eyes", "a\u200bb", "\x00", "\ud800"]
)
def test_row_07_a_hidden_or_huge_id_or_name_is_never_selected_by_a_rule(word: str) -> None:
    assert choose(ask(once(word), REJECT), Ruling.ALLOW) == PERSON
    assert choose(ask(once("allow", word), REJECT), Ruling.ALLOW) == PERSON
    bad = Option(word, "Reject", OptionKind.REJECT_ONCE)
    assert choose(ask(ALLOW, bad), Ruling.DENY) == Choice(Effect.DENY, None)


def test_row_08_an_unknown_tool_kind_is_asked_whatever_its_title() -> None:
    for kind, known in ((ToolKind.OTHER, True), (ToolKind.OTHER, False), (ToolKind.READ, False)):
        subject = ToolSubject("call-1", "Read README.md", kind, known_kind=known)
        assert judge(request(subject=subject)) == Verdict(Ruling.ASK, "unknown_kind")


def test_row_09_what_changed_since_it_was_announced_is_asked() -> None:
    subject = ToolSubject("c", "", ToolKind.READ, known_kind=True, changed=("rawInput",))
    assert judge(request(subject=subject)) == Verdict(Ruling.ASK, "changed_since_announced")


def test_a_caution_of_ours_is_for_a_person_and_no_rule_allows_it() -> None:
    subject = ToolSubject("c", "", ToolKind.READ, known_kind=True, cautions=("it has 2 names",))
    assert judge(request(subject=subject)) == Verdict(Ruling.ASK, "caution")
    assert judge(request(OnPermission.DENY, subject=subject)).effect is Ruling.DENY


def test_row_14_outside_a_turn_no_rule_allows() -> None:
    assert judge(request(turn=None)) == Verdict(Ruling.ASK, "outside_turn")
    assert judge(request(OnPermission.DENY, turn=None)).effect is Ruling.DENY


def test_row_23_only_what_was_offered_can_be_picked_and_the_error_lists_it() -> None:
    for wrong in ("Allow", "", "allow ", "0"):
        with pytest.raises(BridgeError, match=r"`allow` \(allow_once\), `reject`") as caught:
            pick(ask(ALLOW, REJECT), wrong)
        assert caught.value.code == "invalid_option"
        assert [option["optionId"] for option in caught.value.data["options"]] == [
            "allow",
            "reject",
        ]
    with pytest.raises(BridgeError, match="not unique"):
        pick(ask(ALLOW, ALLOW), "allow")


def test_row_26_always_becomes_once_where_one_stands_in_for_it() -> None:
    assert pick(ask(ALWAYS, ALLOW, REJECT), "always") == ALLOW
    assert pick(ask(ALWAYS, REJECT), "always") == ALWAYS
    assert pick(ask(ALWAYS, ALLOW, once("allow-2")), "always") == ALWAYS


def test_row_27_a_switch_of_mode_is_never_allowed_by_a_rule() -> None:
    subject = ToolSubject("c", "", ToolKind.SWITCH_MODE, known_kind=True)
    assert judge(request(subject=subject)) == Verdict(Ruling.ASK, "switch_mode")


@pytest.mark.parametrize(
    "mode",
    [
        "bypassPermissions",
        "acceptEdits",
        "accept_edits",
        "auto",
        "AUTO",
        "mode:auto",
        "autoEdit",
        "yolo",
        "YOLO",
        "agent-full-access",
        "agentFullAccess",
    ],
)
def test_row_27_an_option_that_names_a_mode_is_never_selected_by_a_rule(mode: str) -> None:
    assert names_mode(mode)
    assert choose(ask(once(mode), REJECT), Ruling.ALLOW) == PERSON
    assert the_allow_once(ask(once(mode), REJECT)) is None


@pytest.mark.parametrize("option_id", ["allow", "reject", "default", "plan", "automatic", "once"])
def test_an_ordinary_id_names_no_mode(option_id: str) -> None:
    assert not names_mode(option_id)


@pytest.mark.parametrize("mode", ["bypassPermissions", "agent-full-access", "yolo"])
def test_row_27_a_bypass_is_refused_to_a_person_unless_it_is_configured(mode: str) -> None:
    bypass = Option(mode, "Yes, and never ask", OptionKind.ALLOW_ALWAYS)
    assert names_bypass(mode)
    with pytest.raises(BridgeError, match="end all questions"):
        pick(ask(bypass, ALLOW, REJECT), mode)
    assert pick(ask(bypass, ALLOW, REJECT), mode, allow_bypass=True) == bypass


@pytest.mark.parametrize(
    ("kind", "switches", "refused"),
    [
        (OptionKind.ALLOW_ALWAYS, False, True),
        (OptionKind.UNKNOWN, False, True),
        (OptionKind.ALLOW_ONCE, True, True),
        (OptionKind.ALLOW_ONCE, False, False),  # it may be about this one step
        (OptionKind.REJECT_ONCE, True, False),
    ],
)
def test_row_27_a_bypass_that_only_the_name_of_an_option_tells_is_one_too(
    kind: OptionKind, switches: bool, refused: bool
) -> None:
    """Some agents number their options. And no rule selects by such a name."""
    option = Option("3", "Yes, with full access", kind)
    tool = ToolKind.SWITCH_MODE if switches else ToolKind.EXECUTE
    asked = ask(option, subject=ToolSubject("c", "", tool, known_kind=True))
    assert the_allow_once(asked) is None
    if refused:
        with pytest.raises(BridgeError, match="end all questions"):
            pick(asked, "3")
        assert pick(asked, "3", allow_bypass=True) == option
    else:
        assert pick(asked, "3") == option


def test_row_27_a_reject_that_names_a_mode_still_denies() -> None:
    reject = Option("no", "No, do not use full access", OptionKind.REJECT_ONCE)
    assert choose(ask(ALLOW, reject), Ruling.DENY).option_id == "no"


def test_a_denial_takes_the_first_reject_once_and_never_one_that_lasts() -> None:
    cancel = Option("cancel", "Cancel", OptionKind.REJECT_ONCE)
    assert choose(ask(ALLOW, NEVER, REJECT, cancel), Ruling.DENY).option_id == "reject"
    assert choose(ask(ALLOW, NEVER), Ruling.DENY) == Choice(Effect.DENY, None)


def test_without_a_rule_that_matches_a_person_is_asked() -> None:
    assert merge([]) == Verdict(Ruling.ASK, "no_match")


@pytest.mark.parametrize(
    ("decision", "valid"),
    [
        (Decision(Effect.ALLOW, "allow", Reason.RULE), True),
        (Decision(Effect.ALLOW, "allow", Reason.OPERATOR), True),
        (Decision(Effect.ALLOW, "always", Reason.OPERATOR), True),
        (Decision(Effect.ALLOW, "strange", Reason.OPERATOR), True),
        (Decision(Effect.DENY, "never", Reason.OPERATOR), True),
        (Decision(Effect.DENY, "reject", Reason.DEADLINE), True),
        (Decision(Effect.DENY, None, Reason.DEADLINE), True),
        (Decision(Effect.CANCEL, None, Reason.CANCELLED), True),
        (Decision(Effect.ALLOW, None, Reason.OPERATOR), False),
        (Decision(Effect.ALLOW, "gone", Reason.OPERATOR), False),
        (Decision(Effect.ALLOW, "reject", Reason.OPERATOR), False),
        (Decision(Effect.ALLOW, "always", Reason.RULE), False),
        (Decision(Effect.ALLOW, "strange", Reason.RULE), False),
        (Decision(Effect.ALLOW, "allow", Reason.DEADLINE), False),
        (Decision(Effect.DENY, "allow", Reason.OPERATOR), False),
        (Decision(Effect.DENY, "never", Reason.RULE), False),
        (Decision(Effect.CANCEL, "reject", Reason.CANCELLED), False),
    ],
)
def test_g19_the_check_at_the_write_lets_only_a_true_answer_pass(
    decision: Decision, valid: bool
) -> None:
    assert still_valid(ask(ALLOW, ALWAYS, REJECT, NEVER, STRANGE), decision) is valid


def test_g19_an_id_that_is_not_unique_is_not_written() -> None:
    decision = Decision(Effect.ALLOW, "allow", Reason.OPERATOR)
    assert not still_valid(ask(ALLOW, ALLOW), decision)


IDS = st.sampled_from(["a", "b", "c", "", "auto", "yolo", "x\ny", "d", "acceptEdits"])
OPTIONS = st.lists(
    st.builds(Option, IDS, st.sampled_from(["Yes", "No", "\u202e"]), st.sampled_from(OptionKind)),
    max_size=6,
)
VERDICTS = st.lists(st.builds(Verdict, st.sampled_from(Ruling), st.text(max_size=3)), max_size=5)


@given(OPTIONS, st.sampled_from(Ruling))
def test_g19_a_verdict_never_yields_an_option_of_the_other_meaning(
    options: list[Option], ruling: Ruling
) -> None:
    asked = ask(*options)
    choice = choose(asked, ruling)
    if choice.option_id is None:
        assert choice.effect is not Effect.ALLOW
        return
    [option] = [option for option in options if option.option_id == choice.option_id]
    assert choice.effect is not None
    if choice.effect is Effect.ALLOW:
        assert ruling is Ruling.ALLOW
        assert option.kind is OptionKind.ALLOW_ONCE
        assert not names_mode(option.option_id)
    else:
        assert option.kind is OptionKind.REJECT_ONCE
    if choice.reason is Reason.RULE:
        decision = Decision(choice.effect, choice.option_id, choice.reason)
        assert still_valid(asked, decision)


@given(OPTIONS, IDS, st.booleans())
def test_g19_a_pick_is_offered_and_never_turns_a_no_into_a_yes(
    options: list[Option], option_id: str, allow_bypass: bool
) -> None:
    asked = ask(*options)
    try:
        option = pick(asked, option_id, allow_bypass=allow_bypass)
    except BridgeError:
        return
    [named] = [option for option in options if option.option_id == option_id]
    assert option in options
    assert (option.kind in REJECTS) == (named.kind in REJECTS)
    assert option == named or named.kind is OptionKind.ALLOW_ALWAYS
    assert still_valid(asked, Decision(effect_of(option), option.option_id, Reason.OPERATOR))


@given(OPTIONS, st.sampled_from([r for r in Reason if r is not Reason.OPERATOR]))
def test_a_denial_is_always_fit_to_be_written(options: list[Option], reason: Reason) -> None:
    asked = ask(*options)
    decision = denial(asked, reason)
    assert decision.effect is Effect.DENY
    assert still_valid(asked, decision)


@given(VERDICTS, st.text(max_size=3))
def test_an_added_deny_never_widens(verdicts: list[Verdict], rule: str) -> None:
    width = [Ruling.DENY, Ruling.ASK, Ruling.ALLOW]
    before = merge(verdicts).effect
    after = merge([*verdicts, Verdict(Ruling.DENY, rule)]).effect
    assert after is Ruling.DENY
    assert width.index(after) <= width.index(before)


@given(VERDICTS)
def test_the_order_of_rules_changes_no_decision(verdicts: list[Verdict]) -> None:
    assert len({merge(order).effect for order in permutations(verdicts)}) == 1
