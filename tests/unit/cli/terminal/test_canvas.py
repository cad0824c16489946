"""Rows below a scrollback: whatever is drawn, only what stays and what is last is to be seen."""

from hypothesis import given
from hypothesis import strategies as st

from acpbridge.cli.terminal.canvas import Canvas, Row
from tests.unit.cli.terminal.emulator import Emulator

WIDTH, HEIGHT = 12, 8
ROW = st.text("ab 日", max_size=5)
FRAME = st.tuples(st.lists(st.text("xy z", max_size=30), max_size=3), st.lists(ROW, max_size=6))


def row(text: str) -> Row:
    return Row(text, sum(2 if char == "日" else 1 for char in text))


@given(st.lists(FRAME, max_size=6), st.booleans())
def test_only_what_stays_and_the_last_rows_are_seen(
    frames: list[tuple[list[str], list[str]]], typing: bool
) -> None:
    canvas, shown, stayed = Canvas(), Emulator(WIDTH, HEIGHT), ""
    for stays, rows in frames:
        text = "".join(f"{line}\n" for line in stays)
        cursor = (len(rows) - 1, 0) if typing and rows else None
        shown.feed(canvas.frame(text, [row(r) for r in rows], WIDTH, cursor))
        stayed += text
        expected = Emulator(WIDTH, HEIGHT)
        expected.feed(stayed + "\n".join(rows))
        assert shown.text == expected.text
        assert shown.visible is (typing or not rows)
    shown.feed(canvas.close("", WIDTH))
    expected = Emulator(WIDTH, HEIGHT)
    expected.feed(stayed)
    assert shown.text == expected.text
    assert (shown.visible, shown.pasting) == (True, False)


def test_nothing_is_sent_where_nothing_changes() -> None:
    canvas = Canvas()
    assert canvas.frame("", [row("a")], WIDTH)
    assert canvas.frame("", [row("a")], WIDTH) == ""


def test_rows_that_a_narrower_terminal_has_wrapped_are_all_cleared() -> None:
    canvas, terminal = Canvas(), Emulator(4, 8)
    canvas.frame("", [row("abcdefgh"), row("ij")], 10)
    terminal.feed("old\nabcdefgh\nij")  # as it is shown after the change
    terminal.feed(canvas.frame("", [row("new")], 4))
    assert terminal.text == "old\nnew"


def test_a_row_that_is_wider_than_it_seemed_is_cut_off() -> None:
    canvas, terminal = Canvas(), Emulator(4, 4)
    terminal.feed(canvas.frame("", [Row("abcdefgh", 3), row("x")], 4))
    assert terminal.text == "abcd\nx"


def test_the_last_picture_may_stay_when_there_is_no_time() -> None:
    canvas, terminal = Canvas(), Emulator(8, 4)
    terminal.feed(canvas.frame("", [row("a"), row("b")], 8))
    terminal.feed(canvas.leave() + "$")
    assert (terminal.text, terminal.visible) == ("a\nb\n$", True)
