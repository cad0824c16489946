"""Doubtful choices are said twice, or they answer nothing: the broker itself demands it."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acpbridge.model.permission import Effect, Option, OptionKind, ToolKind
from acpbridge.permissions.confirming import OF_A_MODE, OF_UNKNOWN_KIND, doubt
from tests.unit.permissions.test_broker import OPTIONS, SUBJECT, desk, request

ODD = Option("odd", "Odd", OptionKind.UNKNOWN, "strange")
LIAR = Option("liar", "Liar", OptionKind.UNKNOWN, "allow_once")
EDITS = Option("acceptEdits", "Yes, and no more questions", OptionKind.ALLOW_ONCE)
AUTO = Option("auto", "Auto", OptionKind.ALLOW_ALWAYS)
HIDDEN = Option("accept-edits", "No", OptionKind.REJECT_ONCE)
SWITCH = replace(SUBJECT, kind=ToolKind.SWITCH_MODE)


@pytest.mark.parametrize(
    ("option_id", "kind", "switches", "why"),
    [
        ("allow", "allow_once", False, ""),
        ("always", "allow_always", False, ""),
        ("reject", "reject_once", True, ""),
        ("never", "reject_always", True, ""),
        ("allow", "allow_once", True, OF_A_MODE),
        ("always", "allow_always", True, OF_A_MODE),
        ("accept_edits", "allow_once", False, OF_A_MODE),
        ("yolo", "reject_once", False, OF_A_MODE),
        ("allow", "unknown", False, OF_UNKNOWN_KIND),
        ("allow", "", False, OF_UNKNOWN_KIND),
        ("allow", "Allow_Once", False, OF_UNKNOWN_KIND),
    ],
)
def test_rows_04_27_what_is_doubtful_has_a_reason(
    option_id: str, kind: str, *, switches: bool, why: str
) -> None:
    assert doubt(option_id, kind, switches=switches) == why


@pytest.mark.parametrize(
    ("option", "changes"),
    [
        (ODD, {}),
        (LIAR, {}),
        (EDITS, {}),
        (AUTO, {}),
        (HIDDEN, {}),
        (OPTIONS[0], {"subject": SWITCH}),
        (OPTIONS[1], {"subject": SWITCH}),
    ],
)
@pytest.mark.parametrize("confirm", [None, "", "yes", "ALLOW", "reject"])
async def test_rows_04_27_the_broker_takes_no_doubtful_choice_that_is_said_once(
    tmp_path: Path, option: Option, changes: dict[str, Any], confirm: str | None
) -> None:
    offered = OPTIONS if option in OPTIONS else (option, *OPTIONS)
    async with desk(tmp_path) as at:
        await at.open(request(options=offered, **changes))
        error = await at.fails(option_id=option.option_id, confirm=confirm)
        assert error.code == "confirmation_needed"
        assert error.data["optionId"] == option.option_id
        assert error.data["reason"] in error.message
        assert f"--confirm {option.option_id}" in error.hint
        assert at.open_ids() == ["q1"]
        assert at.returned == {}
        decision = await at.answer(option_id=option.option_id, confirm=option.option_id)
        assert decision.effect is (Effect.DENY if option is HIDDEN else Effect.ALLOW)


async def test_row_27_allow_in_one_word_is_confirmed_by_the_option_it_means(
    tmp_path: Path,
) -> None:
    async with desk(tmp_path) as at:
        await at.open(request(subject=SWITCH))
        for confirm in (None, "always", "allow "):
            error = await at.fails(effect=Effect.ALLOW, confirm=confirm)
            assert (error.code, error.data["optionId"]) == ("confirmation_needed", "allow")
        assert (await at.answer(effect=Effect.ALLOW, confirm="allow")).option_id == "allow"


@pytest.mark.parametrize("how", [{"effect": Effect.DENY}, {"option_id": "reject"}])
async def test_row_27_to_deny_a_change_of_mode_once_will_do(
    tmp_path: Path, how: dict[str, Any]
) -> None:
    async with desk(tmp_path) as at:
        await at.open(request(subject=SWITCH))
        assert (await at.answer(**how)).option_id == "reject"


async def test_row_27_a_confirmation_does_not_lift_the_ban_on_a_bypass(tmp_path: Path) -> None:
    bypass = Option("bypassPermissions", "All", OptionKind.ALLOW_ALWAYS)
    async with desk(tmp_path) as at:
        await at.open(request(options=(*OPTIONS, bypass)))
        error = await at.fails(option_id=bypass.option_id, confirm=bypass.option_id)
        assert error.code == "invalid_option"
        assert at.open_ids() == ["q1"]


async def test_row_04_a_hint_to_be_copied_runs_nothing_of_the_agents(tmp_path: Path) -> None:
    option = Option("x; rm -rf ~ \x1b[2J", "X", OptionKind.UNKNOWN, "strange")
    async with desk(tmp_path) as at:
        await at.open(request(options=(option, *OPTIONS)))
        error = await at.fails(option_id=option.option_id)
        assert error.hint.endswith("--confirm 'x; rm -rf ~ ⟨U+001B⟩[2J'")
