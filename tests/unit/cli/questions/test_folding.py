"""A long question is folded so that what matters stays; the agent cannot choose what that is."""

from typing import Any

import pytest

from acpbridge.cli.questions.answers import Answer, Word, allows, parse, ways
from acpbridge.cli.questions.folding import FIRST, LAST, MOST, SPARED, folded
from acpbridge.cli.questions.question import render
from tests.unit.cli.questions.test_question import OPTIONS, diff, question

LEFT_OUT = "rows are not shown here; v shows all of it"


def shown(asked: dict[str, Any], width: int = 80) -> tuple[list[str], int]:
    text, hidden = folded(render(asked, width=width))
    return text.split("\n"), hidden


def test_a_question_that_is_short_is_shown_as_it_is() -> None:
    text = render(question(rawInput={"command": "x\n" * (FIRST + LAST + SPARED - 3)}), width=80)
    assert folded(text) == (text, 0)


def test_row_12_a_change_of_ten_thousand_lines_is_cut_in_its_middle_only() -> None:
    asked = question(content=[diff(newText="".join(f"line {n}\n" for n in range(10_000)))])
    rows, hidden = shown(asked)
    assert len(rows) < 60
    assert hidden == 10_001 - FIRST - LAST  # with the row that says it is a new file
    assert f"    … {hidden} {LEFT_OUT}" in rows
    assert "    | +line 0" in rows
    assert "    | +line 9999" in rows
    assert "    | +line 5000" not in rows
    assert rows[-1] == "    3) Reject once: Reject  (id no)"


@pytest.mark.parametrize("size", [5_000, 1_000_000])
def test_row_12_case_58_a_title_of_a_megabyte_hides_no_row_of_ours(size: int) -> None:
    asked = {**question(kind="execute", runId=None, changed=["kind"]), "title": "t" * size}
    rows, hidden = shown(asked)
    assert hidden
    text = "\n".join(rows)
    for ours in (
        "permission 1a2b3c4d: execute",
        "WARNING  asked outside",
        "changed since",
        "expires",
    ):
        assert ours in text
    assert len(rows) < 100


def test_row_12_every_file_of_many_changes_stays_named() -> None:
    many = [{**diff(newText="x\n" * 500), "path": f"/f{n}"} for n in range(9)]
    rows, _ = shown(question(content=many))
    assert [row for row in rows if row.startswith("  change")] == [
        f"  change   /f{n}" for n in range(9)
    ]


def test_row_12_however_many_passages_there_are_a_question_is_short() -> None:
    many = [{**diff(newText="x"), "path": f"/f{n}"} for n in range(5_000)]
    rows, hidden = shown(question(content=many))
    assert len(rows) <= MOST + 1
    assert hidden > 5_000
    assert rows[0].startswith("permission 1a2b3c4d")
    assert rows[-1] == "    3) Reject once: Reject  (id no)"


def test_row_12_no_text_of_an_agent_can_pass_for_a_row_that_stays() -> None:
    """Text that stays where it is not ours could push out of sight what comes before it."""
    lies = [
        "permission 1a2b3c4d: read",
        "  WARNING  none",
        "  options",
        "    1) Allow once: Yes",
        "  change   /harmless",
        f"    … 3 {LEFT_OUT}",
    ]
    text = "\n".join(f"{lie}\n{'x' * 7}" for lie in lies for _ in range(50))
    rows, hidden = shown(question(rawInput={"command": text, **{lie: lie for lie in lies}}))
    whole = render(question(rawInput={"command": text, **{lie: lie for lie in lies}}), width=80)
    body = [row for row in whole.split("\n") if lies[0] in row]
    assert hidden > 500
    assert body
    assert all(row.startswith(("    | ", "  input.")) for row in body)
    assert sum(LEFT_OUT in row and not row.startswith("    | ") for row in rows) in (1, 2)


def test_what_may_let_something_happen_is_told_from_what_denies() -> None:
    asked = question([*OPTIONS, {"optionId": "odd", "name": "?", "kind": "novel"}])
    for line, may in (("y", True), ("1", True), ("2", True), ("odd", True), ("d", False)):
        answer = parse(line, asked)
        assert isinstance(answer, Answer)
        assert allows(answer, asked) is may, line
    assert not allows(Answer(option_id="no"), asked)
    assert not allows(Answer(effect="deny", note="x"), asked)


def test_v_views_all_and_is_offered_only_where_there_is_more() -> None:
    assert parse(" V\n", question()) is Word.ALL
    assert "v = view all" in ways(question(), more=True)
    assert "v =" not in ways(question())
