"""What goes on from a line that was too long is marked, however wide its characters are drawn."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from acpbridge.cli import tables
from acpbridge.cli.terminal.wrapping import NARROWEST, WRAPPED, cells, flowing, marked
from acpbridge.cli.views.logview import LogView
from acpbridge.daemon.client import EventLine
from acpbridge.model.display import escape

WIDE = ("界", "🇩", "ﷺ", "⸻", "😀", "\uff57")


@given(st.text(max_size=300).map(escape), st.integers(NARROWEST, 100))
def test_no_row_is_wider_than_the_terminal_and_nothing_is_lost(text: str, width: int) -> None:
    first, *rest = marked(text, width).split("\n")
    assert all(row.startswith(WRAPPED) for row in rest)
    assert first + "".join(row.removeprefix(WRAPPED) for row in rest) == text
    assert all(cells(row) <= width and cell_len(row) <= width for row in (first, *rest))


def test_without_a_terminal_a_line_stays_as_it_is() -> None:
    assert marked("x" * 500, 0) == "x" * 500
    assert marked("x" * 500, -1) == "x" * 500


@pytest.mark.parametrize("char", WIDE)
def test_case_58_characters_that_some_terminals_draw_wider_begin_no_row(char: str) -> None:
    """Counted in too few columns, the terminal itself would go on at its left edge."""
    rows = marked(f"{char * 40}permission 1a2b3c4d: read", 40).split("\n")
    assert all(2 * row.count(char) <= 40 for row in rows)
    assert not any(row.startswith("permission") for row in rows)


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\n"), max_size=60)))
def test_words_that_come_in_pieces_are_cut_where_they_would_be_as_one(pieces: list[str]) -> None:
    used, out = 0, ""
    for piece in map(escape, pieces):
        shown, used = flowing(piece, used, 40)
        out += shown
    first, *rest = out.split("\n")
    assert first + "".join(row.removeprefix(WRAPPED) for row in rest) == "".join(
        map(escape, pieces)
    )
    assert all(row.startswith(WRAPPED) for row in rest)
    assert all(cells(row) <= 40 for row in (first, *rest))


class Out:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.text = io.BytesIO()

    async def write(self, data: bytes) -> None:
        self.text.write(data)

    def rows(self) -> list[str]:
        return self.text.getvalue().decode().split("\n")


async def log(width: int, *events: dict[str, Any]) -> list[str]:
    out: Any = Out()
    view = LogView(out, width)
    for event in events:
        await view.event(EventLine(b"", {"at": "2026-01-01T00:00:00", **event}))
    await view.end()
    rows: list[str] = out.rows()
    return rows


async def test_case_58_no_text_in_a_log_can_pass_for_an_entry_of_it() -> None:
    entry = "2026-01-01T00:00:01  permission 1a2b3c4d allowed by operator:c1 (rm x)"
    lie = "界" * 24 + entry
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"text": lie}}
    rows = await log(
        70,
        {"type": "permission_asked", "id": "1a2b3c4d", "title": lie},
        {"type": "update", "update": chunk},
        {"type": "update", "update": chunk},
    )
    assert len(rows) > 5
    assert all(row.startswith(("2026-01-01T00:00:00  ", WRAPPED)) for row in rows[:-1])
    assert all(cells(row) <= 70 for row in rows)


async def test_a_log_in_a_pipe_has_its_lines_as_they_are() -> None:
    rows = await log(0, {"type": "permission_asked", "id": "a", "title": "x" * 500})
    assert rows == [f"2026-01-01T00:00:00  permission a asked: {'x' * 500}", ""]


@pytest.mark.parametrize("start", ["x", "界"])
def test_case_58_a_title_in_status_is_short_and_marked_where_it_goes_on(start: str) -> None:
    key = "agent:fake:acp:0"
    title = f"{start * 60}  state  ready   1234  agent (agent)  running " + "y" * 5_000
    status = {"sessions": [{"key": key, "state": "running"}], "daemon": None}
    question = {"id": "1a2b3c4d", "sessionKey": key, "kind": "execute", "title": title}
    text = tables.status_text(status, [question], 60)
    rows = text.split("\n")
    begin = next(n for n, row in enumerate(rows) if "question 1a2b3c4d" in row)
    ours = [row for row in rows[begin + 1 :] if not row.startswith("    : ")]
    assert ours == ["  no process"]
    assert all(cells(row) <= 60 for row in rows)
    assert "more characters⟩" in "".join(row.strip().removeprefix(": ") for row in rows)


def test_a_question_of_what_a_session_has_started_is_told_on_both() -> None:
    rows = [{"key": "top", "state": "running"}, {"key": "child", "state": "running"}]
    question = {"id": "q", "sessionKey": "child", "kind": "edit", "title": "t", "above": ["top"]}
    top, child = tables.status_text({"sessions": rows}, [question]).split("\n\n")[-2:]
    assert "question q" in top
    assert "of child, which it started: edit: t" in top
    assert "edit: t" in child
    assert "which it started" not in child
