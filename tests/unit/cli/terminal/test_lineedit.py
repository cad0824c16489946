"""A line that is typed: the keys that hands know, and no paste that enters it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.cli.terminal.lineedit import Line

TYPED = {
    "plain": (b"abc\n", "abc"),
    "return": (b"abc\r", "abc"),
    "other letters": ("zoë 日\n".encode(), "zoë 日"),
    "backspace": (b"abx\x7f\x08bc\n", "abc"),
    "clear": (b"nonsense\x15abc\n", "abc"),
    "the last word": (b"abc def \x17x\n", "abc x"),
    "all behind the cursor": (b"abcdef\x1b[D\x1b[D\x0b\n", "abcd"),
    "arrows": (b"ac\x1b[Db\x1b[C!\n", "abc!"),
    "application arrows": (b"ac\x1bODb\n", "abc"),
    "home and end": (b"b\x1b[Ha\x1b[Fc\x01_\x05_\n", "_abc_"),
    "numbered home and end": (b"b\x1b[1~a\x1b[4~c\n", "abc"),
    "delete": (b"abc\x01\x1b[3~\x04\n", "c"),
    "unknown keys": (b"a\x1b[15~\x1b[1;5C\x1bf\x00\x1fb\n", "ab"),
    "a tab": (b"a\tb\n", "a\tb"),
    "a paste": (b"\x1b[200~a\r\nb\x03\x1b[201~c\n", "a\n\nb\x03c"),
}


@pytest.mark.parametrize("name", TYPED)
def test_keys_edit_the_line(name: str) -> None:
    keys, text = TYPED[name]
    line = Line()
    assert line.feed(keys) == b""
    assert (line.text, line.entered) == (text, True)


@given(st.sampled_from(sorted(TYPED)), st.data())
def test_where_the_bytes_are_cut_makes_no_difference(name: str, data: st.DataObject) -> None:
    keys, text = TYPED[name]
    at = data.draw(st.integers(0, len(keys)))
    line = Line()
    line.feed(keys[:at])
    line.feed(keys[at:])
    assert (line.text, line.entered) == (text, True)


@given(st.binary(max_size=40))
def test_any_bytes_leave_a_cursor_within_the_line(data: bytes) -> None:
    line = Line()
    line.feed(data)
    assert 0 <= line.at <= len(line.text)


def test_ctrl_d_ends_only_an_empty_line() -> None:
    line = Line()
    line.feed(b"a\x04")
    assert not line.over
    line.feed(b"\x7f\x04")
    assert (line.ended, line.entered) == (True, False)


def test_what_is_typed_behind_a_line_is_for_the_next_one() -> None:
    line = Line()
    assert line.feed(b"one\ntwo\n") == b"two\n"
    assert line.text == "one"
