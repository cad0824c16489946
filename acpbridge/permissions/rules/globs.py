"""Paths and the patterns that rules have for them, compared by component, never as text.

`*` stands for any part of one component, `**` alone for any number of whole ones. What stands
before the first `**` and behind the last is compared in its place; only between two of them is
anything searched for, each piece at its first place, so that no pattern goes back.
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
class Shape:
    """The components of a pattern, cut at each `**`."""

    pieces: tuple[Parts, ...]

    @classmethod
    def of(cls, words: Sequence[str]) -> "Shape":
        """Cut components up."""
        pieces: list[list[str]] = [[]]
        for word in words:
            if word == _ANY:
                pieces.append([])
            else:
                pieces[-1].append(word)
        return cls(tuple(map(tuple, pieces)))

    def covers(self, path: Parts) -> bool:
        """Tell whether a path, as components, is meant."""
        first, *between = self.pieces
        size = len(first)
        if not between:
            return len(path) == size and _fit(first, path, 0)
        last = between.pop()
        at, end = size, len(path) - len(last)
        if at > end or not _fit(first, path, 0) or not _fit(last, path, end):
            return False
        for piece in between:
            while at + len(piece) <= end and not _fit(piece, path, at):
                at += 1
            at += len(piece)
        return at <= end


@dataclass(frozen=True, slots=True)
class Glob:
    """A rule's pattern of paths.

    Attributes:
        text: as it is written.
        in_root: whether it begins at a directory of the session, else at `/`.
        parts: its components behind that.
        exact: what they cover.
        folded: the same, to be compared with folded paths.
    """

    text: str
    in_root: bool
    parts: Parts
    exact: Shape
    folded: Shape

    def covers(self, path: Parts, roots: Sequence[Parts], *, folded: bool = False) -> bool:
        """Tell whether a path is meant; `folded` if path and roots are."""
        shape = self.folded if folded else self.exact
        if not self.in_root:
            return shape.covers(path)
        return any(path[: len(root)] == root and shape.covers(path[len(root) :]) for root in roots)

    @property
    def landmark(self) -> str | None:
        """A component, folded, that every path has which is meant; None: there is none."""
        plain = (word for piece in reversed(self.folded.pieces) for word in reversed(piece))
        return next((word for word in plain if "*" not in word), None)


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
    words = rest.removeprefix("/").split("/") if rest not in ("", "/") or text == f"{ROOT}/" else []
    for word in words:
        if word in ("", ".", ".."):
            raise ValueError("it has an empty component, . or ..; write the path out")
        if _FOREIGN & set(word) or (_ANY in word and word != _ANY):
            raise ValueError("only * within a component and ** as a whole one are known")
        if hides(word):
            raise ValueError("it holds a character that cannot be seen; remove it")
    return Glob(text, in_root, tuple(words), Shape.of(words), Shape.of(tuple(map(fold, words))))


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
    seen = "".join(char for char in word if not hides(char)) if hides(word) else word
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", seen).casefold())


def _fit(piece: Parts, path: Parts, at: int) -> bool:
    return all(_fits(word, path[at + place]) for place, word in enumerate(piece))


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
