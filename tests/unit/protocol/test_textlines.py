"""A part of a text by lines: as an agent counts them, and nothing of it changed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.protocol import textlines
from acpbridge.protocol.textlines import part


@pytest.mark.parametrize(
    ("line", "limit", "wanted"),
    [
        (None, None, "one\r\ntwo\n\nfour"),
        (1, 1, "one\r\n"),
        (0, 1, "one\r\n"),
        (2, None, "two\n\nfour"),
        (2, 2, "two\n\n"),
        (4, 9, "four"),
        (5, None, ""),
        (None, 0, ""),
        (10**30, 10**30, ""),
        (None, 10**30, "one\r\ntwo\n\nfour"),
    ],
)
def test_lines_are_counted_from_one_and_kept_as_they_are(
    line: int | None, limit: int | None, wanted: str
) -> None:
    assert part("one\r\ntwo\n\nfour", line, limit) == wanted


def test_only_a_line_feed_ends_a_line() -> None:
    assert part("a\x0bb\x0c\u2028\x85c\rd\ne", 2, None) == "e"


@given(st.text(alphabet="a\n\r\u2028", max_size=40), st.integers(0, 12), st.integers(0, 12))
def test_it_is_what_a_list_of_lines_would_give(text: str, line: int, limit: int) -> None:
    lines = text.split("\n")
    lines = [*(one + "\n" for one in lines[:-1]), lines[-1]]
    first = max(line, 1) - 1
    assert part(text, line, limit) == "".join(lines[first : first + limit])
    assert part(text, line, None) == "".join(lines[first:])


def test_ten_million_lines_are_counted_without_a_list_of_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = "\n" * 10_000_000 + "last"
    assert part(text, 10_000_001, 5) == "last"
    assert part(text, 9_999_999, 1) == "\n"
    monkeypatch.setattr(textlines, "_PIECE", 3)
    assert [part("ab\ncd\ne\n\nf", n, 1) for n in range(1, 7)] == [
        *("ab\n", "cd\n", "e\n", "\n", "f", "")
    ]
