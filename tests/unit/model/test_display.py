"""What a person is shown of an agent's text."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acpbridge.model.display import LONGEST_BLANK, clip, escape, hides, visible


def test_plain_text_is_shown_as_it_is() -> None:
    for text in ("", "rm -rf build/", "größer naïve 字 ✅", " " * (LONGEST_BLANK - 1)):
        assert escape(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\nb\tc", "a⟨U+000A⟩b⟨U+0009⟩c"),
        ("safe\r\x1b[2Krm", "safe⟨U+000D⟩⟨U+001B⟩[2Krm"),
        ("\u202egpj.exe", "⟨U+202E⟩gpj.exe"),
        ("pass\u200bword", "pass⟨U+200B⟩word"),
        ("a\u2066b\u2069", "a⟨U+2066⟩b⟨U+2069⟩"),
        ("\ud800", "⟨U+D800⟩"),
        ("a\xa0b", "a⟨U+00A0⟩b"),
        ("\u3164", "⟨U+3164⟩"),
        ("\U000e0041", "⟨U+E0041⟩"),
        ("\U000e0101", "⟨U+E0101⟩"),
    ],
)
def test_what_cannot_be_seen_is_spelt_out(text: str, shown: str) -> None:
    assert escape(text) == shown
    assert hides(text)


def test_a_payload_behind_long_blanks_stays_in_sight() -> None:
    assert escape("ls" + " " * 312 + "; rm -rf ~") == "ls⟨312 spaces⟩; rm -rf ~"
    assert escape("ls" + "\n" * 500 + "rm") == "ls⟨500 of U+000A⟩rm"


def test_a_text_cannot_forge_a_mark() -> None:
    assert escape("⟨312 spaces⟩") == "⟨U+27E8⟩312 spaces⟨U+27E9⟩"


def test_letters_of_any_script_and_emoji_hide_nothing() -> None:
    for text in ("Allow", "Разрешить", "許可する", "✔", "über"):
        assert not hides(text)


def test_what_is_cut_off_is_counted() -> None:
    assert clip("abcdef", 6) == "abcdef"
    assert clip("abcdefgh", 6) == "abcdef⟨2 more characters⟩"


@given(st.text(st.characters(exclude_categories=())), st.text())
def test_a_shown_text_is_printable_and_no_other_text_looks_like_it(one: str, other: str) -> None:
    assert escape(one).isprintable()
    assert not any(unicodedata.bidirectional(char) in ("RLO", "LRO") for char in escape(one))
    if one != other:
        assert escape(one) != escape(other)


def test_a_variation_selector_makes_no_second_word_that_looks_the_same() -> None:
    for selector in ("\ufe00", "\ufe0f", "\U000e0100"):
        assert hides(f"yes{selector}")
        assert escape(f"yes{selector}") != "yes"


def test_prose_cannot_steer_a_terminal() -> None:
    assert visible("plain ünïcode 👩\u200d👩 ⟨x⟩\n\tindented") == (
        "plain ünïcode 👩\u200d👩 ⟨x⟩\n\tindented"
    )
    assert visible("a\x1b[2J\r\x9b\u202eb") == "a⟨U+001B⟩[2J⟨U+000D⟩⟨U+009B⟩⟨U+202E⟩b"


def test_case_58_brackets_that_look_like_ours_are_spelt_out_too() -> None:
    for one in "\u2039\u2329\u276c\u3008":
        assert escape(f"{one}9 more characters") == f"⟨U+{ord(one):04X}⟩9 more characters"


def test_case_58_marks_that_pile_up_or_enclose_are_spelt_out() -> None:
    assert escape("e\u0301\u0323 \u0e01\u0e49\u0e33") == "e\u0301\u0323 \u0e01\u0e49\u0e33"
    assert escape("rm" + "\u0301" * 40) == "rm⟨40 of U+0301⟩"
    # Different ones, so that none of them repeats.
    pile = "".join(chr(0x0300 + n) for n in range(12))
    assert escape(f"x{pile}").count("⟨U+") == 12 - 4
    assert escape("a\u20dd") == "a⟨U+20DD⟩"
    assert hides("a\u20dd")
