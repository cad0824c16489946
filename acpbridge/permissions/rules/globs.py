"""Paths and the patterns that rules have for them, compared by component, never as text.

`*` stands for any part of one component, `**` alone for any number of whole ones. Matching takes
time in proportion to the product of both lengths at worst, whatever the pattern.
"""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from acpbridge.model.display import hides

ROOT: Final = "{root}"
_ANY: Final = "**"
# Other languages' wildcards: one that is taken literally would be a rule that is ignored.
_FOREIGN: Final = frozenset("?[]{}\\!")

Parts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Glob:
    """A rule's pattern of paths.

    Attributes:
        text: as it is written.
        in_root: whether it begins at a directory of the session, else at `/`.
        parts: its components behind that.
        folded: the same, to be compared with folded paths.
    """

    text: str
    in_root: bool
    parts: Parts
    folded: Parts

    def covers(self, path: Parts, roots: Sequence[Parts], *, folded: bool = False) -> bool:
        """Tell whether a path is meant; `folded` if path and roots are."""
        parts = self.folded if folded else self.parts
        if not self.in_root:
            return match(parts, path)
        return any(path[: len(root)] == root and match(parts, path[len(root) :]) for root in roots)


def glob(text: str, home: str) -> Glob:
    """Read a pattern.

    Args:
        text: begins with `/`, `~/`, `{root}` or `**`.
        home: the user's, for `~`.

    Raises:
        ValueError: saying what is wrong with it.
    """
    in_root = text == ROOT or text.startswith(f"{ROOT}/")
    rest = text[len(ROOT) :] if in_root else text
    if rest == "~" or rest.startswith("~/"):
        if not home.startswith("/") or "*" in home:
            raise ValueError("your home directory cannot stand in a pattern; write the path out")
        rest = home.rstrip("/") + rest[1:]
    elif not in_root and not rest.startswith("/") and rest.split("/")[0] != _ANY:
        raise ValueError("begin it with /, ~/, {root} or **")
    rest = rest.removeprefix("/")
    words = rest.split("/") if rest else []
    for word in words:
        if word in ("", ".", ".."):
            raise ValueError("it has an empty component, . or ..; write the path out")
        if _FOREIGN & set(word) or (_ANY in word and word != _ANY):
            raise ValueError("only * within a component and ** as a whole one are known")
        if hides(word):
            raise ValueError("it holds a character that cannot be seen; remove it")
    return Glob(text, in_root, tuple(words), tuple(map(fold, words)))


def split(path: str) -> Parts:
    """Return the components of an absolute path, `.` and `..` taken out as text."""
    out: list[str] = []
    for word in path.split("/"):
        if word == "..":
            del out[-1:]
        elif word not in ("", "."):
            out.append(word)
    return tuple(out)


def fold(word: str) -> str:
    """Return a word as a file system that ignores case, form and invisible marks may see it."""
    if word.isascii() and word.isprintable():
        return word.lower()
    seen = "".join(char for char in word if char.isprintable() or not hides(char))
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", seen).casefold())


def match(pattern: Parts, path: Parts) -> bool:
    """Match components; at a mismatch only the last `**` has to take one more."""
    at = here = 0
    again, taken = -1, 0
    while here < len(path):
        if at < len(pattern) and pattern[at] == _ANY:
            again, taken = at, here
            at += 1
        elif at < len(pattern) and _fits(pattern[at], path[here]):
            at, here = at + 1, here + 1
        elif again >= 0:
            taken += 1
            at, here = again + 1, taken
        else:
            return False
    return all(part == _ANY for part in pattern[at:])


def _fits(pattern: str, word: str) -> bool:
    """Match one component, each piece between two `*` at its first place."""
    if "*" not in pattern:
        return pattern == word
    first, *middle, last = pattern.split("*")
    at, end = len(first), len(word) - len(last)
    if at > end or not word.startswith(first) or not word.endswith(last):
        return False
    for piece in middle:
        found = word.find(piece, at, end)
        if found < 0:
            return False
        at = found + len(piece)
    return True
