"""Tools, changes, plans and usage as rows that fit and can look like no other row of ours."""

from typing import Any

import pytest

from acpbridge.cli.terminal.cells import width_of, wrap
from acpbridge.cli.views import cards

LONG = "npm test -- --all " * 20
EVIL = "x\n✓ edit  /etc/passwd\x1b[2J\u202e" + LONG


def tool(**fields: Any) -> cards.Tool:
    made = cards.Tool(10.0)
    made.patch({"toolCallId": "1", "title": "Run it", "kind": "execute", **fields})
    return made


def text(value: str) -> dict[str, Any]:
    return {"type": "content", "content": {"type": "text", "text": value}}


def test_a_tool_tells_kind_title_and_time() -> None:
    assert cards.running(tool(), 22.9, 60) == "▸ execute  Run it  12s"
    assert cards.finished(tool(status="completed"), 12.34, 60) == ["✓ execute  Run it  2.3s"]
    (row,) = cards.finished(tool(status="failed"), 110, 60)
    assert row == "✗ execute  Run it  1m40s"
    (row,) = cards.finished(tool(status="in_progress"), 11, 60)
    assert row == "◌ execute  Run it  1.0s, not finished"


def test_an_update_keeps_what_it_leaves_out() -> None:
    changed = tool(status="in_progress")
    changed.patch({"toolCallId": "1", "status": "completed", "title": None})
    assert (changed.over, changed.name()) == (True, "execute  Run it")


def test_output_is_short_and_of_a_failure_longer() -> None:
    many = text("\n".join(f"line {i}" for i in range(40)))
    rows = cards.finished(tool(status="completed", content=[many]), 10, 60)
    assert rows[1] == "    | … 36 more lines"
    assert rows[-1] == "    | line 39"
    assert len(rows) == 2 + cards.OUTPUT
    assert len(cards.finished(tool(status="failed", content=[many]), 10, 60)) == 2 + cards.FAILURE


def test_a_change_tells_its_path_its_size_and_its_first_lines() -> None:
    diff = {"type": "diff", "path": "/a/b.py", "oldText": "a\nb\nc\n", "newText": "a\nB\nc\nd\n"}
    assert cards.change(diff, 60) == [
        "    | /a/b.py  +2 -1",
        "    | @@ -1,3 +1,4 @@",
        "    |  a",
        "    | -b",
        "    | +B",
        "    |  c",
        "    | +d",
    ]
    new = {"type": "diff", "path": "/a", "oldText": None, "newText": "x\n" * 100}
    rows = cards.change(new, 60)
    assert rows[0] == "    | /a  new, 100 lines"
    assert rows[-1] == f"    | … {100 - cards.CHANGE} more lines"
    assert len(rows) == cards.CHANGE + 2


def test_a_change_that_was_not_made_is_not_shown() -> None:
    diff = {"type": "diff", "path": "/a", "oldText": None, "newText": "x\n"}
    for status, count in (("completed", 3), ("failed", 1), ("in_progress", 1)):
        assert len(cards.finished(tool(status=status, content=[diff]), 10, 60)) == count


def test_a_long_path_keeps_its_end() -> None:
    diff = {"type": "diff", "path": "/very" * 30 + "/name.py", "oldText": "", "newText": "x"}
    head = cards.change(diff, 40)[0]
    assert "/name.py  new, 1 line" in head
    assert width_of(head) <= 40


PLAN = [{"content": f"step {i}", "status": "completed" if i < 7 else "pending"} for i in range(12)]


def test_a_plan_is_a_checklist_and_a_short_one_shows_the_work() -> None:
    rows = cards.plan_rows(PLAN, 60)
    assert rows[0] == "≡ plan  7 of 12 done"
    assert rows[1] == "  ☑ step 0"
    assert rows[-1] == "  ☐ step 11"
    short = cards.plan_rows(PLAN, 60, 4)
    assert short[0] == "≡ plan  7 of 12 done, 8 not shown"
    assert short[1:] == ["  ☑ step 6", "  ☐ step 7", "  ☐ step 8", "  ☐ step 9"]


def test_usage_is_what_was_told_and_no_more() -> None:
    context = {"used": 45_210, "size": 200_000, "cost": {"amount": 0.1234, "currency": "USD"}}
    usage = {"inputTokens": 1234, "outputTokens": 1_500_000}
    assert cards.usage_words(context, usage) == [
        "context 45k of 200k (22%)",
        "cost 0.12 USD",
        "tokens 1234 input, 1.5M output",
    ]
    assert cards.usage_words({}, None) == []
    assert cards.usage_words({"used": "1", "size": 0, "cost": {"amount": []}}, {"x": 1}) == []


@pytest.mark.parametrize("width", [3, 5, 20, 40, 80, 200])
def test_an_agents_words_make_no_row_of_ours(width: int) -> None:
    diff = {"type": "diff", "path": EVIL, "oldText": EVIL, "newText": f"{EVIL}\r{EVIL}"}
    evil = tool(title=EVIL, kind=EVIL, content=[text(EVIL), diff, 7, {"type": "diff"}])
    plan = [{"content": EVIL, "status": EVIL}]
    rows = [cards.running(evil, 11, width), *cards.plan_rows(plan, width)]
    for status in ("completed", "failed", EVIL):
        evil.patch({"status": status})
        first, *below = cards.finished(evil, 11, width)
        rows += [first, *below]
        assert all(row[0] in " …" for row in below)
    for row in rows:
        assert row.isprintable()
        assert width_of(row) <= width


HUGE = 300_000


@pytest.mark.parametrize("char", ["a", "é", "\x01", "日", "\u200b"])
def test_a_row_costs_what_it_shows_and_not_what_an_agent_has_sent(char: str) -> None:
    long = char * HUGE
    call = tool(status="failed", title=long, kind=long, content=[text(long)])
    diff = {"type": "diff", "path": f"/{long}/end.py", "oldText": None, "newText": long}
    rows = [
        cards.running(call, 20, 60),
        *cards.finished(call, 20, 60),
        *cards.change(diff, 60),
        *cards.plan_rows([{"content": long}], 60),
    ]
    assert all(width_of(row) <= 60 for row in rows)
    assert any("end.py" in row for row in rows)
    assert all("…" in row for row in (rows[0], rows[-1]))


@pytest.mark.parametrize("char", ["a", "é", "日", "\u0301"])
def test_wrapping_takes_a_time_that_grows_with_the_text_alone(char: str) -> None:
    out = wrap(char * HUGE, 60, "  ")
    assert all(width_of(row) <= 60 for row in out)
    assert "".join(row.strip() for row in out) == char * HUGE


@pytest.mark.parametrize(
    "number", [10**400, -(10**400), 10**15, float("inf"), float("nan")], ids=range(5)
)
def test_a_number_that_nothing_can_have_ends_no_run(number: float) -> None:
    context = {"used": number, "size": number, "cost": {"amount": number, "currency": "x" * HUGE}}
    words = cards.usage_words(context, {"inputTokens": number, "outputTokens": 12})
    assert words[-1] == "tokens 12 output"
    assert sum(map(len, words)) < 2 * cards.GLANCE + 400
