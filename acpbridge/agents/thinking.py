"""Separates what a model thinks from what it says, where it writes both into one text. Pure.

Some models put their thoughts between `<think>` and `</think>` (or `<thinking>`), in the middle of
the answer. `strip_think_blocks` takes them out of a whole text; `Separator` does it while the text
still comes, in pieces that may be cut anywhere. A block that is never closed is a thought to its
end.
"""

import re
from typing import Final

_TAG: Final = re.compile(r"<(/?)think(?:ing)?>", re.IGNORECASE)

# What may still become a tag when more of the text has come.
_BEGUN: Final = tuple(
    tag[:length]
    for tag in ("<thinking>", "</thinking>", "<think>", "</think>")
    for length in range(1, len(tag))
)
_LONGEST: Final = len("</thinking>")


class Separator:
    """Takes a text piece by piece; each answer is what is said for certain, and what is thought."""

    def __init__(self) -> None:
        self._held = ""
        self._depth = 0

    def feed(self, piece: str) -> tuple[str, str]:
        """Return what a further piece makes certain: what is said, and what is thought."""
        text = self._held + piece
        keep = _begun(text)
        self._held = text[len(text) - keep :]
        return self._split(text[: len(text) - keep])

    def end(self) -> tuple[str, str]:
        """Return the rest: what looked like the beginning of a tag was none."""
        rest, self._held = self._held, ""
        return self._split(rest)

    def _split(self, text: str) -> tuple[str, str]:
        said: list[str] = []
        thought: list[str] = []
        at = 0
        for tag in _TAG.finditer(text):
            (thought if self._depth else said).append(text[at : tag.start()])
            self._depth = max(0, self._depth - 1) if tag[1] else self._depth + 1
            at = tag.end()
        (thought if self._depth else said).append(text[at:])
        return "".join(said), "".join(thought)


def strip_think_blocks(text: str) -> str:
    """Return a text without its thoughts, and without the space that they leave at its ends."""
    separator = Separator()
    first, _ = separator.feed(text)
    last, _ = separator.end()
    return (first + last).strip()


def _begun(text: str) -> int:
    """Return how many characters at the end may be the beginning of a tag."""
    end = text[-_LONGEST:].lower()
    return max((len(part) for part in _BEGUN if end.endswith(part)), default=0)
