"""Families and runs on a terminal: whole, escaped, and no row wider than it."""

from itertools import pairwise
from typing import Any

import pytest

from acpbridge.cli import families
from acpbridge.cli.terminal.wrapping import cells

AT = "2026-01-01T12:00:00.000Z"
UUID = "3f2a1b2c-0000-4000-8000-00000000000"


def node(number: int = 0, **fields: Any) -> dict[str, Any]:
    return {
        "key": f"agent:fake:acp:{UUID}{number}",
        "state": "idle",
        "turn": None,
        "queueDepth": 0,
        "pendingPermissions": 0,
        "createdAt": "2026-01-01T11:00:00.000Z",
        "closeReason": None,
        "lastError": None,
        "label": None,
        "taskName": None,
        "runStatus": None,
        "children": [],
        **fields,
    }


RUNNING = {
    "state": "running",
    "turn": {
        "state": "waiting",
        "waitsFor": "permission",
        "startedAt": "2026-01-01T11:59:00.000Z",
        "lastUpdateAt": "2026-01-01T11:59:30.000Z",
    },
}


def run(**fields: Any) -> dict[str, Any]:
    return {
        "runId": "0a1b2c3d-0000-4000-8000-000000000000",
        "sessionKey": f"agent:fake:acp:{UUID}0",
        "status": "completed",
        "stopReason": "end_turn",
        "error": None,
        "deliveryStatus": "not_required",
        "acceptedAt": "2026-01-01T11:00:00.000Z",
        "runtimeMs": 61_000,
        "task": "look at the tests",
        **fields,
    }


def delivery(**fields: Any) -> dict[str, Any]:
    return {
        "id": f"announce:{UUID}0",
        "address": f"agent:fake:acp:{UUID}1",
        "state": "blocked",
        "attempts": 3,
        "reason": "ambiguous",
        "at": "2026-01-01T11:30:00.000Z",
        "task": "look",
        "outcome": "completed",
        **fields,
    }


def test_each_session_stands_below_the_one_that_started_it() -> None:
    deep = node(2, runStatus="failed")
    rows = [node(children=[node(1, children=[deep], **RUNNING), node(3)]), node(4)]
    assert families.tree_text(rows, AT).splitlines() == [
        "fake 3f2a1b2c  idle  1h00m old",
        (
            "|- fake 3f2a1b2c  running  waiting 1m00s, waits for permission, last update 30s ago"
            "  1h00m old"
        ),
        "|  `- fake 3f2a1b2c  idle  last run failed  1h00m old",
        "`- fake 3f2a1b2c  idle  1h00m old",
        "fake 3f2a1b2c  idle  1h00m old",
    ]


def test_a_main_session_is_called_so_and_a_name_is_quoted() -> None:
    row = node(key="agent:fake:main", label="Tests", queueDepth=2, pendingPermissions=1)
    assert families.session_line(row, AT) == (
        'fake main  "Tests"  idle  2 queued  1 asked  1h00m old'
    )
    assert '"look"' in families.session_line(node(label="Tests", taskName="look"), AT)


def test_nothing_to_show_is_said() -> None:
    assert families.tree_text([], AT) == "no family of sessions"
    assert families.runs_text([], AT) == "no runs"
    assert families.deliveries_text([], AT) == "no deliveries"


@pytest.mark.parametrize("width", [20, 40, 80, 120])
@pytest.mark.parametrize("label", ["a b c", "x" * 300, "\u6f22" * 90, "e\u0301 \u202e\x1b[2J\n"])
def test_no_row_is_wider_than_the_terminal_and_nothing_steers_it(width: int, label: str) -> None:
    """With the rest of a line put behind its branch uncut: a row of 44 columns at 40."""
    line = [node(n, label=label, **RUNNING) for n in range(5)]
    for above, below in pairwise(line):
        above["children"] = [below, node(9, label=label)]
    out = [
        families.tree_text(line[:1], AT, width),
        families.runs_text([run(task=label, error={"code": label}, status="failed")], AT, width),
        families.deliveries_text([delivery(task=label, reason=label)], AT, width),
    ]
    for row in "\n".join(out).split("\n"):
        assert cells(row) <= max(width, 40) or width == 20, row
        assert row.isprintable(), row
    assert "fake 3f2a1b2c" in out[0]


@pytest.mark.parametrize("width", [40, 120])
def test_of_a_name_that_is_too_long_for_a_row_every_character_is_there(width: int) -> None:
    text = families.tree_text([node(children=[node(1, label="n" * 200)])], AT, width)
    assert text.count("n") == 200


def test_a_run_has_its_end_with_the_reason_and_who_is_to_hear_of_it() -> None:
    rows = [
        run(),
        run(status="failed", stopReason=None, error={"code": "agent_died"}),
        run(status="cancelled", stopReason="cancelled", deliveryStatus="blocked"),
        run(status="failed", stopReason="refusal"),
        run(status="queued", stopReason=None, runtimeMs=None),
    ]
    head, *lines = families.runs_text(rows, AT).splitlines()
    assert head.split() == ["RUN", "SESSION", "STATUS", "DELIVERY", "AGE", "TOOK", "TASK"]
    assert lines[0].split("  ") == [
        "0a1b2c3d",
        "fake 3f2a1b2c",
        "completed",
        *lines[0].split("  ")[3:],
    ]
    assert "completed" in lines[0]
    assert "end_turn" not in lines[0]
    assert "failed (agent_died)" in lines[1]
    assert "cancelled (" not in lines[2]
    assert " blocked " in lines[2]
    assert "failed (refusal)" in lines[3]
    assert " queued " in lines[4]
    assert "1m01s" in lines[0]


def test_a_narrow_terminal_gets_each_run_as_a_small_paragraph() -> None:
    text = families.runs_text([run(task="t" * 60)], AT, 40)
    assert text.startswith("0a1b2c3d\n  session fake 3f2a1b2c, status")
    assert "t" * 60 in "".join(text.split())


def test_a_long_task_is_cut_and_says_how_much_more_there_is() -> None:
    assert "⟨40 more characters⟩" in families.runs_text([run(task="t" * 100)], AT)
