"""Markdown that comes in pieces, cut into the blocks that are finished and the rest. Pure.

A block is finished when another one begins: what comes later cannot change it any more. Where the
text was cut on its way makes no difference. A block that does not end is cut after so many lines,
so that what is shown as unfinished, and what is parsed again, stays small.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

# Lines of a block that are kept for it to be finished; code goes on as well in parts.
LONGEST: Final = 200
LONGEST_CODE: Final = 60

# Characters of a block, and of a line without an end.
LARGEST: Final = 16_384
LONGEST_LINE: Final = 2_048


@dataclass(frozen=True, slots=True)
class Block:
    """One block, or a part of one.

    Attributes:
        source: its Markdown.
        joined: whether it goes on where the block before it was cut.
    """

    source: str
    joined: bool = False


def parser() -> MarkdownIt:
    """Return a parser that hides no word: definitions, HTML and images are text like any other."""
    made = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    return made.disable(["reference", "html_block", "html_inline", "entity", "image"])


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a block is kept for it to be finished.

    Attributes:
        lines: of any block.
        code: lines of fenced code.
        size: characters.
        line: characters of a line.
    """

    lines: int = LONGEST
    code: int = LONGEST_CODE
    size: int = LARGEST
    line: int = LONGEST_LINE


class Blocks:
    """The text of one message.

    Args:
        limits: at which a block is cut.
    """

    def __init__(self, limits: Limits = Limits()) -> None:
        self.fresh = 0
        self._limits = limits
        self._lines: list[str] = []
        self._open = ""
        self._joined = False
        self._parser = parser()
        self._parser.core.ruler.enableOnly(["normalize", "block"])

    @property
    def rest(self) -> str:
        """What was not taken yet."""
        return "".join(self._lines) + self._open

    def feed(self, text: str) -> None:
        """Take more of the text; `fresh` counts the characters since the last look."""
        self.fresh += len(text)
        *whole, self._open = (self._open + text).split("\n")
        for line in whole:
            self._lines += [part + "\n" for part in self._parts(line)]
        *parts, self._open = self._parts(self._open)
        self._lines += [part + "\n" for part in parts]

    def _parts(self, line: str) -> list[str]:
        size = self._limits.line
        return [line[at : at + size] for at in range(0, len(line), size)] or [""]

    def take(self, *, last: bool = False) -> list[Block]:
        """Return what is finished; everything, if this was the last of it."""
        self.fresh = 0
        if last and self._open:
            self._lines.append(self._open)
            self._open = ""
        out: list[Block] = []
        count = -1
        while count != len(self._lines):  # until a look finds nothing more to take
            count = len(self._lines)
            out += self._finished(last=last)
        return [block for block in out if block.source.strip()]

    def preview(self) -> list[Block]:
        """Return the rest as it would be cut if this were all; nothing is taken."""
        twin = Blocks(self._limits)
        twin.feed(self.rest)
        return twin.take(last=True)

    def _finished(self, *, last: bool) -> Iterator[Block]:
        """Take what one look finds: up to the block that must be cut, or to the last one."""
        lines = self._lines[: self._window()]
        behind = self._lines[len(lines) :]
        last = last and not behind
        tokens = self._parser.parse("".join(lines))
        starts = [t for t in tokens if t.level == 0 and t.nesting >= 0 and t.map is not None]
        taken = _begin(starts[0]) if starts else 0
        for index, token in enumerate(starts):
            after = starts[index + 1 :]
            end = _begin(after[0]) if after else len(lines)
            cut = self._cut(token, taken, end)
            if cut < end:
                yield Block("".join(lines[taken:cut]), self._joined)
                self._joined = True
                again = lines[taken : taken + 1] if token.type == "fence" else []
                self._lines = again + lines[cut:] + behind
                return
            if not after and not last:
                break
            yield Block("".join(lines[taken:end]), self._joined)
            self._joined = False
            taken = end
        self._lines = (lines[taken:] if starts or not behind else []) + behind

    def _window(self) -> int:
        """Return how many lines are looked at: so many that of them a block ends, or is cut."""
        most = 2 * max(self._limits.lines, self._limits.code) + 2
        size = 0
        for index, line in enumerate(self._lines[:most]):
            size += len(line)
            if size > 2 * (self._limits.size + self._limits.line) and index > 2:
                return index + 1
        return most

    def _cut(self, token: Token, start: int, end: int) -> int:
        """Return the line before which a block must be cut, or its end."""
        fence = token.type == "fence"
        most = min(end, start + (self._limits.code if fence else self._limits.lines))
        size = 0
        for index in range(start, most):
            size += len(self._lines[index])
            # At least one line, and of code one behind the fence: else nothing would get on.
            if size > self._limits.size and index > start + fence:
                return index
        return most


def _begin(token: Token) -> int:
    assert token.map is not None
    return token.map[0]
