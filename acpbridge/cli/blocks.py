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

# Characters of a line without an end.
LONGEST_LINE: Final = 8_192


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


class Blocks:
    """The text of one message.

    Args:
        longest: lines of a block before it is cut.
        longest_code: lines of fenced code before it is cut.
        longest_line: characters of a line before it is cut.
    """

    def __init__(
        self,
        longest: int = LONGEST,
        longest_code: int = LONGEST_CODE,
        longest_line: int = LONGEST_LINE,
    ) -> None:
        self._longest = longest
        self._longest_code = longest_code
        self._longest_line = longest_line
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
        """Take more of the text."""
        *whole, self._open = (self._open + text).split("\n")
        for line in whole:
            self._lines += [part + "\n" for part in self._parts(line)]
        *parts, self._open = self._parts(self._open)
        self._lines += [part + "\n" for part in parts]

    def _parts(self, line: str) -> list[str]:
        size = self._longest_line
        return [line[at : at + size] for at in range(0, len(line), size)] or [""]

    def take(self, *, last: bool = False) -> list[Block]:
        """Return what is finished; everything, if this was the last of it."""
        if last and self._open:
            self._lines.append(self._open)
            self._open = ""
        out: list[Block] = []
        while (found := list(self._finished(last=last))) != []:
            out += found
        return [block for block in out if block.source.strip()]

    def preview(self) -> list[Block]:
        """Return the rest as it would be cut if this were all; nothing is taken."""
        twin = Blocks(self._longest, self._longest_code, self._longest_line)
        twin.feed(self.rest)
        return twin.take(last=True)

    def _finished(self, *, last: bool) -> Iterator[Block]:
        """Take what one look finds: up to the block that must be cut, or to the last one."""
        lines = self._lines
        tokens = self._parser.parse("".join(lines))
        starts = [t for t in tokens if t.level == 0 and t.nesting >= 0 and t.map is not None]
        taken = _begin(starts[0]) if starts else 0
        for index, token in enumerate(starts):
            after = starts[index + 1 :]
            end = _begin(after[0]) if after else len(lines)
            limit = self._limit(token)
            if end - taken > limit:
                cut = taken + limit
                yield Block("".join(lines[taken:cut]), self._joined)
                self._joined = True
                again = lines[taken : taken + 1] if token.type == "fence" else []
                self._lines = again + lines[cut:]
                return
            if not after and not last:
                break
            yield Block("".join(lines[taken:end]), self._joined)
            self._joined = False
            taken = end
        self._lines = lines[taken:] if starts else lines

    def _limit(self, token: Token) -> int:
        return self._longest_code if token.type == "fence" else self._longest


def _begin(token: Token) -> int:
    assert token.map is not None
    return token.map[0]
