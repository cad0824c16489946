"""Text of an agent made safe to look at: what cannot be seen is spelt out.

A person approves what is on the screen. Control characters can rewrite it, bidi marks reorder it,
zero-width characters and long blanks hide what follows. All of them, and the brackets that mark
our own words, come out as `⟨...⟩`, so that no text can look like another.
"""

from collections.abc import Iterator
from itertools import groupby
from typing import Final
from unicodedata import category

# Printable by category, yet drawn as nothing: fillers, joiners, variation selectors, the empty
# Braille cell.
_BLANK: Final = frozenset(
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u2800\u3164\uffa0"
    "\ufe00\ufe01\ufe02\ufe03\ufe04\ufe05\ufe06\ufe07"
    "\ufe08\ufe09\ufe0a\ufe0b\ufe0c\ufe0d\ufe0e\ufe0f\U0001d159\U00016fe4"
)
# Marks that enclose, and so cover, what stands before them (Unicode's category Me).
_COVERING: Final = frozenset(
    "\u0488\u0489\u1abe\u20dd\u20de\u20df\u20e0\u20e2\u20e3\u20e4\ua670\ua671\ua672"
)
_UNSEEN: Final = _BLANK | _COVERING
# From here on: variation selectors and planes for private use.
_NONE_VISIBLE: Final = "\U000e0100"
# Our own brackets, and those that look like them: a text that contains them could forge a mark.
_BRACKETS: Final = frozenset("⟨⟩\u2039\u203a\u2329\u232a\u276c\u276d\u3008\u3009")

# Marks that turn the reading order around (Unicode, annex 9): on a terminal they hide things.
_BIDI: Final = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")

# Deep indentation is still shown as it is; a payload cannot be pushed out of sight by so few.
LONGEST_BLANK: Final = 16
# Marks are drawn over the character before them. No language needs more of them in a row; a pile of
# them is drawn over the rows above and below.
_MOST_MARKS: Final = 4

# As many in a row of one hidden character are shown each; a longer run is counted.
_SINGLY: Final = 3


def _invisible(character: str) -> bool:
    # `isprintable` is false for controls, format (bidi, zero-width), surrogates, private use,
    # unassigned, and every separator but the plain space.
    return not character.isprintable() or character in _UNSEEN or character >= _NONE_VISIBLE


def hides(text: str) -> bool:
    """Tell whether a text holds a control, bidi, zero-width or otherwise invisible character."""
    # The same as `_invisible` of any character, in time that a megabyte does not make felt.
    if text.isascii() or not text.isprintable():
        return not text.isprintable()
    return not _UNSEEN.isdisjoint(text) or max(text) >= _NONE_VISIBLE


def _shown(character: str, count: int) -> str:
    if character == " ":
        return " " * count if count < LONGEST_BLANK else f"⟨{count} spaces⟩"
    if not (_invisible(character) or character in _BRACKETS):
        return character * count
    return _named(character, count)


def _named(character: str, count: int) -> str:
    name = f"U+{ord(character):04X}"
    return f"⟨{name}⟩" * count if count <= _SINGLY else f"⟨{count} of {name}⟩"


def escape(text: str) -> str:
    """Return the text with everything invisible in it spelt out; different texts stay different.

    The result is one printable line: line ends and tabs are spelt out as well.
    """
    if text.isascii() and text.isprintable() and " " * LONGEST_BLANK not in text:
        return text
    return "".join(_spelt(text))


def _spelt(text: str) -> Iterator[str]:
    marks = 0
    for char, run in groupby(text):
        count = len(list(run))
        marks = marks + count if not char.isascii() and category(char) == "Mn" else 0
        yield _named(char, count) if marks > _MOST_MARKS else _shown(char, count)


def clip(text: str, limit: int) -> str:
    """Return at most `limit` characters of an escaped text, saying how many more there are."""
    if len(text) <= limit:
        return text
    return f"{text[:limit]}⟨{len(text) - limit} more characters⟩"


def visible(text: str) -> str:
    """Return prose with whatever would steer the terminal spelt out; lines and tabs stay."""
    if text.isprintable():
        return text if _BIDI.isdisjoint(text) else "".join(map(_harmless, text))
    return "".join(map(_harmless, text))


def _harmless(char: str) -> str:
    code = ord(char)
    steers = code < 0x20 or 0x7F <= code < 0xA0 or char in _BIDI  # C0, DEL, C1
    return f"⟨U+{code:04X}⟩" if steers and char not in "\n\t" else char
